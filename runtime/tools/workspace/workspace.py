"""A workspace on disk: files of one session or one project that no path, link or race leads out of.

What keeps it confined is told in runtime/tools/workspace/root.py, what a crash leaves in docs/workspace.md.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from runtime.tools.workspace.files import Files
from runtime.tools.workspace.port import BytesPart, Kind, Limits, Listing, TextPart, WorkspacePort


class Workspace(WorkspacePort):
    """The files below `root`, a folder of the operator's that exists; below `root`/`inside`, made when needed.

    Calls block in threads of the event loop's pool. Changes wait for each other, in this process and in others, by a
    lock on the root that ends with the process that holds it. Keeps no file open between calls.
    """

    def __init__(self, root: Path, *, inside: tuple[str, ...] = (), limits: Limits | None = None) -> None:
        self._files = Files(root, inside, limits or Limits())

    async def read_text(self, path: str, *, offset: int = 0, limit: int | None = None) -> TextPart:
        return await asyncio.to_thread(self._files.read_text, path, offset, limit)

    async def read_base64(self, path: str, *, offset: int = 0, limit: int | None = None) -> BytesPart:
        return await asyncio.to_thread(self._files.read_base64, path, offset, limit)

    async def write(self, path: str, content: str | bytes, *, parents: bool = False, overwrite: bool = True) -> int:
        return await asyncio.to_thread(self._files.write, path, content, parents, overwrite)

    async def append(self, path: str, content: str | bytes, *, parents: bool = False) -> int:
        return await asyncio.to_thread(self._files.append, path, content, parents)

    async def list(self, path: str = ".") -> Listing:
        return await asyncio.to_thread(self._files.tree, path, 1)

    async def tree(self, path: str = ".", *, depth: int = 3) -> Listing:
        return await asyncio.to_thread(self._files.tree, path, depth)

    async def mkdir(self, path: str, *, parents: bool = False) -> None:
        await asyncio.to_thread(self._files.mkdir, path, parents)

    async def delete(self, path: str, *, recursive: bool = False) -> None:
        await asyncio.to_thread(self._files.delete, path, recursive)

    async def move(self, source: str, target: str, *, parents: bool = False, overwrite: bool = False) -> None:
        await asyncio.to_thread(self._files.move, source, target, parents, overwrite)

    async def copy(self, source: str, target: str, *, parents: bool = False, overwrite: bool = False) -> None:
        await asyncio.to_thread(self._files.copy, source, target, parents, overwrite)

    async def exists(self, path: str) -> Kind | None:
        return await asyncio.to_thread(self._files.exists, path)

    async def find_replace(self, path: str, find: str, replace: str, *, expected: int | None = None) -> int:
        return await asyncio.to_thread(self._files.find_replace, path, find, replace, expected)

    async def search_replace(self, path: str, blocks: str) -> int:
        return await asyncio.to_thread(self._files.search_replace, path, blocks)
