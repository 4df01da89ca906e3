"""Check: finds what was done to a healthy store, exactly that, and mends it; a healthy store is clean."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.checking.check import check, mend
from runtime.checking.finding import Finding
from runtime.checking.finding import FindingKind as Kind
from runtime.contract import StepFrame, StepOut
from store import filters
from store.actions import ActionKind, ActionStatus, queue_of
from store.agent_state import SessionStatus, states_of
from store.agent_steps import journal_of
from store.conversations import Delivery, Participant, participants_of
from store.database import TenantStore
from store.ids import ActionId, ConversationId, ParticipantId, SessionId, StepId, step_id
from store.leases import leases_of
from store.messages import messages_of
from store.schema import AGENT_STEPS
from store.session_cursors import save_cursor
from store.workers import list_workers, save_worker, workers_of
from tests.runtime.kit import moniker, opened, out, workshop
from tests.support import examples

STEPS = 8


async def body(ctx: Any, frame: StepFrame) -> StepOut:
    """Counts, and is done at last."""
    n = int(frame.step)
    return out(frame, text=f"step {n}", state={"n": n}, done=n >= STEPS)


COUNTS = moniker("counts", body, takes_input="any_step")


async def a_healthy_store(folder: Path) -> None:
    """Two sessions that have ended in one thread, and one that waits, with everything that check looks at."""
    async with workshop(folder, COUNTS) as shop:
        await shop.thread("t")
        for name in ("a", "b"):
            await shop.create("counts", name, conversation="t", stop_on_done=True)
            await shop.until(SessionStatus.DONE, name)
        await save_cursor(shop.db, SessionId("a"), ConversationId("t"), 1)
        await shop.queue_read()
        await shop.stop()


@pytest.fixture(scope="session")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a healthy store, to be copied."""
    return tmp_path_factory.mktemp("healthy") / "data"


@pytest.fixture
async def db(tmp_path: Path, healthy: Path) -> AsyncIterator[TenantStore]:
    """A copy of the healthy store."""
    async with copied(healthy, tmp_path) as store:
        yield store


class copied:  # noqa: N801 - used like a function
    """A copy of the healthy store, made first where it is not there yet."""

    def __init__(self, healthy: Path, tmp_path: Path) -> None:
        self._healthy = healthy
        self._folder = Path(tempfile.mkdtemp(dir=tmp_path)) / "data"
        self._opened: Any = None

    async def __aenter__(self) -> TenantStore:
        if not self._healthy.exists():
            await a_healthy_store(self._healthy)
        shutil.copytree(self._healthy, self._folder)
        self._opened = opened(self._folder)
        store = await self._opened.__aenter__()
        return store.tenant()  # type: ignore[no-any-return]

    async def __aexit__(self, *error: object) -> None:
        await self._opened.__aexit__(*error)


def kinds(findings: list[Finding]) -> list[Kind]:
    """What was found."""
    return [finding.kind for finding in findings]


async def test_a_healthy_store_is_clean(db: TenantStore) -> None:
    assert await check(db) == []


# --- one corruption at a time ----------------------------------------------------------------------------------------

Corrupt = Callable[[TenantStore, SessionId, int], Awaitable[str]]


@dataclass(frozen=True)
class Corruption:
    """Something that is done to a healthy store, and what a check must make of it."""

    name: str
    do: Corrupt
    kind: Kind
    mendable: bool = True


async def _raw(db: TenantStore, table: str, condition: Any, **changes: Any) -> None:
    """Replace the rows that match by changed copies, past every codec; the copies are new rows."""
    rows = (await db.store.tables[table].read(condition)).to_pylist()
    await db.store.tables[table].delete(condition)
    await db.store.tables[table].append(*[tuple({**row, **changes}.values()) for row in rows])


async def _projected(db: TenantStore) -> None:
    """The watermark covers what a corruption has written to the journal."""
    for worker in await list_workers(db):
        await save_worker(db, dataclasses.replace(worker, journal_version=await journal_of(db).version()))


async def lose_a_step(db: TenantStore, session: SessionId, at: int) -> str:
    at = min(max(at, 1), STEPS - 2)
    await journal_of(db).delete(filters.equals("id", step_id(session, at)))
    return f"{session}:{at}"


async def repeat_a_step(db: TenantStore, session: SessionId, at: int) -> str:
    (row,) = await journal_of(db).find(filters.equals("id", step_id(session, at)))
    await journal_of(db).append(dataclasses.replace(row, text="again"))
    return row.id


async def forget_the_row(db: TenantStore, session: SessionId, at: int) -> str:
    await states_of(db).delete(filters.equals("session_id", session))
    return session


