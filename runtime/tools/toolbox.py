"""The tools of a deployment, and which type of agent may use which. What is not granted is denied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from runtime.tools.errors import ToolDefinitionError
from runtime.tools.escaping import literal, wrap_as_data
from runtime.tools.render import render_call
from runtime.tools.schema import ParamSpec
from runtime.tools.scope import AgentType, ToolName
from runtime.tools.tool import Tool

Json = dict[str, Any]

#: in grants: every type of agent; no type has this name
EVERY_TYPE = AgentType("*")
_NOTHING: frozenset[ToolName] = frozenset()
_WORDS = frozenset({"description", "title", "$comment"})
_VALUES = frozenset({"enum", "const", "default", "examples"})


class Toolbox:
    """Named tools with their permissions. Nothing in it changes; a changed set of tools is a new toolbox.

    `grants` says for each type of agent the names of the tools that it may use, and for `EVERY_TYPE` what all may.
    `pins` holds, for tools that a person has looked at, the `schema_hash` they had then: a tool that is not that any
    more is off for everybody (S48).

    Raises `ToolDefinitionError` for two tools of one name, and for a grant of a tool that is not there.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        grants: Mapping[AgentType, Iterable[ToolName]],
        *,
        pins: Mapping[ToolName, str] | None = None,
    ) -> None:
        self._tools = _by_name(tools)
        self._grants = {agent_type: frozenset(names) for agent_type, names in grants.items()}
        self._pins = dict(pins or {})
        for agent_type, names in self._grants.items():
            if missing := sorted(names - self._tools.keys()):
                raise ToolDefinitionError(
                    f"agents of type {agent_type!r} are granted {', '.join(missing)}, which is no tool here; "
                    f"there are {', '.join(sorted(self._tools)) or 'none'}"
                )

    @property
    def tools(self) -> Mapping[ToolName, Tool]:
        """All tools, by name, whoever may use them."""
        return MappingProxyType(self._tools)

    def permits(self, agent_type: AgentType, name: str) -> bool:
        """Whether agents of a type may use a tool."""
        return name in self._grants.get(agent_type, _NOTHING) or name in self._grants.get(EVERY_TYPE, _NOTHING)

    def has_changed(self, tool: Tool) -> bool:
        """Whether a tool is not what a person agreed to any more."""
        return self._pins.get(tool.name, tool.schema_hash) != tool.schema_hash

    def of(self, agent_type: AgentType) -> tuple[Tool, ...]:
        """The tools that agents of a type may use now, by name: what `parse_reply` is given."""
        return tuple(
            tool
            for name, tool in sorted(self._tools.items())
            if self.permits(agent_type, name) and not self.has_changed(tool)
        )

    def described(self, agent_type: AgentType) -> str:
        """What a prompt says about the tools of a type of agent, with how to call them in XML; "" when it has none."""
        return "\n\n".join(_described(tool) for tool in self.of(agent_type))

    def native(self, agent_type: AgentType) -> list[Json]:
        """The `tools` of a chat completions request; [] when there are none (leave the field out then)."""
        return [
            {
                "type": "function",
                "function": {"name": tool.name, "description": _told(tool), "parameters": _told_schema(tool)},
            }
            for tool in self.of(agent_type)
        ]


def _by_name(tools: Iterable[Tool]) -> dict[ToolName, Tool]:
    found: dict[ToolName, Tool] = {}
    for tool in tools:
        if tool.name in found:
            raise ToolDefinitionError(f"there are two tools {tool.name!r}; rename one of them")
        found[tool.name] = tool
    return found


def _described(tool: Tool) -> str:
    lines = [f"## {tool.name}", wrap_as_data(tool.description, source=tool.name) if tool.foreign else tool.description]
    if tool.needs_approval:
        lines.append("A person has to agree to each call.")
    lines.extend(_described_param(spec, foreign=tool.foreign) for spec in tool.params)
    return "\n".join([*lines, render_call(tool.name, {spec.name: "..." for spec in tool.params})])


def _described_param(spec: ParamSpec, *, foreign: bool) -> str:
    kind = literal(spec.kind) if foreign else spec.kind
    said = f": {literal(spec.description) if foreign else spec.description}" if spec.description else ""
    return f"- {spec.name} ({kind}{'' if spec.required else '; may be left out'}){said}"


def _told(tool: Tool) -> str:
    return wrap_as_data(tool.description, source=tool.name) if tool.foreign else tool.description


def _told_schema(tool: Tool) -> Json:
    return _words_as_data(dict(tool.schema)) if tool.foreign else dict(tool.schema)


def _words_as_data(schema: Any) -> Any:
    """A schema that others wrote, with what it says in words as data; names and values stay as they are."""
    if isinstance(schema, list):
        return [_words_as_data(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _word_as_data(key, value) for key, value in schema.items()}


def _word_as_data(key: str, value: Any) -> Any:
    if key in _WORDS and isinstance(value, str):
        return literal(value)
    return value if key in _VALUES else _words_as_data(value)
