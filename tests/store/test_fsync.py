"""STEPWELL_FSYNC: what was acknowledged survives a power cut at every system call; seen with strace."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from store.actions import ActionKind, ActionStatus, queue_of
from store.agent_state import states_of
from store.agent_steps import append_agent_step, journal_of
from store.database import Store, open_store
from store.enqueueing import NewAction, enqueue_all
from store.errors import StoreUnavailableError
from store.fsync import TableSync, durable_version
from store.options import StoreOptions
from store.testing import CountingIds, FrozenClock
from tests.crash.powercut import Event, Kind, Survives, events_in, rebuild, strace
from tests.crash.store_child import AT_ONCE
from tests.crash.store_processes import Child
from tests.store.rows import a_step

COUNT = 8


async def opened(folder: Path, *, fsync: bool = True, patience_s: float = 5.0) -> Store:
    options = StoreOptions(str(folder), patience_s=patience_s, fsync=fsync)
    return await open_store(options, clock=FrozenClock(), ids=CountingIds("old-"))


async def traced(role: str, folder: Path, tmp_path: Path, **options: object) -> list[Event]:
    """What a process that plays a role does in `folder`."""
    log = tmp_path / "strace.log"
    child = await Child.start(role, folder, under=strace(log), name="x", count=COUNT, **options)
    child.go()
    await child.reports()
    return events_in(log, folder)


@pytest.mark.process
async def test_data_then_manifest_then_folder_are_synced_before_the_answer(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    events = await traced("append_steps", folder, tmp_path, fsync=True)

    table = folder / "agent_steps.lance"
    manifests = [at for at, event in enumerate(events) if is_new(event, table / "_versions", ".manifest")]
    for number, named in enumerate(manifests):
        synced = first(events, named, partial(is_sync, events[named].path))
        versions = first(events, synced, partial(is_sync, table / "_versions"))
        data = [at for at in range(named) if is_new(events[at], table / "data", ".lance")]
        if data:
            ends = [first(events, at, partial(is_sync, events[at].path)) for at in data]
            assert max(ends) < synced
            assert first(events, ends[-1], partial(is_sync, table / "data")) < synced
        # what this manifest holds was not yet told: the table's first one is empty, each further one has one group
        assert sum("step" in event.fact for event in events[:versions]) <= max(0, number - 1) * AT_ONCE
    assert len(manifests) == 1 + COUNT // AT_ONCE
    assert sum("step" in event.fact for event in events) == COUNT


def is_new(event: Event, folder: Path, suffix: str) -> bool:
    """Whether a file of `folder` got its name."""
    return event.kind is Kind.NAMED and event.path.parent == folder and event.path.suffix == suffix


def is_sync(path: Path, event: Event) -> bool:
    """Whether a path was synced."""
    return event.kind is Kind.SYNCED and event.path == path


def first(events: Sequence[Event], after: int, wanted: Callable[[Event], bool]) -> int:
    """Where the first wanted event after another one is."""
    return next(at for at in range(after + 1, len(events)) if wanted(events[at]))


@pytest.mark.process
async def test_without_the_setting_nothing_is_synced(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    events = await traced("append_steps", folder, tmp_path)

    assert [event.path for event in events if event.kind is Kind.SYNCED] == []
    assert not (folder / "synced").exists()


async def holds(folder: Path, told: Sequence[Event], old: Sequence[str]) -> None:
    """Every acknowledged row is there, in a store that opens."""
    store = await opened(folder)
    db = store.tenant()
    facts = [event.fact for event in told]
    actions = {action.id: action for action in await queue_of(db).find()}
    assert actions.keys() >= {*old, *(fact["action"] for fact in facts if "action" in fact)}
    assert all(actions[fact["marked"]].status is ActionStatus.DONE for fact in facts if "marked" in fact)
    steps = {step.id for step in await journal_of(db).find()}
    assert steps >= {fact["step"] for fact in facts if "step" in fact}
    iteration = max((fact["iteration"] for fact in facts if "iteration" in fact), default=None)
    if iteration is not None:
        states = await states_of(db).find()
        assert len(states) == 4
        assert all(state.iteration >= iteration for state in states)
    await store.close()


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("survives", Survives)
async def test_cut_at_any_system_call_every_acknowledged_row_is_there(tmp_path: Path, survives: Survives) -> None:
    folder, before, after = tmp_path / "data", tmp_path / "before", tmp_path / "after"
    store = await opened(folder)
    old = [action.id for action in await enqueue_all(store.tenant(), [NewAction(ActionKind.INPUT)] * COUNT)]
    await store.close()
    shutil.copytree(folder, before)
    events = await traced("write_everything", folder, tmp_path, ids=old, fsync=True)
    shutil.copytree(folder, after)
    assert sum(event.kind is Kind.TOLD for event in events) > 3 * COUNT

    cuts = 0
    for at, event in enumerate(events):
        if event.kind is Kind.TOLD or not {"queue.lance", "agent_steps.lance", "agent_state.lance"} & {
            *event.path.parts
        }:
            continue
        cuts += 1
        if cuts % 4:  # every call takes minutes; tried, and the same
            continue
        target = tmp_path / "cut"
        done = events[: at + 1]
        rebuild(done, survives, before, after, folder, target)
        await holds(target, [each for each in done if each.kind is Kind.TOLD], old)
        shutil.rmtree(target)
    assert cuts > 50


@pytest.mark.process
@pytest.mark.parametrize("survives", Survives)
async def test_cut_while_the_store_is_made_the_next_start_makes_it(tmp_path: Path, survives: Survives) -> None:
    folder, before, after = tmp_path / "data", tmp_path / "before", tmp_path / "after"
    before.mkdir()
    events = await traced("append_steps", folder, tmp_path, fsync=True)
    shutil.copytree(folder, after)
    events = events[: next(at for at, event in enumerate(events) if "ready" in event.fact)]
    assert len(events) > 100

    for at in range(0, len(events), 17):
        target = tmp_path / "cut"
        rebuild(events[: at + 1], survives, before, after, folder, target)
        await holds(target, [], [])
        shutil.rmtree(target)


async def test_what_another_process_committed_is_synced_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await opened(tmp_path)
    other = await opened(tmp_path, fsync=False)
    await append_agent_step(other.tenant(), a_step(iteration=0))
    synced = watched(monkeypatch)

    await append_agent_step(store.tenant(), a_step(iteration=1))

    assert sum(path.parent.name == "data" for path in synced) == 2
    assert sum(path.suffix == ".manifest" for path in synced) == 2
    await append_agent_step(store.tenant(), a_step(iteration=2))
    assert sum(path.parent.name == "data" for path in synced) == 3
    for each in (store, other):
        await each.close()


def files_of(folder: Path, pattern: str) -> list[Path]:
    """What is in a folder and those below."""
    return sorted(folder.rglob(pattern))


def watched(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The paths that are synced from now on."""
    synced: list[Path] = []
    real = os.fsync

    def fsync(file: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{file}")))
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    return synced


async def test_compaction_syncs_the_merged_files_before_old_ones_go(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    for iteration in range(5):
        await append_agent_step(store.tenant(), a_step(iteration=iteration))
    table = store.tables["agent_steps"]
    await table.compact(keep=timedelta(milliseconds=1))

    assert durable_version(tmp_path / "agent_steps.lance") == await table.version()
    assert len(await journal_of(store.tenant()).find()) == 5
    await store.close()


async def test_a_file_whose_sync_failed_is_written_anew_before_anyone_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failed fsync the kernel forgets that the file is not on the disk: the next fsync proves nothing."""
    store = await opened(tmp_path)
    synced: list[str] = []
    failures = [OSError(5, "Input/output error")]
    real = os.fsync

    def fsync(file: int) -> None:
        path = os.readlink(f"/proc/self/fd/{file}")
        if "/data/" in path and failures:
            raise failures.pop()
        synced.append(path)
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    await append_agent_step(store.tenant(), a_step(iteration=0))

    assert any(".stepwell-fresh" in path for path in synced)
    assert len(await journal_of(store.tenant()).find()) == 1
    assert not files_of(tmp_path, ".stepwell-fresh*")
    await store.close()


async def test_a_disk_that_never_syncs_is_an_error_and_no_acknowledgement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(tmp_path, patience_s=0.3)

    def fsync(file: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(StoreUnavailableError, match="Input/output error"):
            await append_agent_step(store.tenant(), a_step(iteration=0))
    await append_agent_step(store.tenant(), a_step(iteration=1))
    await store.close()


async def test_without_a_folder_there_is_nothing_to_sync() -> None:
    sync = TableSync(None)
    assert not sync.on
    await sync()