async def put_the_row_back(db: TenantStore, session: SessionId, at: int) -> str:
    at = min(at, STEPS - 2)
    (step,) = await journal_of(db).find(filters.equals("id", step_id(session, at)))
    row = {"context": step.state, "next_step_token": step.next_step_token, "usage": step.usage}
    await states_of(db).change((session,), iteration=at, status=SessionStatus.RUNNING, **row)
    return session


async def lose_the_last_steps(db: TenantStore, session: SessionId, at: int) -> str:
    at = max(at, 1)
    later = filters.equals("session_id", session) & filters.at_least("iteration", at)
    await journal_of(db).delete(later)
    return session


async def change_the_row(db: TenantStore, session: SessionId, at: int) -> str:
    changes: list[dict[str, Any]] = [{"context": {"n": -1}}, {"next_step_token": "?"}, {"usage": {}}]
    await states_of(db).change((session,), **changes[at % 3])
    return session


async def lose_a_message(db: TenantStore, session: SessionId, at: int) -> str:
    await messages_of(db).delete(filters.equals("message_id", step_id(session, at)))
    return step_id(session, at)


async def repeat_a_message(db: TenantStore, session: SessionId, at: int) -> str:
    (message,) = await messages_of(db).find(filters.equals("message_id", step_id(session, at)))
    await messages_of(db).append(message)
    return message.message_id


async def reopen_an_action(db: TenantStore, session: SessionId, at: int) -> str:
    """An input that came to the ended session, stood open, and a worker that came and went for long."""
    (create,) = await queue_of(db).find(filters.equals("session_id", session), filters.equals("kind", "agent_create"))
    fields: dict[str, Any] = {"status": ActionStatus.PENDING, "processed": False, "processed_at": None}
    lost = dataclasses.replace(create, id=ActionId("lost"), kind=ActionKind.INPUT, payload={"text": "?"}, **fields)
    await queue_of(db).append(lost)
    (worker, *_) = await list_workers(db)
    await save_worker(db, dataclasses.replace(worker, heartbeat_at=worker.heartbeat_at + timedelta(hours=1)))
    return lost.id


async def contradict_a_flag(db: TenantStore, session: SessionId, at: int) -> str:
    (create,) = await queue_of(db).find(filters.equals("session_id", session), filters.equals("kind", "agent_create"))
    changes: list[dict[str, Any]] = [{"processed": False}, {"processed_at": None}]
    await queue_of(db).change((create.id,), **changes[at % 2])
    return create.id


async def invite_to_nowhere(db: TenantStore, session: SessionId, at: int) -> str:
    nowhere, name = ConversationId("nowhere"), ParticipantId("p")
    row = Participant(name, nowhere, None, None, session, "member", Delivery.PUSH, db.clock.now(), None)
    await participants_of(db).upsert(row)
    return name


async def read_ahead(db: TenantStore, session: SessionId, at: int) -> str:
    await save_cursor(db, SessionId("a"), ConversationId("t"), 1000 + at)
    return "a/t"


async def project_ahead(db: TenantStore, session: SessionId, at: int) -> str:
    (worker, *_) = await list_workers(db)
    await workers_of(db).change((worker.worker_id,), journal_version=1_000_000)
    return worker.worker_id


async def spoil_a_state(db: TenantStore, session: SessionId, at: int) -> str:
    condition = filters.equals("id", step_id(session, at))
    await _raw(db, AGENT_STEPS.name, condition, **[{"state": '{"n": '}, {"status": "dancing"}, {"usage": "?"}][at % 3])
    await _projected(db)
    return step_id(session, at)


async def spoil_the_row(db: TenantStore, session: SessionId, at: int) -> str:
    changes = [{"status": "dancing"}, {"context": "{"}, {"spec": "nothing"}][at % 3]
    await _raw(db, "agent_state", filters.equals("session_id", session), **changes)
    return session


async def break_a_chain(db: TenantStore, session: SessionId, at: int) -> str:
    """The rows up to a step of changes are gone, as if retention had cut at the wrong place."""
    at = max(at, 2)
    rest = filters.equals("session_id", session) & filters.at_least("iteration", at)
    await _raw(
        db, AGENT_STEPS.name, rest & filters.below("iteration", STEPS - 1), state=None, changes="{}", base=at - 2
    )
    await journal_of(db).delete(filters.equals("session_id", session), filters.below("iteration", at))
    if at == STEPS - 1:
        await _raw(db, AGENT_STEPS.name, rest, state=None, changes="{}", base=at - 2)
    await _projected(db)
    return step_id(session, at)


