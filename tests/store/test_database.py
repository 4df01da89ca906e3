"""Opening a store: a fresh folder, an old one, one that cannot be used; and closing it."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from store.actions import ActionKind, get_action, queue_of
from store.database import Store, open_store
from store.enqueueing import NewAction, enqueue
from store.errors import StoreUnavailableError
from store.ids import SessionId
from store.options import StoreOptions
from store.schema import ALL_TABLES
from store.testing import CountingIds, FrozenClock
from tests.store.files import open_files

NOBODY = 65534
NEW = NewAction(ActionKind.INPUT, session_id=SessionId("s"))


async def opened(folder: Path | str) -> Store:
    return await open_store(StoreOptions(str(folder), patience_s=0.2), clock=FrozenClock(), ids=CountingIds())


@pytest.fixture
def read_only() -> Iterator[Path]:
    """A folder that this process may not write to, not even when it was started with all rights."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o555)
    if os.geteuid() == 0:
        os.seteuid(NOBODY)
    yield folder
    os.seteuid(os.getuid())
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.parametrize("name", ["data", "a/b/c", "with space", "naïve-é"])
async def test_a_folder_is_made_with_every_table(tmp_path: Path, name: str) -> None:
    store = await opened(tmp_path / name)

    assert set(store.tables) == {spec.name for spec in ALL_TABLES}
    assert {file.stem for file in (tmp_path / name).glob("*.lance")} >= set(store.tables)
    await store.close()


async def test_what_was_stored_is_there_when_the_store_is_opened_again(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    action = await enqueue(store.tenant(), NEW)
    await store.close()

    again = await opened(tmp_path)

    assert await get_action(again.tenant(), action.id) == action
    await again.close()


async def test_a_store_can_be_moved_to_another_folder(tmp_path: Path) -> None:
    store = await opened(tmp_path / "old")
    action = await enqueue(store.tenant(), NEW)
    await store.close()
    shutil.move(tmp_path / "old", tmp_path / "new")

    moved = await opened(tmp_path / "new")

    assert await get_action(moved.tenant(), action.id) == action
    await moved.close()


async def test_two_stores_on_one_folder_see_each_other_at_once(tmp_path: Path) -> None:
    one, other = await asyncio.gather(opened(tmp_path), opened(tmp_path))

    action = await enqueue(one.tenant(), NEW)

    assert await get_action(other.tenant(), action.id) == action
    await one.close()
    await other.close()


async def test_close_waits_for_the_writes_in_flight(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    stored = [queue_of(store.tenant()).append(await enqueue(store.tenant(), NEW)) for _ in range(3)]

    await store.close()

    assert all(future.done() for future in stored)


async def test_close_leaves_no_lock_file_open(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await enqueue(store.tenant(), NEW)
    await store.close()

    assert [file for file in open_files() if file.startswith(str(tmp_path / "locks"))] == []


async def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(StoreUnavailableError, match=r"file/data.*STEPWELL_DATA"):
        await opened(tmp_path / "file" / "data")


@pytest.mark.parametrize("name", ["", "data"])
async def test_a_read_only_folder_is_a_clear_error(read_only: Path, name: str) -> None:
    with pytest.raises(StoreUnavailableError, match=r"(?s)tmp.*Permission denied.*STEPWELL_DATA"):
        await opened(read_only / name)


async def test_a_store_that_lost_a_table_is_a_clear_error(tmp_path: Path) -> None:
    await (await opened(tmp_path)).close()
    shutil.rmtree(tmp_path / "queue.lance")

    with pytest.raises(StoreUnavailableError, match=r"(?s)queue.*STEPWELL_DATA"):
        await opened(tmp_path)


async def test_an_error_while_opening_leaves_the_folder_to_the_next(tmp_path: Path) -> None:
    await (await opened(tmp_path)).close()
    shutil.move(tmp_path / "queue.lance", tmp_path / "aside")
    with pytest.raises(StoreUnavailableError):
        await opened(tmp_path)
    shutil.move(tmp_path / "aside", tmp_path / "queue.lance")

    await (await opened(tmp_path)).close()


@pytest.mark.parametrize(("url", "folder"), [("./data", Path("data")), ("s3://bucket/prefix", None)])
def test_only_a_path_is_a_local_folder(url: str, folder: Path | None) -> None:
    assert StoreOptions(url).folder == folder
