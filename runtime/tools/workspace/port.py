"""The port to a workspace: what can be asked of it, what comes back, and its limits.

`Workspace` keeps files on disk, `MemoryWorkspace` in memory. Both pass the same tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

MIB = 1024 * 1024


class Kind(StrEnum):
    """What is at a path."""

    FILE = "file"  # a plain file with one name
    FOLDER = "folder"
    OTHER = "other"  # a link, a file with several names, a device, a socket: shown in lists and never opened


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one workspace may hold, and how much one answer."""

    file_bytes: int = 4 * MIB
    total_bytes: int = 64 * MIB
    entries: int = 2_000  # files and folders together
    depth: int = 16  # names in a path
    read: int = 256 * 1024  # characters or bytes that one read returns
    listed: int = 1_000  # entries that one list or tree returns


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a list. `path` starts at the workspace's root; `size` is in bytes, None for what is no file."""

    path: str
    kind: Kind
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """Entries in the order of their names, a folder before what is in it. `truncated`: there are more."""

    entries: tuple[Entry, ...]
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of a file as text. Offsets count characters; `next_offset` is None at the end."""

    text: str
    offset: int
    total: int
    next_offset: int | None = None


@dataclass(frozen=True, slots=True)
class BytesPart:
    """A part of a file as base64. Offsets count bytes; `next_offset` is None at the end."""

    base64: str
    offset: int
    total: int
    next_offset: int | None = None


class WorkspacePort(Protocol):
    """Files of one session or one project.

    Paths are relative to the workspace's root, names joined by "/"; "." is the root. Every method raises
    `WorkspaceError` and nothing else for what a caller can get wrong. A call that is cancelled may still take effect,
    whole. A process that dies leaves each file in its old or its new content.
    """

    async def read_text(self, path: str, *, offset: int = 0, limit: int | None = None) -> TextPart:
        """A file's text from character `offset`, at most `limit` characters. `NotTextError` if it is not UTF-8."""
        ...

    async def read_base64(self, path: str, *, offset: int = 0, limit: int | None = None) -> BytesPart:
        """A file's bytes from byte `offset`, at most `limit` bytes."""
        ...

    async def write(self, path: str, content: str | bytes, *, parents: bool = False, overwrite: bool = True) -> int:
        """Put a file there at once and answer its size in bytes; `parents` makes the folders on the way."""
        ...

    async def append(self, path: str, content: str | bytes, *, parents: bool = False) -> int:
        """Add to the end of a file, or begin one, and answer its size in bytes."""
        ...

    async def list(self, path: str = ".") -> Listing:
        """What is in a folder."""
        ...

    async def tree(self, path: str = ".", *, depth: int = 3) -> Listing:
        """What is in a folder and in those in it, `depth` levels down."""
        ...

    async def mkdir(self, path: str, *, parents: bool = False) -> None:
        """Make a folder. One that is there already is an error, unless `parents` is set."""
        ...

    async def delete(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file or an empty folder; `recursive` also a folder with all that is in it, seen as one change."""
        ...

    async def move(self, source: str, target: str, *, parents: bool = False, overwrite: bool = False) -> None:
        """Give a file or folder another path. `overwrite` lets a file take the place of a file, never of a folder."""
        ...

    async def copy(self, source: str, target: str, *, parents: bool = False, overwrite: bool = False) -> None:
        """Copy a file, or a folder with all that is in it, seen as one change. A link in it refuses the whole."""
        ...

    async def exists(self, path: str) -> Kind | None:
        """What is at a path; None for nothing."""
        ...

    async def find_replace(self, path: str, find: str, replace: str, *, expected: int | None = None) -> int:
        """Replace every place where `find` stands, letter for letter, and answer how many there were.

        `EditError` for none, or for another number than `expected`.
        """
        ...

    async def search_replace(self, path: str, blocks: str) -> int:
        """Apply SEARCH/REPLACE blocks (runtime/tools/workspace/blocks.py), all or none, and answer how many."""
        ...
