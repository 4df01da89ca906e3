"""Finds damaged files in a store's folder, and brings a table back to what is whole. Nothing is ever deleted.

A table is as good as its newest manifest and the files that this one names. Opening a store looks at those alone: the
manifest must be whole, its files there with the size it tells, the newest with their ending. `find_damage` looks at
every version kept and reads every row. A flipped bit inside a number reads as another number: Lance keeps no checksums.

Crash during a repair: what was moved is in `damaged/`, and the next repair goes on from what is there.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import lancedb
from lancedb.table import AsyncTable

from store import filters
from store.errors import StoreDamagedError
from store.fsync import sync_path
from store.manifest import BadManifestError, Fragment, Manifest, NeededFile, manifests, read_manifest

DAMAGED = "damaged"
_MAGIC = b"LANC"
_ENDINGS_LOOKED_AT = 16
_NAME_DIGITS = 20
_READ_NEWEST = timedelta(0)


@dataclass(frozen=True, slots=True)
class Damage:
    """A file that is not as it should be; `path` is relative to the data folder, `version` the first one to suffer."""

    table: str
    path: str
    version: int
    problem: str

    def __str__(self) -> str:
        return f"{self.path} ({self.problem}; table {self.table!r}, version {self.version})"


@dataclass(frozen=True, slots=True)
class Repair:
    """What became of one table. `rows_lost` is None where the damage does not let it be counted."""

    table: str
    damage: tuple[Damage, ...]
    moved: tuple[str, ...]
    newest: int
    good: int | None
    rows_lost: int | None
    rows_left: int

    def __str__(self) -> str:
        lost = "an unknown number of rows" if self.rows_lost is None else f"{self.rows_lost} rows"
        back = (
            "" if self.good is None or self.good == self.newest else f" went from version {self.newest} to {self.good},"
        )
        return f"table {self.table!r}{back} lost {lost} and has {self.rows_left}; moved away: {', '.join(self.moved)}"


def damage_at_open(folder: Path) -> list[Damage]:
    """What would keep a table from being read as it is now: cheap, a few file sizes a table."""
    return [damage for table in _tables(folder) for damage in _newest_damage(table)]


async def find_damage(url: str) -> list[Damage]:
    """All damage: every version that is kept, and every row of the newest. Reads the whole store."""
    folder = _folder(url)
    found = []
    for table in _tables(folder):
        here = _damage_of_files(table)
        newest = next(iter(manifests(table).items()), None)
        if newest is not None and not any(damage.version == newest[0] for damage in here):
            here += await _unreadable_rows(table, read_manifest(newest[1]))
        found += here
    return found


async def repair(url: str, damages: Sequence[Damage]) -> list[Repair]:
    """Bring every damaged table back. No other process may have the store open.

    A table goes to its last good version, or, where that would cost more, its newest version goes on without the
    damaged files' rows. Version numbers go on rising, so that whoever follows the table sees what comes next. Raises
    `StoreDamagedError` for a table of which nothing whole is left.
    """
    folder = _folder(url)
    done = []
    for name in dict.fromkeys(damage.table for damage in damages):
        mine = tuple(damage for damage in damages if damage.table == name)
        done.append(await _repair_table(folder, folder / f"{name}.lance", mine))
    return done


def _folder(url: str) -> Path:
    if "://" in url:
        raise StoreDamagedError(
            f"{url!r} is on object storage, where files cannot be looked at one by one; use the bucket's own versions"
        )
    return Path(url)


def _tables(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.lance") if path.is_dir())


# --- finding ---------------------------------------------------------------------------------------------------------


def _newest_damage(table: Path) -> list[Damage]:
    found = list(_strays(table))
    for version, path in manifests(table).items():
        return [*found, *_damage_of(table, version, path)]
    return found


def _damage_of_files(table: Path) -> list[Damage]:
    """The damage of all versions, each file named once."""
    found = list(_strays(table))
    for version, path in manifests(table).items():
        found += _damage_of(table, version, path)
    return list({damage.path: damage for damage in reversed(found)}.values())


def _strays(table: Path) -> Iterator[Damage]:
    """A manifest's name has 20 digits. With one of fewer LanceDB takes the whole folder for another format."""
    for path in (table / "_versions").glob("*.manifest"):
        if path.stem.isascii() and path.stem.isdecimal() and len(path.stem) < _NAME_DIGITS:
            yield _damage(table, path, 0, "it does not belong here")


