from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from runtime import poller as module
from runtime.poller import Poller
from runtime.retries import RetryPace
from runtime.testing import LeapClock
from store.actions import Action, ActionKind, ActionStatus, get_action, queue_of
from store.agent_state import SessionStatus
from store.changes import Feed
from store.database import TenantStore
from store.enqueueing import NewAction, enqueue
from store.errors import StoreUnavailableError
from store.ids import SessionId
from store.marks import mark_action_processed_async, requeue_action
from tests.runtime.kit import KeptLog, opened, workshop


class Taking:
    """Stands for the dispatcher: keeps what it is given."""

    def __init__(self) -> None:
        self.taken: list[str] = []

    def ticket(self) -> int:
        return 0

    def dispatch(self, actions: list[Action], ticket: int) -> int:
        self.taken += [action.id for action in actions]
        return len(actions)


class Bench:
    def __init__(self, db: TenantStore, poller: Poller, taking: Taking) -> None:
        self.db = db
        self.poller = poller
        self.taking = taking
        assert isinstance(db.clock, LeapClock)
        self.clock = db.clock

    async def ask(self, **fields: Any) -> Action:
        return await enqueue(self.db, NewAction(kind=ActionKind.PAUSE, session_id=SessionId("s"), **fields))

    async def polled(self) -> list[str]:
        """What one pass hands on."""
        self.taking.taken.clear()
        assert await self.poller.poll_once() == len(self.taking.taken)
        return list(self.taking.taken)

    def in_s(self, seconds: float) -> Any:
        return self.clock.now() + timedelta(seconds=seconds)


@asynccontextmanager
async def bench(folder: Path, *, retries_per_s: float = 20) -> AsyncIterator[Bench]:
    async with opened(folder) as store:
        db, taking = store.tenant(), Taking()
        hands: Any = taking
        version = await queue_of(db).version()
        yield Bench(db, Poller(db, hands, version=version, log=KeptLog(), pace=RetryPace(retries_per_s)), taking)


async def test_a_pass_hands_on_what_is_new_once(tmp_path: Path) -> None:
    async with bench(tmp_path) as desk:
        assert await desk.polled() == []
        first, second = await desk.ask(), await desk.ask()
        assert await desk.polled() == [first.id, second.id]
        assert await desk.polled() == []


async def test_what_has_ended_is_not_handed_on_and_what_is_requeued_is(tmp_path: Path) -> None:
    async with bench(tmp_path) as desk:
        action = await desk.ask()
        await mark_action_processed_async(desk.db, action.id, status=ActionStatus.FAILED, error="no")
        assert await desk.polled() == []
        await requeue_action(desk.db, action.id)
        assert await desk.polled() == [action.id]


async def test_an_action_waits_for_its_moment(tmp_path: Path) -> None:
    async with bench(tmp_path) as desk:
        later = [await desk.ask(not_before=desk.in_s(seconds)) for seconds in (200, 100)]
        due = await desk.ask(not_before=desk.in_s(-1))
        assert await desk.polled() == [due.id]
        desk.clock.leap(150)
        assert await desk.polled() == [later[1].id]
        desk.clock.leap(100)
        assert await desk.polled() == [later[0].id]
        assert await desk.polled() == []


async def test_an_action_that_ended_before_its_moment_is_left_alone(tmp_path: Path) -> None:
    async with bench(tmp_path) as desk:
        later = await desk.ask(not_before=desk.in_s(100))
        assert await desk.polled() == []
        await mark_action_processed_async(desk.db, later.id)
        desk.clock.leap(101)
        assert await desk.polled() == []


async def test_a_session_that_goes_on_has_its_open_actions_read_again(tmp_path: Path) -> None:
    async with bench(tmp_path) as desk:
        parked, by_agent = await desk.ask(), await desk.ask()
        await desk.polled()
        desk.poller.reread(SessionId("other"))
        assert await desk.polled() == []
        desk.poller.reread(SessionId("s"))
        assert sorted(await desk.polled()) == sorted([parked.id, by_agent.id])
        desk.poller.reread(SessionId("other"), [by_agent.id])
        assert await desk.polled() == [by_agent.id]


