"""Damaged files: opening refuses and names the file and the cure; a repair goes back to what is whole and tells."""

from __future__ import annotations

import os
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from store.actions import ActionKind
from store.agent_state import states_of, upsert_agent_state
from store.agent_steps import append_agent_step, journal_of
from store.database import Store, open_store
from store.enqueueing import NewAction, enqueue
from store.errors import StoreDamagedError
from store.manifest import BadManifestError, manifests, read_manifest
from store.options import StoreOptions
from store.repair import DAMAGED, Damage, damage_at_open, find_damage, repair
from store.testing import CountingIds, FrozenClock
from tests.store.rows import a_state, a_step

NEW = NewAction(ActionKind.INPUT)
STEPS = 6


async def opened(folder: Path, *, fsync: bool = False) -> Store:
    return await open_store(StoreOptions(str(folder), fsync=fsync), clock=FrozenClock(), ids=CountingIds())


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A store with six steps in six commits, one session's state written three times, and two actions."""
    store = await opened(tmp_path)
    db = store.tenant()
    for iteration in range(STEPS):
        await append_agent_step(db, a_step(iteration=iteration))
    for iteration in range(3):
        await upsert_agent_state(db, [a_state(iteration=iteration)])
    await enqueue(db, NEW)
    await enqueue(db, NEW)
    await store.close()
    return tmp_path


def newest_manifest(folder: Path, table: str) -> Path:
    return next(iter(manifests(folder / f"{table}.lance").values()))


def newest_data(folder: Path, table: str) -> Path:
    """The data file of the newest fragment."""
    table_folder = folder / f"{table}.lance"
    return table_folder / read_manifest(newest_manifest(folder, table)).fragments[-1].files[0].path


def cut(path: Path, size: int) -> None:
    os.truncate(path, size)


def flip(path: Path, at: int, count: int = 8) -> None:
    """Turn some bytes into others."""
    data = bytearray(path.read_bytes())
    for place in range(at, at + count) if at >= 0 else range(len(data) + at, len(data) + at + count):
        data[place] ^= 0xFF
    path.write_bytes(data)


def everything(folder: Path) -> list[Path]:
    """All that is in a folder and those below."""
    return sorted(folder.rglob("*"))


async def refused(folder: Path, path: Path) -> None:
    """Opening names the file and the cure, and changes nothing."""
    before = everything(folder)
    with pytest.raises(StoreDamagedError) as error:
        await opened(folder)
    assert path.relative_to(folder).as_posix() in str(error.value)
    assert "agents.py check --repair" in str(error.value)
    assert everything(folder) == before


async def steps(folder: Path) -> list[int]:
    store = await opened(folder)
    found = sorted(step.iteration for step in await journal_of(store.tenant()).find())
    await store.close()
    return found


async def test_a_whole_store_has_no_damage(folder: Path) -> None:
    assert await find_damage(str(folder)) == []
    assert await repair(str(folder), []) == []


async def test_the_manifests_tell_what_the_engine_tells(folder: Path) -> None:
    store = await opened(folder)
    for name, table in store.tables.items():
        manifest = read_manifest(newest_manifest(folder, name))
        assert (manifest.version, manifest.rows) == (await table.version(), await table.rows())
    await store.close()


