"""A workspace in memory, for tests of whatever uses one: the same answers and errors, no disk."""

from __future__ import annotations

from runtime.tools.workspace.blocks import apply_blocks, read_blocks
from runtime.tools.workspace.errors import (
    AlreadyThereError,
    NotThereError,
    PathRefusedError,
    TooMuchError,
    WrongKindError,
)
from runtime.tools.workspace.paths import Confined, confined
from runtime.tools.workspace.port import BytesPart, Entry, Kind, Limits, Listing, TextPart, WorkspacePort
from runtime.tools.workspace.text import bytes_part, decoded, encoded, replaced, text_part

Names = tuple[str, ...]
# Named here, because inside the class `list` is a method.
Many = list[Names]


class MemoryWorkspace(WorkspacePort):
    """Files in `held`: names from the root to the bytes of a file, or to None for a folder."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.held: dict[Names, bytes | None] = {}

    async def read_text(self, path: str, *, offset: int = 0, limit: int | None = None) -> TextPart:
        at = self._path(path)
        return text_part(at, self._content(at), offset, self._limit(limit))

    async def read_base64(self, path: str, *, offset: int = 0, limit: int | None = None) -> BytesPart:
        at = self._path(path)
        return bytes_part(at, self._content(at), offset, self._limit(limit))

    async def write(self, path: str, content: str | bytes, *, parents: bool = False, overwrite: bool = True) -> int:
        at = self._path(path, inner=True)
        data = encoded(at, content)
        if self._kind_for_file(at) is not None and not overwrite:
            raise AlreadyThereError(f"{at} is there already")
        return self._put(at, data, parents)

    async def append(self, path: str, content: str | bytes, *, parents: bool = False) -> int:
        at = self._path(path, inner=True)
        more = encoded(at, content)
        old = b"" if self._kind_for_file(at) is None else self._content(at)
        return self._put(at, old + more, parents)

    async def list(self, path: str = ".") -> Listing:
        return await self.tree(path, depth=1)

    async def tree(self, path: str = ".", *, depth: int = 3) -> Listing:
        at = self._path(path)
        self._expect_folders(at.names)
        down = len(at.names) + min(depth, self.limits.depth)
        # Entries in the order of a walk, each folder before what is in it, which is the order of their names.
        below = [names for names in sorted(self.held) if _lies_in(names, at.names) and len(names) <= down]
        most = self.limits.listed
        return Listing(tuple(self._entry(names) for names in below[:most]), truncated=len(below) > most)

    async def mkdir(self, path: str, *, parents: bool = False) -> None:
        at = self._path(path)
        kind = self._kind(at)
        if kind is not None and not (parents and kind is Kind.FOLDER):
            raise AlreadyThereError(f"{at} is there already")
        if kind is None:
            self._expect_room(at, 1, 0, parents)
            self._make_folders(at.names)

    async def delete(self, path: str, *, recursive: bool = False) -> None:
        at = self._path(path, inner=True)
        self._source_kind(at)
        below = self._below(at)
        if below and not recursive:
            raise AlreadyThereError(f"{at} is not empty: delete it recursively")
        for names in [at.names, *below]:
            del self.held[names]

    async def move(self, source: str, target: str, *, parents: bool = False, overwrite: bool = False) -> None:
        origin, at = self._path(source, inner=True), self._path(target, inner=True)
        self._expect_target(origin, at, overwrite)
        moved = [origin.names, *self._below(origin)]
        self._expect_depth(origin, at, moved)
        self._expect_room(at, 0, 0, parents)
        self._make_folders(at.folder)
        content = {(*at.names, *names[len(origin.names) :]): self.held.pop(names) for names in moved}
        self.held.update(content)

    async def copy(self, source: str, target: str, *, parents: bool = False, overwrite: bool = False) -> None:
        origin, at = self._path(source, inner=True), self._path(target, inner=True)
        self._expect_target(origin, at, overwrite)
        content = self.held[origin.names]
        if content is not None:
            self._put(at, content, parents)
            return
        copied = [origin.names, *self._below(origin)]
        self._expect_depth(origin, at, copied)
        self._expect_room(at, len(copied), sum(len(self.held[names] or b"") for names in copied), parents)
        self._make_folders(at.folder)
        self.held.update({(*at.names, *names[len(origin.names) :]): self.held[names] for names in copied})

    async def exists(self, path: str) -> Kind | None:
        return self._kind(self._path(path))

    async def find_replace(self, path: str, find: str, replace: str, *, expected: int | None = None) -> int:
        at = self._path(path, inner=True)
        text, count = replaced(at, decoded(at, self._content(at)), find, replace, expected)
        self._put(at, encoded(at, text), parents=False)
        return count

    async def search_replace(self, path: str, blocks: str) -> int:
        at = self._path(path, inner=True)
        read = read_blocks(blocks)
        there = self._kind_for_file(at) is not None
        old = decoded(at, self._content(at)) if there or read[0].search else ""
        self._put(at, encoded(at, apply_blocks(old, read)), parents=False)
        return len(read)

    # --- parts of the above ------------------------------------------------------------------------------------------

    def _path(self, given: str, inner: bool = False) -> Confined:
        path = confined(given, self.limits.depth)
        if inner and path.is_root:
            raise PathRefusedError(f"{path} is the workspace itself: name something in it")
        return path

    def _limit(self, limit: int | None) -> int:
        return self.limits.read if limit is None else min(limit, self.limits.read)

    def _kind(self, path: Confined) -> Kind | None:
        for depth in range(1, len(path.names)):
            if path.names[:depth] not in self.held:
                return None
            self._expect_folders(path.names[:depth])
        if path.is_root:
            return Kind.FOLDER
        if path.names not in self.held:
            return None
        return Kind.FOLDER if self.held[path.names] is None else Kind.FILE

    def _expect_folders(self, names: Names) -> None:
        """Raise unless every name leads on to a folder that is there."""
        for depth in range(1, len(names) + 1):
            if names[:depth] not in self.held:
                raise NotThereError(f"{'/'.join(names)!r} is not there")
            if self.held[names[:depth]] is not None:
                raise WrongKindError(f"{'/'.join(names)!r} leads through something that is no folder")

    def _kind_for_file(self, path: Confined) -> Kind | None:
        kind = self._kind(path)
        if kind is Kind.FOLDER:
            raise WrongKindError(f"{path} is there and no plain file")
        return kind

    def _source_kind(self, path: Confined) -> Kind:
        kind = self._kind(path)
        if kind is None:
            raise NotThereError(f"{path} is not there")
        return kind

    def _content(self, path: Confined) -> bytes:
        self._expect_folders(path.folder)
        if not path.is_root and path.names not in self.held:
            raise NotThereError(f"{path} is not there")
        content = None if path.is_root else self.held[path.names]
        if content is None:
            raise WrongKindError(f"{path} is a folder: name a file")
        return content

    def _below(self, path: Confined) -> Many:
        return [names for names in self.held if _lies_in(names, path.names)]

    def _entry(self, names: Names) -> Entry:
        content = self.held[names]
        return Entry("/".join(names), *((Kind.FOLDER,) if content is None else (Kind.FILE, len(content))))

    def _expect_target(self, source: Confined, path: Confined, overwrite: bool) -> None:
        kind = self._source_kind(source)
        if path.names[: len(source.names)] == source.names:
            raise AlreadyThereError(f"{path} is {source} itself or lies in it")
        there = self._kind(path)
        if there is not None and not (overwrite and there is Kind.FILE and kind is Kind.FILE):
            raise AlreadyThereError(f"{path} is there already")

    def _expect_depth(self, source: Confined, path: Confined, moved: Many) -> None:
        if len(path.names) - len(source.names) + max(map(len, moved)) > self.limits.depth:
            raise TooMuchError(f"{path} would be too deep")

    def _expect_room(self, path: Confined, entries: int, size: int, parents: bool) -> None:
        missing = sum(path.names[:depth] not in self.held for depth in range(1, len(path.names)))
        if missing and not parents:
            raise NotThereError(f"{path} is not there: a folder on the way is missing")
        grows = entries + missing > 0
        if grows and len(self.held) + entries + missing > self.limits.entries:
            raise TooMuchError(f"{path}: too many files and folders: delete some")
        if size > 0 and sum(len(content or b"") for content in self.held.values()) + size > self.limits.total_bytes:
            raise TooMuchError(f"{path}: too many bytes: delete some")

    def _make_folders(self, names: Names) -> None:
        for depth in range(1, len(names) + 1):
            self.held.setdefault(names[:depth], None)

    def _put(self, path: Confined, data: bytes, parents: bool) -> int:
        if len(data) > self.limits.file_bytes:
            raise TooMuchError(f"{path} would have {len(data)} bytes: a file may have {self.limits.file_bytes}")
        old = self.held.get(path.names)
        self._expect_room(path, 0 if path.names in self.held else 1, len(data) - len(old or b""), parents)
        self._make_folders(path.folder)
        self.held[path.names] = data
        return len(data)


def _lies_in(names: Names, folder: Names) -> bool:
    return len(names) > len(folder) and names[: len(folder)] == folder
