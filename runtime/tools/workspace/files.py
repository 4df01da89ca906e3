"""The operations on a workspace on disk, one at a time and blocking. `Workspace` calls them in threads.

A change looks first and then acts, under the lock of `changing`: of callers that keep to the lock none comes in
between. Somebody else on the machine who does not keep to it can make a look untrue, and with it a limit or a courtesy
("is there already"); the confinement does not rest on looks (runtime/tools/workspace/root.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runtime.tools.workspace.blocks import apply_blocks, read_blocks
from runtime.tools.workspace.errors import (
    AlreadyThereError,
    PathRefusedError,
    TooMuchError,
    WrongKindError,
)
from runtime.tools.workspace.paths import STAGING, Confined, confined
from runtime.tools.workspace.port import BytesPart, Kind, Limits, Listing, TextPart
from runtime.tools.workspace.root import (
    FOLDER_MODE,
    changing,
    create_file,
    folder,
    kind_of,
    look,
    opened,
    put_file,
    read_file,
    told,
)
from runtime.tools.workspace.text import bytes_part, decoded, encoded, replaced, text_part
from runtime.tools.workspace.walking import Walk, Weight, listing, weigh


@dataclass(frozen=True, slots=True)
class Files:
    """The files below `base`/`inside`. Keeps nothing open between two calls."""

    base: Path
    inside: tuple[str, ...]
    limits: Limits

    # --- reading -----------------------------------------------------------------------------------------------------

    def read_text(self, given: str, offset: int, limit: int | None) -> TextPart:
        path = self._path(given)
        return text_part(path, self._read(path), offset, self._limit(limit))

    def read_base64(self, given: str, offset: int, limit: int | None) -> BytesPart:
        path = self._path(given)
        return bytes_part(path, self._read(path), offset, self._limit(limit))

    def exists(self, given: str) -> Kind | None:
        path = self._path(given)
        with self._reading(path) as root:
            return self._kind(root, path)

    def tree(self, given: str, depth: int) -> Listing:
        path = self._path(given)
        with self._reading(path) as root, folder(root, path.names) as at:
            return listing(Walk(at, path.names, min(depth, self.limits.depth)), self.limits.listed)

    # --- changing ----------------------------------------------------------------------------------------------------

    def write(self, given: str, content: str | bytes, parents: bool, overwrite: bool) -> int:
        path = self._path(given, "write")
        data = encoded(path, content)
        with self._changing(path) as root:
            kind = self._kind_for_file(root, path)
            if kind is Kind.FILE and not overwrite:
                raise _there_already(path)
            return self._put(root, path, data, parents)

    def append(self, given: str, content: str | bytes, parents: bool) -> int:
        path = self._path(given, "append to")
        more = encoded(path, content)
        with self._changing(path) as root:
            kind = self._kind_for_file(root, path)
            old = b"" if kind is None else self._content(root, path)
            return self._put(root, path, old + more, parents)

    def find_replace(self, given: str, find: str, replace: str, expected: int | None) -> int:
        path = self._path(given, "edit")
        with self._changing(path) as root:
            text, count = replaced(path, decoded(path, self._content(root, path)), find, replace, expected)
            self._put(root, path, encoded(path, text), parents=False)
        return count

    def search_replace(self, given: str, blocks: str) -> int:
        path = self._path(given, "edit")
        if len(blocks) > 2 * self.limits.file_bytes:
            raise TooMuchError(f"{path}: the blocks have {len(blocks)} characters: send fewer at a time")
        read = read_blocks(blocks)
        with self._changing(path) as root:
            there = self._kind_for_file(root, path) is not None
            old = decoded(path, self._content(root, path)) if there or read[0].search else ""
            self._put(root, path, encoded(path, apply_blocks(old, read)), parents=False)
        return len(read)

    def mkdir(self, given: str, parents: bool) -> None:
        path = self._path(given)
        with self._changing(path) as root:
            kind = self._kind(root, path)
            if kind is not None and not (parents and kind is Kind.FOLDER):
                raise _there_already(path)
            if kind is None:
                self._expect_room(root, path, Weight(entries=1), parents)
                with folder(root, path.folder, create=parents) as at:
                    os.mkdir(path.name, FOLDER_MODE, dir_fd=at)
                    os.fsync(at)

    def delete(self, given: str, recursive: bool) -> None:
        path = self._path(given, "delete")
        with self._changing(path) as root, folder(root, path.folder) as at:
            if self._source_kind(root, path) is Kind.FILE:
                os.unlink(path.name, dir_fd=at)
            elif recursive:
                # Gone at once for whoever looks; `changing` then removes it from the disk.
                os.rename(path.name, STAGING, src_dir_fd=at, dst_dir_fd=root)
            else:
                os.rmdir(path.name, dir_fd=at)
            os.fsync(at)

    def move(self, given: str, target: str, parents: bool, overwrite: bool) -> None:
        source, path = self._path(given, "move"), self._path(target, "move to")
        with self._changing(source) as root, folder(root, source.folder) as origin:
            kind = self._source_kind(root, source)
            with told(path):
                self._expect_target(root, source, path, kind, overwrite)
                self._expect_depth(path, self._weight(root, source))
                self._expect_room(root, path, Weight(), parents)
                with folder(root, path.folder, create=parents) as at:
                    os.rename(source.name, path.name, src_dir_fd=origin, dst_dir_fd=at)
                    os.fsync(at)
                    os.fsync(origin)

    def copy(self, given: str, target: str, parents: bool, overwrite: bool) -> None:
        source, path = self._path(given, "copy"), self._path(target, "copy to")
        with self._changing(source) as root, folder(root, source.folder) as origin:
            kind = self._source_kind(root, source)
            with told(path):
                self._expect_target(root, source, path, kind, overwrite)
            if kind is Kind.FILE:
                data = self._content(root, source)
                with told(path):
                    self._put(root, path, data, parents)
                return
            weight = self._weight(root, source)
            self._expect_depth(path, weight)
            self._expect_room(root, path, weight, parents)
            with folder(origin, (source.name,)) as at:
                self._build(at, root, source)
            with told(path), folder(root, path.folder, create=parents) as at:
                os.rename(STAGING, path.name, src_dir_fd=root, dst_dir_fd=at)
                os.fsync(at)

    # --- parts of the above ------------------------------------------------------------------------------------------

    def _path(self, given: str, deed: str | None = None) -> Confined:
        """The checked path; with a `deed` it may not be the root."""
        path = confined(given, self.limits.depth)
        if deed is not None and path.is_root:
            raise PathRefusedError(f"{path} is the workspace itself, which one cannot {deed}: name something in it")
        return path

    def _limit(self, limit: int | None) -> int:
        return self.limits.read if limit is None else min(limit, self.limits.read)

    @contextmanager
    def _reading(self, path: Confined) -> Iterator[int]:
        with told(path), opened(self.base, self.inside) as root:
            yield root

    @contextmanager
    def _changing(self, path: Confined) -> Iterator[int]:
        with told(path), changing(self.base, self.inside) as root:
            yield root

    def _read(self, path: Confined) -> bytes:
        with self._reading(path) as root:
            return self._content(root, path)

    def _content(self, root: int, path: Confined) -> bytes:
        if path.is_root:
            raise WrongKindError(f"{path} is a folder: name a file")
        with folder(root, path.folder) as at:
            return read_file(at, path.name, path, self.limits.file_bytes)

    def _kind(self, root: int, path: Confined) -> Kind | None:
        if path.is_root:
            return Kind.FOLDER
        try:
            with folder(root, path.folder) as at:
                status = look(at, path.name)
        except FileNotFoundError:
            return None
        return None if status is None else kind_of(status)

    def _kind_for_file(self, root: int, path: Confined) -> Kind | None:
        """FILE or None: what may be at a path that a file is put at."""
        kind = self._kind(root, path)
        if kind is Kind.FOLDER or kind is Kind.OTHER:
            raise WrongKindError(f"{path} is there and no plain file ({kind}): choose another path")
        return kind

    def _source_kind(self, root: int, path: Confined) -> Kind:
        """FILE or FOLDER: what can be moved, copied and deleted."""
        kind = self._kind(root, path)
        if kind is None:
            raise FileNotFoundError(2, "")
        if kind is Kind.OTHER:
            raise WrongKindError(f"{path} is neither a plain file nor a folder: delete the folder it is in")
        return kind

    def _expect_target(self, root: int, source: Confined, path: Confined, kind: Kind, overwrite: bool) -> None:
        if path.names[: len(source.names)] == source.names:
            raise AlreadyThereError(f"{path} is {source} itself or lies in it: choose a path outside of it")
        there = self._kind(root, path)
        if there is not None and not (overwrite and there is Kind.FILE and kind is Kind.FILE):
            raise _there_already(path)

    def _weight(self, root: int, path: Confined) -> Weight:
        with folder(root, path.folder) as at:
            status = look(at, path.name)
            if status is None or kind_of(status) is not Kind.FOLDER:
                return Weight(entries=1, size=status.st_size if status else 0)
            with folder(at, (path.name,)) as inner:
                return weigh(Walk(inner, ()), self.limits.entries).plus_itself()

    def _expect_depth(self, path: Confined, weight: Weight) -> None:
        deepest = len(path.names) + weight.depth
        if deepest > self.limits.depth:
            raise TooMuchError(f"{path} would be {deepest} names deep: {self.limits.depth} are allowed; flatten it")

    def _expect_room(self, root: int, path: Confined, more: Weight, parents: bool) -> None:
        """Refuse what would go beyond the limits; folders on the way that will be made count."""
        missing = self._missing_folders(root, path)
        if missing and not parents:
            raise FileNotFoundError(2, "")
        held = weigh(Walk(root, ()), self.limits.entries)
        entries, size = held.entries + more.entries + missing, held.size + more.size
        grows = more.entries + missing > 0
        if grows and entries > self.limits.entries:
            raise TooMuchError(f"{path}: files and folders would be {entries}, over {self.limits.entries}: delete some")
        # Where somebody else put more entries than may be, not all of them were weighed.
        if more.size > 0 and (size > self.limits.total_bytes or held.entries > self.limits.entries):
            raise TooMuchError(f"{path}: files would have {size} bytes, over {self.limits.total_bytes}: delete some")

    def _missing_folders(self, root: int, path: Confined) -> int:
        """How many folders on the way are not there."""
        for depth in range(1, len(path.names)):
            try:
                with folder(root, path.names[:depth]):
                    pass
            except FileNotFoundError:
                return len(path.names) - depth
        return 0

    def _put(self, root: int, path: Confined, data: bytes, parents: bool) -> int:
        if len(data) > self.limits.file_bytes:
            raise TooMuchError(f"{path} would have {len(data)} bytes: a file may have {self.limits.file_bytes}")
        there = self._kind(root, path) is not None
        old = self._weight(root, path).size if there else 0
        self._expect_room(root, path, Weight(entries=0 if there else 1, size=len(data) - old), parents)
        with folder(root, path.folder, create=parents) as at:
            put_file(root, at, path.name, data)
        return len(data)

    def _build(self, origin: int, root: int, source: Confined) -> None:
        """Build a copy of an open folder under `STAGING`."""
        os.mkdir(STAGING, FOLDER_MODE, dir_fd=root)
        with folder(root, (STAGING,)) as staged:
            for found in Walk(origin, ()):
                with folder(staged, found.names[:-1]) as into, folder(origin, found.names[:-1]) as at:
                    if found.kind is Kind.FOLDER:
                        os.mkdir(found.names[-1], FOLDER_MODE, dir_fd=into)
                    else:
                        create_file(
                            into, found.names[-1], read_file(at, found.names[-1], source, self.limits.file_bytes)
                        )


def _there_already(path: Confined) -> AlreadyThereError:
    return AlreadyThereError(f"{path} is there already: choose another path or allow to overwrite")