def _damage_of(table: Path, version: int, path: Path) -> list[Damage]:
    try:
        manifest = read_manifest(path)
    except (BadManifestError, OSError) as error:
        return [_damage(table, path, version, str(error))]
    files = list(manifest.files)
    found = [
        _damage(table, table / file.path, version, problem) for file in files if (problem := _problem(table, file))
    ]
    for file in files[-_ENDINGS_LOOKED_AT:]:
        if file.size is not None and not _problem(table, file) and not _ends_well(table / file.path):
            found.append(_damage(table, table / file.path, version, "its end is not that of a data file"))
    return found


def _problem(table: Path, file: NeededFile) -> str | None:
    try:
        size = (table / file.path).stat().st_size
    except FileNotFoundError:
        return "it is missing"
    if file.size is not None and size != file.size:
        return f"it has {size} bytes, not {file.size}"
    return "it is empty" if size == 0 else None


def _ends_well(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-len(_MAGIC), 2)
        return file.read() == _MAGIC


def _damage(table: Path, path: Path, version: int, problem: str) -> Damage:
    return Damage(table.stem, path.relative_to(table.parent).as_posix(), version, problem)


async def _opened(table: Path) -> AsyncTable:
    connection = await lancedb.connect_async(str(table.parent), read_consistency_interval=_READ_NEWEST)
    return await connection.open_table(table.stem)


async def _unreadable_rows(table: Path, manifest: Manifest) -> list[Damage]:
    """Read every row; if that fails, each fragment by itself to find those that fail."""
    problem = await _failure(table, manifest, None)
    if problem is None:
        return []
    found = []
    for fragment in manifest.fragments:
        if failure := await _failure(table, manifest, fragment):
            path = table / fragment.files[0].path
            found.append(_damage(table, path, manifest.version, f"its rows cannot be read: {failure}"))
    if not found:
        path = manifests(table)[manifest.version]
        found.append(_damage(table, path, manifest.version, f"its version cannot be read: {problem}"))
    return found


async def _failure(table: Path, manifest: Manifest, fragment: Fragment | None) -> str | None:
    """Why rows cannot be read, in the engine's words; None if they can."""
    with TemporaryDirectory(prefix="stepwell-check-") as scratch:
        try:
            opened = await _opened(_only(table, manifest, Path(scratch)))
            if fragment is not None:
                await opened.delete(filters.outside_fragment(fragment.number))
            async for batch in await opened.query().to_batches():
                batch.validate(full=True)
        except Exception as error:  # the engine panics on some damage, with errors of its own
            return str(error).partition("\n")[0]
    return None


def _only(table: Path, manifest: Manifest, scratch: Path) -> Path:
    """A table of one version that shares the data files: nothing that is done to it changes the real one."""
    copy = scratch / table.name
    (copy / "_versions").mkdir(parents=True)
    shutil.copy(manifests(table)[manifest.version], copy / "_versions")
    for name in ("data", "_indices"):
        (copy / name).symlink_to((table / name).absolute())
    if (table / "_deletions").exists():
        shutil.copytree(table / "_deletions", copy / "_deletions")
    return copy


# --- mending ---------------------------------------------------------------------------------------------------------


async def _repair_table(folder: Path, table: Path, damage: tuple[Damage, ...]) -> Repair:
    versions = manifests(table)
    bad = {each.path for each in damage}
    whole = {version: _whole(table, path, bad) for version, path in versions.items()}
    readable = {version: _readable(path) for version, path in versions.items()}
    newest = max(versions, default=0)
    good = next((version for version in versions if whole[version]), None)
    latest = readable.get(newest)
    if latest is not None and (good is None or _rows(whole[good]) < latest.rows - _rows_in(table, latest, bad)):
        return await _go_on_without(folder, table, damage, latest)
    if good is None:
        return _start_anew(folder, table, damage, newest)
    moved = _move(folder, [versions[version] for version in versions if version > good])
    moved += _move(folder, [folder / path for path in sorted(bad - _needed(table, whole[good]))])
    rows = _rows(whole[good])
    await _rise_above(table, newest)
    return Repair(table.stem, damage, moved, newest, good, None if latest is None else max(0, latest.rows - rows), rows)