@pytest.mark.parametrize("broken", ["list_open_actions_of_session", "get_action", "feed"])
async def test_a_read_that_fails_takes_nothing_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    async with bench(tmp_path) as desk:
        parked = await desk.ask()
        later = await enqueue(
            desk.db,
            NewAction(kind=ActionKind.PAUSE, session_id=SessionId("t"), not_before=desk.in_s(100)),
        )
        await desk.polled()
        fresh = await enqueue(desk.db, NewAction(kind=ActionKind.PAUSE, session_id=SessionId("u")))
        desk.clock.leap(101)
        desk.poller.reread(SessionId("s"))

        async def fail(*_: Any) -> Any:
            raise StoreUnavailableError("gone for a moment")

        with monkeypatch.context() as patch:
            if broken == "feed":
                patch.setattr(desk.poller._feed, "poll", fail)
            else:
                patch.setattr(module, broken, fail)
            desk.taking.taken.clear()
            with pytest.raises(StoreUnavailableError):
                await desk.poller.poll_once()
            found = list(desk.taking.taken)
        found += await desk.polled()
        assert sorted(found) == sorted([parked.id, later.id, fresh.id])


async def test_a_worker_carries_out_an_action_at_its_moment_also_after_a_restart(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        await shop.create("echo", task="hi", config={"wait_for_input": True})
        await shop.until(SessionStatus.WAITING)
        soon = await shop.pause(not_before=shop.now() + timedelta(days=1))
        late = await shop.resume(not_before=shop.now() + timedelta(days=2))
        await shop.queue_read()
        assert not (await shop.action(soon)).processed
        shop.clock.leap(86_401)
        await shop.done(soon)
        await shop.restart()
        await shop.queue_read()
        assert not (await get_action(shop.db, late.id)).processed
        shop.clock.leap(86_401)
        await shop.done(late)


async def test_a_worker_whose_queue_cannot_be_read_tries_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []
    poll = Feed.poll

    async def flaky(self: Any, *conditions: Any, **options: Any) -> Any:
        if conditions:  # the poller's own: it asks for what is pending
            tries.append(1)
            if len(tries) == 1:
                raise StoreUnavailableError("gone for a moment")
        return await poll(self, *conditions, **options)

    monkeypatch.setattr(Feed, "poll", flaky)
    async with workshop(tmp_path, quiet=False) as shop:
        created = await shop.create("echo", task="hi")
        shop.clock.leap(2)
        await shop.done(created)
        assert [event for event, _ in shop.log.of("error")] == ["the queue cannot be read; trying again"]


async def test_overdue_tries_of_an_earlier_worker_come_one_after_the_other(tmp_path: Path) -> None:
    async with bench(tmp_path, retries_per_s=0.001) as desk:
        rows = [await desk.ask() for _ in range(5)]
        marks = [
            mark_action_processed_async(desk.db, row.id, status=ActionStatus.PENDING, attempts=2, error="e")
            for row in rows
        ]
        await asyncio.gather(*marks)
        fresh = await desk.ask()
        assert await desk.polled() == [fresh.id]
        taken = await desk.polled()
        assert len(taken) <= 1
        while len(taken) < len(rows):
            desk.clock.leap(1000)
            now = await desk.polled()
            assert len(now) == 1
            taken += now
        assert sorted(taken) == sorted(row.id for row in rows)


async def test_a_try_that_ended_while_the_poller_read_is_not_taken_for_stale(tmp_path: Path) -> None:
    async with bench(tmp_path) as desk:
        action = await desk.ask()
        assert await desk.polled() == [action.id]
        desk.poller.look_again(action.id, desk.in_s(-1))
        assert await desk.polled() == [action.id]
