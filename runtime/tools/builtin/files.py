"""The tool `file_system`: files in a session's own workspace, or in the one that its conversation shares."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, assert_never

from pydantic import Field

from runtime.guard.taint import CLEAN, Labelled, Taint
from runtime.tools.errors import ToolFailed
from runtime.tools.scope import ToolScope
from runtime.tools.tool import CallFlags, Tool, tool
from runtime.tools.workspace.errors import WorkspaceError
from runtime.tools.workspace.port import WorkspacePort
from runtime.tools.workspace.scopes import Workspaces

Action = Literal[
    "read",
    "list",
    "tree",
    "exists",
    "write",
    "append",
    "mkdir",
    "delete",
    "move",
    "copy",
    "find_replace",
    "search_replace_block",
]
_READS = frozenset({"read", "list", "tree", "exists"})
#: done twice it is as done once, as long as nobody else writes there
_SAME_TWICE = frozenset({"write"})
READ_CHARS = 16_000


def flags_of(arguments: Mapping[str, Any]) -> CallFlags:
    """Reading changes nothing; a file that only this session has may be written twice."""
    action = arguments.get("action")
    private = arguments.get("scope", "private") == "private"
    overwrites = arguments.get("overwrite", True) is True
    return CallFlags(read_only=action in _READS, idempotent=action in _SAME_TWICE and private and overwrites)


def file_system_tool(workspaces: Workspaces) -> Tool:
    """The tool over the operator's folder; it is made at the first call."""

    @tool(name="file_system", time_out_s=30, flags_of=flags_of)
    async def file_system(
        scope_: ToolScope,
        action: Action,
        path: Annotated[str, Field(description="relative to the workspace, names joined by /")] = ".",
        content: Annotated[
            str, Field(description="for write, append: the text; for search_replace_block: the SEARCH/REPLACE blocks")
        ] = "",
        scope: Annotated[
            Literal["private", "shared"], Field(description="your own files, or those of the conversation")
        ] = "private",
        target: Annotated[str, Field(description="for move, copy: the new path")] = "",
        find: Annotated[str, Field(description="for find_replace: the text as it stands there")] = "",
        replace: Annotated[str, Field(description="for find_replace: the text in its place")] = "",
        offset: Annotated[int, Field(ge=0, description="for read: the character to begin with")] = 0,
        overwrite: Annotated[bool, Field(description="for write: a file that is there may be replaced")] = True,
        recursive: Annotated[bool, Field(description="for delete: a folder with all that is in it")] = False,
    ) -> Any:
        """Read and change files in your workspace. Folders on the way to a new file are made."""
        await asyncio.to_thread(workspaces.folder.mkdir, parents=True, exist_ok=True)
        given = _Given(action, path, content, target, find, replace, offset, overwrite, recursive)
        try:
            answer = await given.carried_out(_workspace(workspaces, scope_, scope))
        except WorkspaceError as error:
            raise ToolFailed(str(error)) from error
        # Others write there too, and nobody here knows what they had read.
        return Labelled(answer, Taint.of("shared files") if scope == "shared" and action in _READS else CLEAN)

    return file_system


def _workspace(workspaces: Workspaces, scope: ToolScope, wanted: Literal["private", "shared"]) -> WorkspacePort:
    match wanted:
        case "private":
            return workspaces.private(scope.session_id)
        case "shared":
            if scope.conversation_id is None:
                raise ToolFailed("this session is in no conversation, so it shares no files; use the scope private")
            return workspaces.shared(scope.conversation_id)
        case _:
            assert_never(wanted)


@dataclass(frozen=True, slots=True)
class _Given:
    """One call."""

    action: Action
    path: str
    content: str
    target: str
    find: str
    replace: str
    offset: int
    overwrite: bool
    recursive: bool

    async def carried_out(self, files: WorkspacePort) -> Any:
        """What the workspace answers."""
        return await (self._read(files) if self.action in _READS else self._change(files))

    async def _read(self, files: WorkspacePort) -> Any:
        match self.action:
            case "list":
                return asdict(await files.list(self.path))
            case "tree":
                return asdict(await files.tree(self.path))
            case "exists":
                kind = await files.exists(self.path)
                return {"path": self.path, "kind": None if kind is None else kind.value}
            case _:
                return asdict(await files.read_text(self.path, offset=self.offset, limit=READ_CHARS))

    async def _change(self, files: WorkspacePort) -> Any:
        match self.action:
            case "write":
                size = await files.write(self.path, self.content, parents=True, overwrite=self.overwrite)
                return {"path": self.path, "bytes": size}
            case "append":
                return {"path": self.path, "bytes": await files.append(self.path, self.content, parents=True)}
            case "mkdir":
                await files.mkdir(self.path, parents=True)
            case "delete":
                await files.delete(self.path, recursive=self.recursive)
            case "move":
                await files.move(self.path, self.target, parents=True)
            case "copy":
                await files.copy(self.path, self.target, parents=True)
            case "find_replace":
                return {"path": self.path, "replaced": await files.find_replace(self.path, self.find, self.replace)}
            case "search_replace_block":
                return {"path": self.path, "replaced": await files.search_replace(self.path, self.content)}
            case "read" | "list" | "tree" | "exists":
                raise AssertionError(f"{self.action} reads")
            case _:
                assert_never(self.action)
        return {"path": self.path, "done": self.action}
