"""A tool as a server describes it, cut to what a model is told; its hash is what a person agrees to (S48)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from runtime.tools.errors import ToolDefinitionError
from runtime.tools.mcp.config import EVERY, McpServer
from runtime.tools.mcp.names import local_name
from runtime.tools.mcp.plain import plain_text
from runtime.tools.mcp.schemas import SchemaRefused, checker, fitted
from runtime.tools.scope import ToolName
from runtime.tools.tool import Run, Tool
from store.tool_pins import SeenTool, ToolPin

_NO_WORDS = "(its server does not say what it does)"


class CardRefused(ValueError):
    """The description of a tool cannot be used; the message says why."""


@dataclass(frozen=True)
class Card:
    """What is known of one tool of a server. `renamed`: the server's names of parameters that have others here."""

    name: ToolName
    server: str
    remote: str
    description: str
    schema: Mapping[str, Any]
    renamed: Mapping[str, str]

    @cached_property
    def hash(self) -> str:
        """`Tool.schema_hash`: of its name here, its description and its schema as a model is told them."""
        return Tool(self.name, self.description, self.schema, _no_check, _no_run).schema_hash

    def seen(self) -> SeenTool:
        """What is stored of it."""
        return SeenTool(self.name, self.server, self.remote, self.hash, self.description, dict(self.schema))

    def theirs(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments under the server's own names."""
        return {self.renamed.get(name, name): value for name, value in arguments.items()}


def card_of(server: McpServer, remote: str, description: str | None, schema: Any) -> Card:
    """The card of a tool as its server describes it. Raises `CardRefused`."""
    try:
        found = fitted(schema)
        words = plain_text(description or "").strip() or _NO_WORDS
        card = Card(local_name(server.name, remote), server.name, remote, words, found.schema, found.renamed)
        _ = card.hash  # a name that no tool may have is refused here
    except (SchemaRefused, ToolDefinitionError) as error:
        raise CardRefused(str(error)) from error
    return card


def stored_card(pin: ToolPin) -> Card:
    """A tool as it was seen last. It stands for the tool until its server has answered."""
    schema = pin.parameters if isinstance(pin.parameters, dict) else {}
    return Card(ToolName(pin.tool), pin.server, pin.remote, pin.description, schema, {})


def tool_of(card: Card, server: McpServer, run: Run) -> Tool:
    """The tool that agents use, under the operator's rules. Raises `CardRefused`."""
    try:
        return Tool(
            name=card.name,
            description=card.description,
            schema=card.schema,
            check=checker(card.schema),
            run=run,
            read_only=_listed(card, server.read_only),
            idempotent=_listed(card, server.idempotent),
            needs_approval=_listed(card, server.needs_approval),
            time_out_s=server.time_out_s,
            output_chars=server.max_output_chars,
            foreign=True,
        )
    except ToolDefinitionError as error:
        raise CardRefused(str(error)) from error


def _listed(card: Card, names: frozenset[str]) -> bool:
    return card.remote in names or EVERY in names


def _no_check(arguments: Mapping[str, Any]) -> dict[str, Any]:
    raise AssertionError("a card is no tool yet")


async def _no_run(scope: object, arguments: Mapping[str, Any]) -> Any:
    raise AssertionError("a card is no tool yet")
