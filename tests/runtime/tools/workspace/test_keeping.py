"""Workspaces go when their sessions ended long ago, and only then."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from runtime.testing import FakeLog
from runtime.tools.workspace.keeping import WorkspaceKeeper
from runtime.tools.workspace.scopes import Scope, Workspaces, folder_name
from runtime.tools.workspace.workspace import Workspace
from store.agent_state import SessionStatus, upsert_agent_state
from store.database import TenantStore, open_store
from store.ids import ConversationId
from store.options import StoreOptions
from store.testing import START, CountingIds, FrozenClock
from tests.store.rows import a_state

KEEP = timedelta(days=30)
DONE = SessionStatus.DONE


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[TenantStore]:
    """A store whose clock stands forty days after the start."""
    clock = FrozenClock(START + timedelta(days=40))
    store = await open_store(StoreOptions(str(tmp_path / "data")), clock=clock, ids=CountingIds())
    yield store.tenant()
    await store.close()


@pytest.fixture
def workspaces(tmp_path: Path) -> Workspaces:
    (tmp_path / "workspaces").mkdir()
    return Workspaces(tmp_path / "workspaces")


def keeper(db: TenantStore, workspaces: Workspaces, log: FakeLog | None = None) -> WorkspaceKeeper:
    return WorkspaceKeeper(db, workspaces, KEEP, log or FakeLog())


async def session(
    db: TenantStore, name: str, status: SessionStatus = DONE, at: datetime = START, thread: str | None = None
) -> None:
    conversation = None if thread is None else ConversationId(thread)
    row = dataclasses.replace(a_state(name, conversation_id=conversation, status=status), updated_at=at)
    await upsert_agent_state(db, [row])


async def used(*all_: Workspace) -> None:
    for workspace in all_:
        await workspace.write("notes/plan.md", "kept", parents=True)


def there(workspaces: Workspaces, scope: Scope) -> set[str]:
    """The names of a scope's folders."""
    folder = workspaces.folder / scope
    return set(os.listdir(folder)) if folder.exists() else set()


def warnings(log: FakeLog) -> list[dict[str, object]]:
    """What was complained about."""
    return [fields for level, _, fields in log.lines if level == "warning"]


async def test_those_of_sessions_that_ended_long_ago_go(db: TenantStore, workspaces: Workspaces) -> None:
    for status in SessionStatus:
        await session(db, f"old-{status.value}", status)
        await session(db, f"new-{status.value}", status, db.clock.now() - KEEP)
    names = [f"{age}-{status.value}" for age in ("old", "new") for status in SessionStatus] + ["unknown"]
    await used(*map(workspaces.private, names))
    assert await keeper(db, workspaces).once() == 2
    gone = {"old-done", "old-stopped"}
    assert there(workspaces, Scope.PRIVATE) == {folder_name(name) for name in names if name not in gone}
    assert (await workspaces.private("old-error").read_text("notes/plan.md")).text == "kept"
    assert await keeper(db, workspaces).once() == 0


async def test_those_of_projects_at_rest_go(db: TenantStore, workspaces: Workspaces) -> None:
    await session(db, "a", thread="rests")
    await session(db, "b", thread="works")
    await session(db, "c", SessionStatus.WAITING, thread="works")
    await used(*map(workspaces.shared, ("rests", "works", "unknown", "a")))
    assert await keeper(db, workspaces).once() == 1
    assert there(workspaces, Scope.SHARED) == {folder_name(name) for name in ("works", "unknown", "a")}


@pytest.mark.parametrize("name", ["Mia's Project", "x" * 400, "Ä" * 100, "a/../b", "😀"])
async def test_whatever_the_id_looks_like(db: TenantStore, workspaces: Workspaces, name: str) -> None:
    await session(db, name, thread=name)
    await session(db, name + "!", SessionStatus.RUNNING)
    await used(workspaces.private(name), workspaces.shared(name), workspaces.private(name + "!"))
    assert await keeper(db, workspaces).once() == 2
    assert there(workspaces, Scope.PRIVATE) == {folder_name(name + "!")}
    assert there(workspaces, Scope.SHARED) == set()


async def test_who_comes_in_meanwhile_keeps_it(
    db: TenantStore, workspaces: Workspaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new session of the project begins between the question and the removal."""
    await session(db, "a", thread="c")
    await used(workspaces.shared("c"))
    keeps = keeper(db, workspaces)
    real = keeps._held

    async def late(scope: Scope, name: str) -> object:
        held = await real(scope, name)
        await session(db, "b", SessionStatus.RUNNING, thread="c")
        return held

    monkeypatch.setattr(keeps, "_held", late)
    assert await keeps.once() == 0
    assert (await workspaces.shared("c").read_text("notes/plan.md")).text == "kept"


async def test_several_keepers_remove_each_once(db: TenantStore, workspaces: Workspaces) -> None:
    names = [f"s{n}" for n in range(20)]
    for name in names:
        await session(db, name)
    await used(*map(workspaces.private, names))
    log = FakeLog()
    assert sum(await asyncio.gather(*(keeper(db, workspaces, log).once() for _ in range(4)))) == 20
    assert warnings(log) == []
    assert there(workspaces, Scope.PRIVATE) == set()


async def test_a_disk_that_refuses_is_named_and_keeps_no_other(
    db: TenantStore, workspaces: Workspaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        await session(db, name)
        await used(workspaces.private(name))
    real = os.rename

    def refuses(source: str, *rest: object, **options: object) -> None:
        if source == folder_name("a"):
            raise PermissionError(13, "refused")
        real(source, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "rename", refuses)
    log = FakeLog()
    assert await keeper(db, workspaces, log).once() == 1
    assert [fields["id"] for fields in warnings(log)] == ["a"]
    monkeypatch.undo()
    assert await keeper(db, workspaces).once() == 1


async def test_without_a_folder_there_is_nothing_to_do(db: TenantStore, tmp_path: Path) -> None:
    log = FakeLog()
    assert await keeper(db, Workspaces(tmp_path / "none"), log).once() == 0
    assert warnings(log) == []
    assert not (tmp_path / "none").exists()
