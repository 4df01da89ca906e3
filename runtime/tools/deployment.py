"""Puts the tools of a deployment together: the built-in ones, those of other parts, and who may use them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from runtime.memory.port import Memory
from runtime.memory.tools import memory_tools
from runtime.tools.builtin.calculator import calculator
from runtime.tools.builtin.clock import clock
from runtime.tools.builtin.fetch import fetch_tool
from runtime.tools.builtin.files import file_system_tool
from runtime.tools.builtin.history import search_history_tool
from runtime.tools.builtin.python import run_python
from runtime.tools.errors import ToolFailed
from runtime.tools.fetch.fetcher import Fetcher
from runtime.tools.nearest import did_you_mean
from runtime.tools.offer import ToolOffer
from runtime.tools.scope import AgentType, ToolName, ToolScope
from runtime.tools.tool import Tool
from runtime.tools.toolbox import EVERY_TYPE
from runtime.tools.toolsfile import ToolsFile, ToolsFileError, read_tools
from runtime.tools.workspace.scopes import Workspaces
from store.database import TenantStore

#: below the data folder, unless the file says otherwise
WORKSPACES = "workspaces"
#: what every type of agent may use where nobody says who may use what
DEFAULT_GRANTS = ("clock", "calculator", "search_history", "search_memory", "file_system")


def tool_offer(db: TenantStore, path: Path | None, data_folder: Path | None, more: Iterable[Tool] = ()) -> ToolOffer:
    """The tools of the file at `path`, or the default ones, with `more` from other parts.

    Raises `ToolsFileError` for a file that cannot be used. Nothing is opened and no folder made.
    """
    file = ToolsFile() if path is None else read_tools(path)
    tools = [*_builtin(db, file, data_folder), *more]
    return ToolOffer(tools, _grants(file, path, {tool.name: tool for tool in tools}))


def workspaces_of(path: Path | None, data_folder: Path | None) -> Workspaces | None:
    """Where the tools of the file at `path` keep agents' files; None where there is no place. Makes no folder."""
    return _workspaces(ToolsFile() if path is None else read_tools(path), data_folder)


def _workspaces(file: ToolsFile, data_folder: Path | None) -> Workspaces | None:
    root = file.workspace.root or (None if data_folder is None else data_folder / WORKSPACES)
    return None if root is None else Workspaces(root, file.workspace.limits())


def _builtin(db: TenantStore, file: ToolsFile, data_folder: Path | None) -> Iterator[Tool]:
    yield from (clock, calculator, run_python, search_history_tool(db), *memory_tools(_memory_of))
    if (workspaces := _workspaces(file, data_folder)) is not None:
        yield file_system_tool(workspaces)
    if (entry := file.fetch) is not None:
        yield fetch_tool(Fetcher(), entry.rules(), text_chars=entry.text_chars, gated=entry.ask_when_tainted)


def _memory_of(scope: ToolScope) -> Memory:
    if scope.memory is None:
        raise ToolFailed("there is no memory here: the call is part of no step")
    return scope.memory


def _grants(file: ToolsFile, path: Path | None, tools: Mapping[ToolName, Tool]) -> dict[AgentType, frozenset[ToolName]]:
    if file.grants is None:
        return {EVERY_TYPE: frozenset(ToolName(name) for name in DEFAULT_GRANTS)}
    if not file.mcp:  # whose tools are known only when they are reached
        _refuse_unknown(file.grants, path, tools)
    return {AgentType(kind): frozenset(map(ToolName, names)) for kind, names in file.grants.items()}


def _refuse_unknown(grants: Mapping[str, Iterable[str]], path: Path | None, tools: Mapping[ToolName, Tool]) -> None:
    wrong = [
        f"{path}: [grants] {kind} = {name!r}: there is no such tool; "
        f"{_missing(name) or did_you_mean(name, list(tools)) or 'there are ' + ', '.join(sorted(tools))}"
        for kind, names in grants.items()
        for name in names
        if name not in tools
    ]
    if wrong:
        raise ToolsFileError("\n".join(wrong))


def _missing(name: str) -> str | None:
    cures = {
        "fetch": "add a table [fetch] with hosts",
        "file_system": "add [workspace] root, since the data is in no folder",
    }
    return cures.get(name)
