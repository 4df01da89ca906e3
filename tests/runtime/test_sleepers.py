from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from runtime.contract import StepFrame, StepOut, WaitUntil
from runtime.registry import Registry
from runtime.sleepers import SleepList
from store.agent_state import SessionStatus
from store.errors import StoreUnavailableError
from store.ids import SessionId
from tests.runtime.kit import moniker, out, workshop
from tests.support import eventually

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def test_the_soonest_wakes_first_and_once() -> None:
    sleeping = SleepList()
    for name, seconds in (("c", 3), ("a", 1), ("b", 2)):
        sleeping.add(SessionId(name), at(seconds))
    assert sleeping.take_due(at(0.5)) == []
    assert sleeping.take_due(at(2)) == ["a", "b"]
    assert sleeping.take_due(at(9)) == ["c"]
    assert sleeping.take_due(at(9)) == []


def test_it_is_looked_at_again_when_the_next_is_due_and_at_least_every_few_seconds() -> None:
    sleeping = SleepList()
    assert sleeping.seconds_to_next(NOON) == 5
    sleeping.add(SessionId("a"), at(3600))
    assert sleeping.seconds_to_next(NOON) == 5
    sleeping.add(SessionId("b"), at(2))
    assert sleeping.seconds_to_next(NOON) == 2
    assert sleeping.seconds_to_next(at(5)) == 0


def test_a_newcomer_is_news() -> None:
    sleeping = SleepList()
    assert not sleeping.news.is_set()
    sleeping.add(SessionId("a"), at(1))
    assert sleeping.news.is_set()


async def sleeps(ctx: Any, frame: StepFrame) -> StepOut:
    """Sleeps for a day after each step."""
    return out(frame, text=str(frame.guidance), wait=WaitUntil(time=ctx.clock.now() + timedelta(days=1)))


async def test_a_session_that_woke_for_another_reason_sleeps_its_new_time(tmp_path: Path) -> None:
    async with workshop(tmp_path, moniker("m", sleeps)) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        shop.clock.leap(50_000)
        await shop.done(await shop.guide("early"))
        await shop.until_steps(2)
        shop.clock.leap(50_000)
        await shop.queue_read()
        row = await shop.until(SessionStatus.WAITING)
        assert row.iteration == 1
        shop.clock.leap(50_000)
        await shop.until_steps(3)
        assert await shop.texts() == ["None", "early", "None"]


async def test_paused_and_ended_sessions_are_not_woken(tmp_path: Path) -> None:
    async with workshop(tmp_path, moniker("m", sleeps)) as shop:
        for session in ("paused", "ended", "sleeps"):
            await shop.create("m", session)
            await shop.until(SessionStatus.WAITING, session)
        await shop.done(await shop.pause("paused"), await shop.destroy("ended"))
        shop.clock.leap(86_401)
        await shop.until_steps(2, "sleeps")
        assert len(await shop.steps("paused")) == len(await shop.steps("ended")) == 1
        await shop.done(await shop.resume("paused"))
        await shop.until_steps(2, "paused")


async def test_a_session_that_cannot_be_opened_is_left_and_the_others_wake(tmp_path: Path) -> None:
    async with workshop(tmp_path / "store", moniker("m", sleeps), moniker("gone", sleeps)) as shop:
        for name in ("m", "gone"):
            await shop.create(name, name)
            await shop.until(SessionStatus.WAITING, name)
    async with workshop(tmp_path / "store", moniker("m", sleeps)) as shop:
        shop.clock.leap(86_401)
        await shop.until_steps(2, "m")
        assert (await shop.state("gone")).status is SessionStatus.WAITING


async def test_a_session_that_cannot_be_read_for_a_moment_wakes_a_little_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = Registry.row
    tries: list[int] = []

    async def flaky(self: Registry, session_id: SessionId) -> Any:
        tries.append(1)
        if len(tries) == 1:
            raise StoreUnavailableError("gone for a moment")
        return await row(self, session_id)

    async with workshop(tmp_path, moniker("m", sleeps)) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        monkeypatch.setattr(Registry, "row", flaky)
        shop.clock.leap(86_401)
        await eventually(lambda: bool(shop.log.of("warning")))
        shop.clock.leap(2)
        await shop.until_steps(2)
