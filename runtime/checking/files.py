"""The files under the tables: damaged ones, and leftovers of writers that died in the middle of a commit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from runtime.checking.finding import Finding, FindingKind, Level, Mended
from store.clock import Clock
from store.manifest import manifests, read_manifest
from store.repair import Damage, find_damage, repair

#: a writer that lives names a file in a version sooner than this after it has written it
_LEFT_AFTER = timedelta(hours=1)
_FOLDERS = ("data", "_deletions")


async def damaged_files(url: str) -> list[Damage]:
    """The damaged files of a store in a local folder. What only one of two looks finds was pruned meanwhile."""
    if "://" in url:
        return []
    found = await find_damage(url)
    if not found:
        return []
    again = {damage.path for damage in await find_damage(url)}
    return [damage for damage in found if damage.path in again]


def of_damage(damage: Damage) -> Finding:
    """A damaged file as a finding."""
    return Finding(
        FindingKind.DAMAGED,
        Level.LOST,
        damage.path,
        f"version {damage.version}",
        damage.problem,
        "stop every process, keep a copy of the folder, then let --repair go back to what is whole",
    )


async def repair_files(url: str, damages: list[Damage]) -> list[Mended]:
    """Bring the damaged tables back to what is whole; nobody else may have the store open."""
    if not damages:
        return []
    deeds = {done.table: str(done) for done in await repair(url, damages)}
    return [Mended(of_damage(damage), deeds.get(damage.table, "moved away")) for damage in damages]


def leftover_files(folder: Path | None, clock: Clock) -> Iterator[Finding]:
    """Files that no version names and that nobody is about to name."""
    if folder is None:
        return
    for table in sorted(folder.glob("*.lance")):
        files = [file for name in _FOLDERS for file in (table / name).glob("*") if _is_old(file, clock)]
        if not files:
            continue
        # The versions are read after the files: whatever has been named since is in them.
        named = {file.path for path in manifests(table).values() for file in read_manifest(path).files}
        for file in files:
            if file.relative_to(table).as_posix() not in named:
                yield _leftover(folder, file)


def _is_old(file: Path, clock: Clock) -> bool:
    return datetime.fromtimestamp(file.stat().st_mtime, UTC) + _LEFT_AFTER < clock.now()


def _leftover(folder: Path, file: Path) -> Finding:
    return Finding(
        FindingKind.LEFTOVER,
        Level.HARMLESS,
        file.relative_to(folder).as_posix(),
        f"{file.stat().st_size} bytes",
        "no version of the table names it: its writer died before the commit, or the commit was given up",
        "remove it",
        partial(_remove, file),
    )


async def _remove(file: Path) -> str:
    await asyncio.to_thread(file.unlink, True)
    return "removed"
