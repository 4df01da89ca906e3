"""`tools.toml`: which type of agent may use which tools, and what the tools may reach. An error says file, key, cure.

[grants]
"*" = ["clock", "calculator"]           # every type of agent
research = ["fetch", "search_history"]

[fetch]
hosts = ["example.org", "*.example.org"]

[workspace]
root = "/srv/agents"

[mcp.<name>]                            # servers of others, read elsewhere
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from runtime.errors import SettingError
from runtime.tools.fetch.port import ANY_NAME, MIB, FetchRules
from runtime.tools.workspace.port import Limits

_SHOWN_CHARS = 80
_CURES = {
    "extra_forbidden": "remove it or correct its name",
    "missing": "add it",
    "string_type": "put it into quotes",
    "tuple_type": "make it a list",
    "dict_type": "make it a table",
    "model_type": "make it a table",
    "model_attributes_type": "make it a table",
}
_Count = Annotated[int, Field(gt=0)]
_USUAL = Limits()


class ToolsFileError(SettingError):
    """`tools.toml` cannot be used; no tool was made."""


class _Entry(BaseModel):
    """A table of the file: unknown keys are misspelt ones."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class FetchEntry(_Entry):
    """[fetch]: what may be fetched (docs/fetch.md)."""

    hosts: tuple[str, ...] = ()
    #: "host:port" that may be asked although they are in a private network
    internal: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ("https",)
    body_bytes: _Count = 2 * MIB
    deadline_s: Annotated[float, Field(gt=0, le=600)] = 20.0
    #: characters of a page that one call shows
    text_chars: Annotated[int, Field(ge=100, le=100_000)] = 12_000
    #: with text from outside in its context a session asks a person before each further fetch
    ask_when_tainted: bool = True

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if ANY_NAME in self.hosts and not self.ask_when_tainted:
            raise ValueError(
                'ask_when_tainted = false needs hosts by name: with "*" a page could send anything anywhere'
            )
        self.rules()
        return self

    def rules(self) -> FetchRules:
        """The rules that a fetcher keeps. Raises `ValueError` for what is no host or no port."""
        return FetchRules(
            hosts=self.hosts,
            internal=frozenset(map(_host_and_port, self.internal)),
            schemes=frozenset(self.schemes),
            body_bytes=self.body_bytes,
            deadline_s=self.deadline_s,
        )


class WorkspaceEntry(_Entry):
    """[workspace]: where agents keep files, and how much (docs/workspace.md)."""

    #: `<data folder>/workspaces` when left out
    root: Path | None = None
    file_bytes: _Count = _USUAL.file_bytes
    total_bytes: _Count = _USUAL.total_bytes
    entries: _Count = _USUAL.entries

    def limits(self) -> Limits:
        """The limits of each workspace."""
        return Limits(file_bytes=self.file_bytes, total_bytes=self.total_bytes, entries=self.entries)


class ToolsFile(_Entry):
    """The whole file. `grants` is None where it says nothing of them; `mcp` is handed on as it is."""

    grants: dict[str, tuple[str, ...]] | None = None
    fetch: FetchEntry | None = None
    workspace: WorkspaceEntry = WorkspaceEntry()
    mcp: dict[str, Any] = Field(default_factory=dict)


def read_tools(path: Path) -> ToolsFile:
    """What the file at `path` says; a relative root starts at its folder. Raises `ToolsFileError`, a mistake a line."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ToolsFileError(f"{path}: cannot be read: {error.strerror}; make it or correct STEPWELL_TOOLS") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ToolsFileError(f"{path}: not TOML: {error}; mend that place") from error
    try:
        file = ToolsFile.model_validate(found)
    except ValidationError as error:
        raise ToolsFileError("\n".join(_told(path, dict(one)) for one in error.errors(include_url=False))) from error
    root = file.workspace.root
    if root is None:
        return file
    return file.model_copy(update={"workspace": file.workspace.model_copy(update={"root": path.parent / root})})


def _told(path: Path, problem: dict[str, Any]) -> str:
    steps = [str(step) for step in problem["loc"]]
    table = f"[{steps[0]}]" if steps else "the file"
    key = f" {'.'.join(steps[1:])}" if len(steps) > 1 else ""
    value = problem.get("input")
    shown = "" if problem["type"] == "missing" or isinstance(value, dict) else f" = {repr(value)[:_SHOWN_CHARS]}"
    message = str(problem["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    return f"{path}: {table}{key}{shown}: {message}; {_CURES.get(problem['type'], 'correct it')}"


def _host_and_port(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise ValueError(f"{text!r} is no host and port; write it as 127.0.0.1:8080")
    return host, int(port)
