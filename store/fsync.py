"""Makes a table's commits survive a power cut: LanceDB writes its files and leaves them to the kernel's cache.

A commit is durable when these have been synced, in this order: the data files and what else its version names
(`_transactions`, `_deletions`, `_indices`), the folders that gained names, the manifest, the folder of manifests. Files
never change once they have their name, so each is synced once; whatever is new in the table's folder is synced, whoever
wrote it, for a commit stands on the commits before it.

Crash before the end: nobody was told of the version; if a power cut tore it, the next start sets it aside
(`store.repair`), and for that a note beside the table keeps the last version that was told. Crash after: it is there.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

from store.manifest import version_of

_MANIFESTS = "_versions"
_MANIFEST = ".manifest"
_FRESH = ".stepwell-fresh"
_DIGITS = 20


class TableSync:
    """Syncs what is new in one table's folder. `None` as the folder: there is nothing to sync (object storage, off)."""

    def __init__(self, table: Path | None) -> None:
        self._table = table
        self._turn = asyncio.Lock()
        # A cancelled caller leaves its thread behind.
        self._mutex = threading.Lock()
        self._synced: frozenset[str] = frozenset()
        self._placed: set[Path] = set()
        self._unsure: set[str] = set()
        self._told: set[str] = set()
        self._noted = 0

    @property
    def on(self) -> bool:
        """Whether commits are synced at all."""
        return self._table is not None

    async def __call__(self) -> None:
        """Return when what is there now would survive a power cut. Raises OSError if it could not be."""
        if self._table is None:
            return
        async with self._turn:
            await asyncio.to_thread(self._sync, self._table)

    def _sync(self, table: Path) -> None:
        with self._mutex:
            # The manifests are listed first: whatever they name was written before, so the listing after it has it.
            versions = {name for name in _files(table / _MANIFESTS, f"{_MANIFESTS}/") if name.endswith(_MANIFEST)}
            files = set(_files(table, ""))
            self._sync_new(table, files)
            self._sync_new(table, versions)
            self._synced &= files | versions
            newest = max((version_of(Path(name)) or 0 for name in versions - self._told), default=0)
            self._told = versions
            if newest > self._noted:
                self._noted = note_durable(table, newest)

    def _sync_new(self, table: Path, names: set[str]) -> None:
        """Sync the files, then the folders that hold them; all of them count as synced only when no call failed."""
        new = names - self._synced
        if not new:
            return
        done = set()
        folders = set()
        for name in sorted(new):
            if self._sync_file(table / name, name):
                done.add(name)
                folders.add((table / name).parent)
        for folder in sorted(folders, reverse=True):
            self._sync_folder(table, folder)
        self._synced |= done

    def _sync_folder(self, table: Path, folder: Path) -> None:
        """Sync the names in a folder, and where the folder is new, its own name and those of the folders above it."""
        sync_path(folder)
        if folder not in self._placed:
            for above in folder.parents[: len(folder.relative_to(table.parent.parent).parts)]:
                sync_path(above)
            self._placed.add(folder)

    def _sync_file(self, path: Path, name: str) -> bool:
        """Sync one file; False if upkeep has removed it meanwhile.

        After a failed fsync the kernel takes the file's pages for clean and the next fsync would say yes to nothing:
        such a file is written anew.
        """
        try:
            if name in self._unsure:
                _write_anew(path)
            else:
                sync_path(path)
        except FileNotFoundError:
            return False
        except OSError:
            self._unsure.add(name)
            raise
        self._unsure.discard(name)
        return True


def _files(folder: Path, inside: str) -> Iterator[str]:
    """The files of a folder and those below, without manifests and what is being written (`.tmp...`, `...#1`)."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(".") or "#" in entry.name:
                    continue
                if not entry.is_dir(follow_symlinks=False):
                    yield f"{inside}{entry.name}"
                elif entry.name != _MANIFESTS:
                    yield from _files(Path(entry.path), f"{inside}{entry.name}/")
    except FileNotFoundError:
        return


def sync_path(path: Path) -> None:
    """Make a file's bytes, or the names in a folder, durable."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _write_anew(path: Path) -> None:
    fresh = path.with_name(f"{_FRESH}-{path.name}")
    try:
        shutil.copyfile(path, fresh)
        sync_path(fresh)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def _note_of(table: Path) -> Path:
    return table.parent / "synced" / f"{table.stem}.version"


def note_durable(table: Path, version: int) -> int:
    """Note that the table's versions up to this one were synced; the kernel stores the note in its own time.

    The note is a lower bound: it is written after the sync, and a lost one only names an older version. Returns the
    version noted, which another process may have moved further.
    """
    path = _note_of(table)
    path.parent.mkdir(exist_ok=True)
    noted = max(durable_version(table) or 0, version)
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    with contextlib.closing(os.fdopen(file, "wb")) as note:
        note.write(b"%0*d\n" % (_DIGITS, noted))
    return noted


def sync_note(table: Path) -> None:
    """Make the note itself durable."""
    sync_path(_note_of(table))
    sync_path(_note_of(table).parent)
    sync_path(table.parent)


def durable_version(table: Path) -> int | None:
    """The version up to which everything is known to have been synced; None if nothing is known."""
    try:
        text = _note_of(table).read_text(errors="replace").strip()
    except FileNotFoundError:
        return None
    return int(text) if text.isascii() and text.isdecimal() else None