def _readable(path: Path) -> Manifest | None:
    try:
        return read_manifest(path)
    except (BadManifestError, OSError):
        return None


def _whole(table: Path, path: Path, bad: set[str]) -> Manifest | None:
    manifest = _readable(path)
    if manifest is None or _relative(table, path) in bad:
        return None
    return None if _bad_fragments(table, manifest, bad) else manifest


def _bad_fragments(table: Path, manifest: Manifest, bad: set[str]) -> list[Fragment]:
    def suffers(file: NeededFile) -> bool:
        return _relative(table, table / file.path) in bad or _problem(table, file) is not None

    return [fragment for fragment in manifest.fragments if any(map(suffers, fragment.files))]


def _rows(manifest: Manifest | None) -> int:
    return 0 if manifest is None else manifest.rows


def _rows_in(table: Path, manifest: Manifest, bad: set[str]) -> int:
    return sum(fragment.rows for fragment in _bad_fragments(table, manifest, bad))


def _needed(table: Path, manifest: Manifest | None) -> set[str]:
    return set() if manifest is None else {_relative(table, table / file.path) for file in manifest.files}


def _relative(table: Path, path: Path) -> str:
    return path.relative_to(table.parent).as_posix()


async def _go_on_without(folder: Path, table: Path, damage: tuple[Damage, ...], newest: Manifest) -> Repair:
    """Take the damaged fragments out of the newest version; whatever is wrong with older versions goes with them."""
    bad = {each.path for each in damage}
    lost = _bad_fragments(table, newest, bad)
    if not lost and any(each.version == newest.version for each in damage):
        raise StoreDamagedError(f"{damage[0]} cannot be repaired; restore a copy of {table}")
    moved = _move(folder, [folder / each for each in sorted(bad) if "/_versions/" in f"/{each}"])
    opened = await _opened(table)
    for fragment in lost:
        await opened.delete(filters.in_fragment(fragment.number))
    # Older versions name the damaged files too: they go, or a later repair would find the same again.
    if lost:
        moved += _move(folder, [path for version, path in manifests(table).items() if version <= newest.version])
        moved += _move(folder, [folder / path for path in sorted(bad)])
    rows = sum(fragment.rows for fragment in lost)
    return Repair(table.stem, damage, moved, newest.version, newest.version, rows, newest.rows - rows)


def _start_anew(folder: Path, table: Path, damage: tuple[Damage, ...], newest: int) -> Repair:
    """A table that was being made holds no rows: version 1 is empty. Any other one is for a person to decide on."""
    if newest > 1:
        raise StoreDamagedError(
            f"nothing whole is left of table {table.stem!r} ({damage[0]}); restore a copy of {str(table)!r}"
        )
    return Repair(table.stem, damage, _move(folder, [table]), newest, None, 0, 0)


async def _rise_above(table: Path, version: int) -> None:
    opened = await _opened(table)
    while await opened.version() <= version:
        await opened.checkout(await opened.version())
        await opened.restore()


def _move(folder: Path, paths: Sequence[Path]) -> tuple[str, ...]:
    """Move files into `damaged/` under the paths they had; a name that is taken there gets a number."""
    moved = []
    for path in paths:
        if not path.exists():
            continue
        inside = path.relative_to(folder)
        target = folder / DAMAGED / inside
        for number in range(1, 1_000_000):
            if not target.exists():
                break
            target = folder / DAMAGED / inside.with_name(f"{inside.name}.{number}")
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)
        for place in (target.parent, path.parent):
            sync_path(place)
        moved.append(inside.as_posix())
    return tuple(moved)


def refusal(folder: Path, damages: Sequence[Damage]) -> StoreDamagedError:
    """What to say when a store cannot be opened."""
    more = f" and {len(damages) - 1} more" if len(damages) > 1 else ""
    return StoreDamagedError(
        f"the store in {str(folder)!r} is damaged: {damages[0]}{more}; stop every process that uses it, "
        "keep a copy of the folder, then run `agents.py check --repair`, which goes back to what is whole and reports "
        "what is lost"
    )
