"""The files under the tables: what only a dead writer can have left is a leftover, nothing else."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from runtime.checking.check import check, mend
from runtime.checking.files import damaged_files
from runtime.checking.finding import FindingKind
from store import filters
from store.actions import ActionKind, queue_of
from store.enqueueing import NewAction, enqueue
from tests.runtime.kit import opened


def left(folder: Path, name: str, age: timedelta, now: float) -> Path:
    """A file under the queue's table that was last written so long ago."""
    file = folder / "queue.lance" / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"left")
    os.utime(file, (now - age.total_seconds(),) * 2)
    return file


def make_old(folder: Path, now: float) -> None:
    """Have every file of the store look as if it were days old."""
    for file in folder.glob("*.lance/*/*"):
        os.utime(file, (now - 10**6, now - 10**6))


async def test_an_old_file_that_no_version_names_is_a_leftover(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        db, now = store.tenant(), store.clock.now().timestamp()
        for _ in range(3):
            await enqueue(db, NewAction(ActionKind.PAUSE))
        (first, *_) = await queue_of(db).find()
        await queue_of(db).delete(filters.equals("id", first.id))
        make_old(tmp_path, now)  # whatever the versions name may be old
        assert await check(db) == []

        old = [left(tmp_path, name, timedelta(hours=2), now) for name in ("data/x.lance", "_deletions/y.arrow")]
        fresh = left(tmp_path, "data/z.lance", timedelta(minutes=50), now)
        found = await check(db)

        assert {(fault.kind, fault.where) for fault in found} == {
            (FindingKind.LEFTOVER, file.relative_to(tmp_path).as_posix()) for file in old
        }
        await mend(found)
        assert [file.exists() for file in [*old, fresh]] == [False, False, True]
        assert await check(db) == []
        assert len(await queue_of(db).find()) == 2


async def test_damage_is_seen_without_opening_the_store(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await enqueue(store.tenant(), NewAction(ActionKind.PAUSE))
    assert await damaged_files(str(tmp_path)) == []
    (file,) = (tmp_path / "queue.lance" / "data").iterdir()
    os.truncate(file, file.stat().st_size - 1)

    (damage,) = await damaged_files(str(tmp_path))

    assert (damage.table, damage.path) == ("queue", file.relative_to(tmp_path).as_posix())