CATALOGUE = [
    Corruption("lose a step", lose_a_step, Kind.GAP, mendable=False),
    Corruption("repeat a step", repeat_a_step, Kind.DOUBLED),
    Corruption("forget the row", forget_the_row, Kind.STATE_MISSING),
    Corruption("put the row back", put_the_row_back, Kind.STATE_BEHIND),
    Corruption("lose the last steps", lose_the_last_steps, Kind.STATE_AHEAD),
    Corruption("change the row", change_the_row, Kind.STATE_DIFFERS),
    Corruption("lose a message", lose_a_message, Kind.MESSAGE_MISSING),
    Corruption("repeat a message", repeat_a_message, Kind.DOUBLED),
    Corruption("reopen an action", reopen_an_action, Kind.ACTION_OF_ENDED),
    Corruption("contradict a flag", contradict_a_flag, Kind.FLAG),
    Corruption("invite to nowhere", invite_to_nowhere, Kind.PARTICIPANT),
    Corruption("read ahead", read_ahead, Kind.CURSOR),
    Corruption("project ahead", project_ahead, Kind.CURSOR),
    Corruption("spoil a state", spoil_a_state, Kind.UNREADABLE, mendable=False),
    Corruption("spoil the row", spoil_the_row, Kind.UNREADABLE, mendable=False),
    Corruption("break a chain", break_a_chain, Kind.CHAIN_BROKEN, mendable=False),
]


async def found_and_mended(db: TenantStore, corruption: Corruption, session: SessionId, at: int) -> None:
    """The check finds exactly the corruption, and its mending leads to a clean check."""
    what = await corruption.do(db, session, at)

    found = await check(db)
    assert [(fault.kind, fault.what) for fault in found] == [(corruption.kind, what)], found
    assert (found[0].mend is not None) == corruption.mendable
    assert found[0].cure

    (mended,) = await mend(found)
    assert (mended.deed is not None) == corruption.mendable
    assert kinds(await check(db)) == ([] if corruption.mendable else [corruption.kind])


@pytest.mark.parametrize("corruption", CATALOGUE, ids=lambda corruption: corruption.name)
async def test_each_corruption_is_found_and_mended(db: TenantStore, corruption: Corruption) -> None:
    await found_and_mended(db, corruption, SessionId("a"), 3)


@pytest.mark.slow
@given(st.sampled_from(CATALOGUE), st.sampled_from(["a", "b"]), st.integers(0, STEPS - 1))
@examples(40)
async def test_any_corruption_is_found_and_mended(
    healthy: Path, tmp_path: Path, corruption: Corruption, session: str, at: int
) -> None:
    async with copied(healthy, tmp_path) as db:
        await found_and_mended(db, corruption, SessionId(session), at)


# --- what only looks like a fault -------------------------------------------------------------------------------------


async def test_a_row_behind_a_fence_is_no_repeat(db: TenantStore) -> None:
    (step,) = await journal_of(db).find(filters.equals("id", "a:3"))
    fence = dataclasses.replace(
        step, id=StepId("fence:x:9"), session_id=SessionId("fence:x"), iteration=-1, epoch=9, lane="x", action_id=None
    )
    await journal_of(db).append(fence)
    await journal_of(db).append(dataclasses.replace(step, epoch=8, lane="x", text="too late"))
    await journal_of(db).append(dataclasses.replace(step, id=StepId("a:8"), iteration=8, epoch=8, lane="x"))
    await _projected(db)

    assert await check(db) == []


async def test_what_the_watermark_does_not_cover_may_still_come(db: TenantStore) -> None:
    (worker, *_) = await list_workers(db)
    await save_worker(db, dataclasses.replace(worker, journal_version=1))
    await leases_of(db).change_if(filters.at_least("epoch", 0), watermark=1)
    await forget_the_row(db, SessionId("a"), 0)
    await lose_a_message(db, SessionId("b"), 3)
    await put_the_row_back(db, SessionId("b"), 3)

    assert await check(db) == []


async def test_an_open_action_that_the_next_worker_answers_is_no_fault(db: TenantStore) -> None:
    await reopen_an_action(db, SessionId("a"), 0)
    for worker in await list_workers(db):  # nobody has been at work since
        await save_worker(db, dataclasses.replace(worker, heartbeat_at=worker.started_at))

    assert await check(db) == []


async def test_a_history_that_was_trimmed_is_clean(db: TenantStore) -> None:
    await journal_of(db).delete(filters.below("iteration", 5))

    assert await check(db) == []