@pytest.mark.parametrize("damage", ["empty", "cut", "front", "end", "other"])
async def test_a_damaged_newest_manifest_is_refused_and_set_aside(folder: Path, damage: str) -> None:
    path = newest_manifest(folder, "agent_steps")
    match damage:
        case "empty":
            cut(path, 0)
        case "cut":
            cut(path, path.stat().st_size // 2)
        case "front":
            flip(path, -16)
        case "end":
            flip(path, -4, 4)
        case _:
            shutil.copyfile(newest_manifest(folder, "queue"), path)
    bytes_before = path.read_bytes()

    await refused(folder, path)

    found = await find_damage(str(folder))
    assert [(each.table, each.path) for each in found] == [("agent_steps", path.relative_to(folder).as_posix())]
    (done,) = await repair(str(folder), found)
    assert (done.newest, done.good) == (STEPS + 1, STEPS)
    assert (folder / DAMAGED / path.relative_to(folder)).read_bytes() == bytes_before
    assert await steps(folder) == list(range(STEPS - 1))
    assert done.rows_left == STEPS - 1
    assert await find_damage(str(folder)) == []


@pytest.mark.parametrize("damage", ["empty", "cut", "gone", "end"])
async def test_a_damaged_newest_data_file_costs_its_rows_and_no_others(folder: Path, damage: str) -> None:
    path = newest_data(folder, "agent_steps")
    match damage:
        case "empty":
            cut(path, 0)
        case "cut":
            cut(path, path.stat().st_size - 1)
        case "end":
            flip(path, -4, 4)
        case _:
            path.unlink()

    await refused(folder, path)

    (done,) = await repair(str(folder), await find_damage(str(folder)))
    assert (done.good, done.rows_lost, done.rows_left) == (STEPS, 1, STEPS - 1)
    assert await steps(folder) == list(range(STEPS - 1))
    assert (folder / DAMAGED / path.relative_to(folder)).exists() == (damage != "gone")


async def test_what_is_written_after_a_repair_is_newer_than_all_that_was_lost(folder: Path) -> None:
    """Whoever follows a table by its versions must not take new rows for old ones."""
    lost = STEPS + 1
    cut(newest_manifest(folder, "agent_steps"), 10)
    await repair(str(folder), await find_damage(str(folder)))

    store = await opened(folder)
    assert await store.tables["agent_steps"].version() > lost
    await append_agent_step(store.tenant(), a_step(iteration=STEPS - 1))
    seen = await journal_of(store.tenant()).created_since(lost)
    assert [row.item.iteration for row in seen] == [STEPS - 1]
    await store.close()


async def test_an_updated_table_goes_back_to_the_rows_it_had(folder: Path) -> None:
    path = newest_data(folder, "agent_state")
    cut(path, 100)
    await refused(folder, path)

    (done,) = await repair(str(folder), await find_damage(str(folder)))

    assert (done.rows_lost, done.rows_left) == (0, 1)
    store = await opened(folder)
    assert [state.iteration for state in await states_of(store.tenant()).find()] == [1]
    await store.close()


async def test_where_no_whole_version_is_left_the_others_files_rows_stay(folder: Path) -> None:
    store = await opened(folder)
    await store.tables["agent_steps"].compact(keep=timedelta(milliseconds=1))
    await append_agent_step(store.tenant(), a_step(iteration=STEPS))
    await store.close()
    manifest = read_manifest(newest_manifest(folder, "agent_steps"))
    old = folder / "agent_steps.lance" / manifest.fragments[0].files[0].path
    flip(old, 0, old.stat().st_size - 200)

    found = await find_damage(str(folder))
    assert [each.path for each in found] == [old.relative_to(folder).as_posix()]
    (done,) = await repair(str(folder), found)

    assert (done.rows_lost, done.rows_left) == (STEPS, 1)
    assert await steps(folder) == [STEPS]
    assert await find_damage(str(folder)) == []
    assert (folder / DAMAGED / old.relative_to(folder)).exists()


async def test_a_damaged_older_version_is_found_and_costs_nothing(folder: Path) -> None:
    older = list(manifests(folder / "agent_steps.lance").values())[2]
    cut(older, 3)

    assert await steps(folder) == list(range(STEPS))
    (found,) = await find_damage(str(folder))
    assert found.path == older.relative_to(folder).as_posix()
    (done,) = await repair(str(folder), [found])
    assert (done.rows_lost, done.rows_left) == (0, STEPS)
    assert await steps(folder) == list(range(STEPS))
    assert await find_damage(str(folder)) == []


async def test_rubbish_beside_a_manifest_is_passed_over(folder: Path) -> None:
    versions = folder / "agent_steps.lance" / "_versions"
    next_name = newest_manifest(folder, "agent_steps").stem
    for name in (".tmpAbC", "rubbish", "rubbish.manifest", "x.manifest#1", f"{next_name}.manifest#1", f"d{next_name}"):
        (versions / name).write_bytes(b"\0" * 20)
    (versions / "latest_version_hint.json").write_bytes(b"")
    (versions / "zero").touch()
    (versions / "folder").mkdir()

    assert damage_at_open(folder) == []
    assert await steps(folder) == list(range(STEPS))
    store = await opened(folder)
    await append_agent_step(store.tenant(), a_step(iteration=STEPS))
    await store.tables["agent_steps"].compact(keep=timedelta(milliseconds=1))
    await store.close()
    assert await steps(folder) == list(range(STEPS + 1))


async def test_a_manifest_of_another_naming_is_moved_away(folder: Path) -> None:
    stray = folder / "agent_steps.lance" / "_versions" / "12.manifest"
    stray.write_bytes(b"x")

    await refused(folder, stray)

    (done,) = await repair(str(folder), await find_damage(str(folder)))
    assert (done.rows_lost, done.rows_left) == (0, STEPS)
    assert await steps(folder) == list(range(STEPS))


async def test_nothing_that_is_there_is_overwritten_by_a_second_repair(folder: Path) -> None:
    for _ in range(2):
        cut(newest_manifest(folder, "agent_steps"), 0)
        await repair(str(folder), await find_damage(str(folder)))

    assert len(list((folder / DAMAGED / "agent_steps.lance" / "_versions").iterdir())) >= 2


async def test_object_storage_is_told_its_own_cure() -> None:
    with pytest.raises(StoreDamagedError, match="object storage"):
        await find_damage("s3://bucket/data")


async def test_with_fsync_what_was_never_told_is_set_aside_at_opening(tmp_path: Path) -> None:
    store = await opened(tmp_path, fsync=True)
    await append_agent_step(store.tenant(), a_step(iteration=0))
    await store.close()
    other = await opened(tmp_path)  # its commits are noted by nobody, like one that a power cut interrupted
    await append_agent_step(other.tenant(), a_step(iteration=1))
    await other.close()
    torn = newest_manifest(tmp_path, "agent_steps")
    cut(torn, 0)
    await refused(tmp_path, torn)

    store = await opened(tmp_path, fsync=True)

    assert [step.iteration for step in await journal_of(store.tenant()).find()] == [0]
    await store.close()
    assert (tmp_path / DAMAGED / torn.relative_to(tmp_path)).exists()


async def test_with_fsync_damage_to_what_was_told_is_refused(tmp_path: Path) -> None:
    store = await opened(tmp_path, fsync=True)
    await append_agent_step(store.tenant(), a_step(iteration=0))
    await store.close()
    path = newest_manifest(tmp_path, "agent_steps")
    cut(path, 0)

    with pytest.raises(StoreDamagedError, match=path.name):
        await opened(tmp_path, fsync=True)


@pytest.mark.parametrize("data", [b"", b"LANC", b"\0" * 40, b"\xff" * 40 + b"LANC", b"\0" * 36 + b"LANC"])
def test_any_bytes_are_a_bad_manifest_and_no_crash(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / f"{2**64 - 2}.manifest"
    path.write_bytes(data)

    with pytest.raises(BadManifestError):
        read_manifest(path)


def test_a_damage_reads_like_a_sentence() -> None:
    damage = Damage("queue", "queue.lance/data/x.lance", 7, "it is missing")

    assert str(damage) == "queue.lance/data/x.lance (it is missing; table 'queue', version 7)"
