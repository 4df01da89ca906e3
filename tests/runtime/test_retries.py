from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runtime.contract import WaitForInput
from runtime.inputs import Inputs
from runtime.retries import Retries, RetryPace, RetryPolicy
from runtime.testing import START
from store.actions import Action, ActionKind, ActionStatus, list_open_actions
from store.clock import SystemChance
from store.enqueueing import NewAction, enqueue_all
from store.ids import SessionId
from store.marks import mark_action_processed_async, requeue_action
from tests.runtime.kit import moniker, out, workshop
from tests.support import eventually


class At:
    """Chance that gives one share of what it could, and keeps the limits that it was asked for."""

    def __init__(self, share: float = 1.0) -> None:
        self.share = share
        self.limits: list[float] = []

    def uniform(self, low: float, high: float) -> float:
        assert low == 0.0
        self.limits.append(high)
        return high * self.share


def test_the_limit_doubles_up_to_the_cap_and_then_the_tries_are_used_up() -> None:
    chance = At()
    policy = RetryPolicy(chance, max_attempts=6, base_s=0.5, cap_s=3.0)
    assert [policy.next_delay(tries) for tries in range(1, 8)] == [0.5, 1.0, 2.0, 3.0, 3.0, None, None]
    assert RetryPolicy(chance, max_attempts=1).next_delay(1) is None
    assert RetryPolicy(chance, max_attempts=10**9).next_delay(10**8) == 60.0


@given(tries=st.integers(1, 10**6), share=st.floats(0, 1), base=st.floats(0.001, 10), cap=st.floats(0.001, 100))
def test_a_delay_is_anything_up_to_its_limit(tries: int, share: float, base: float, cap: float) -> None:
    chance = At(share)
    delay = RetryPolicy(chance, max_attempts=10**7, base_s=base, cap_s=cap).next_delay(tries)
    assert delay is not None
    assert 0 <= delay <= cap
    assert chance.limits == [min(cap, base * 2 ** min(tries - 1, 62))]


@given(
    wanted=st.lists(st.floats(0, 3), max_size=120),
    per_s=st.sampled_from([0.5, 1, 7, 20, 1000]),
)
def test_no_second_has_more_retries_than_allowed_and_none_comes_early(wanted: list[float], per_s: float) -> None:
    pace = RetryPace(per_s)
    asked = [START + timedelta(seconds=seconds) for seconds in wanted]
    given_moments = [pace.place(moment, START) for moment in asked]
    assert all(moment >= ask for moment, ask in zip(given_moments, asked, strict=True))
    in_order = sorted(given_moments)
    for early, late in zip(in_order, in_order[2:], strict=False):
        assert (late - early).total_seconds() >= 1 / per_s - 1e-5


def test_the_place_in_a_storm_costs_little_and_old_slots_are_forgotten(monkeypatch: Any) -> None:
    monkeypatch.setattr("runtime.retries._MAX_SLOTS", 100)
    pace = RetryPace(20)
    for number in range(1000):
        pace.place(START + timedelta(seconds=number / 20), START + timedelta(seconds=number / 20))
    assert len(pace._next_free) <= 101


def test_a_worker_asks_policy_and_pace() -> None:
    retries = Retries(RetryPolicy(At(0.0), max_attempts=3), RetryPace(1))
    moments = [retries.next_try(tries, START) for tries in (1, 2, 3)]
    assert moments == [START, START + timedelta(seconds=1), None]
    assert 0 <= SystemChance().uniform(0, 1) <= 1


# --- a worker's actions ----------------------------------------------------------------------------------------------

QUICK_RETRIES: dict[str, Any] = {"retry_base_s": 0.001, "retry_cap_s": 0.001, "retries_per_s": 10_000}


class Breaking:
    """Breaks the handler of inputs for some sessions, a number of times each."""

    def __init__(self, monkeypatch: Any, times: dict[str, int]) -> None:
        self.tried: list[str] = []
        self.left = times
        real = Inputs.input

        async def breaking(inputs: Inputs, action: Action) -> None:
            name = str(action.session_id)
            self.tried.append(name)
            if self.left.get(name, 0) > 0:
                self.left[name] -= 1
                raise OSError("the outage")
            await real(inputs, action)

        monkeypatch.setattr(Inputs, "input", breaking)


def answers() -> Any:
    async def step(ctx: Any, frame: Any) -> Any:
        return out(frame, text=" ".join(said.text for said in frame.inputs), wait=WaitForInput())

    return moniker("answers", step)


async def test_an_outage_ends_and_the_action_is_carried_out_by_itself(tmp_path: Path, monkeypatch: Any) -> None:
    breaking = Breaking(monkeypatch, {"s": 3})
    async with workshop(tmp_path, answers(), max_attempts=5, **QUICK_RETRIES) as shop:
        await shop.done(await shop.create("answers"))
        said = await shop.say("hello")
        (ended,) = await shop.ended(said)
        assert (ended.status, ended.attempts, ended.error) == (ActionStatus.DONE, 4, None)
        assert breaking.tried == ["s"] * 4
        assert (await shop.texts())[-1] == "hello"


async def test_a_poison_action_is_dead_after_its_tries_and_hurts_nobody(tmp_path: Path, monkeypatch: Any) -> None:
    breaking = Breaking(monkeypatch, {"poison": 10**9})
    async with workshop(tmp_path, answers(), quiet=False, max_attempts=4, **QUICK_RETRIES) as shop:
        names = ["poison", *[f"s{number}" for number in range(10)]]
        await shop.done(*[await shop.create("answers", name) for name in names])
        poison = await shop.say("x", "poison")
        others = [await shop.say(f"to {name}", name) for name in names[1:]]
        await shop.done(*others)
        assert await shop.error_of(poison, ActionStatus.DEAD) == "OSError: the outage"
        assert (await shop.action(poison)).attempts == 4
        assert breaking.tried.count("poison") == 4
        assert [breaking.tried.count(name) for name in names[1:]] == [1] * 10
        await requeue_action(shop.db, poison.id)

        async def dead_again() -> bool:
            found = await shop.action(poison)
            return found.status is ActionStatus.DEAD and breaking.tried.count("poison") == 8

        await eventually(dead_again)
        again = await shop.action(poison)
        assert (again.attempts, [entry["attempts"] for entry in again.metadata["history"]]) == (4, [4])


async def test_a_restart_keeps_the_count(tmp_path: Path, monkeypatch: Any) -> None:
    settings: dict[str, Any] = {"retry_base_s": 1000, "retry_cap_s": 1000, "max_attempts": 3}
    monkeypatch.setattr("runtime.wiring.SystemChance", At)
    Breaking(monkeypatch, {"s": 10**9})
    async with workshop(tmp_path, answers(), quiet=False, **settings) as shop:
        await shop.done(await shop.create("answers"))
        said = await shop.say("hello")
        for tries in (1, 2):

            async def tried(tries: int = tries) -> bool:
                return (await shop.action(said)).attempts == tries

            await eventually(tried)
            waiting = await shop.action(said)
            assert (waiting.status, waiting.error) == (ActionStatus.PENDING, "OSError: the outage")
            assert waiting.not_before is not None
            assert waiting.not_before > shop.now() + timedelta(seconds=900)
            await shop.restart()
            shop.clock.leap(1001)
        assert await shop.error_of(said, ActionStatus.DEAD) == "OSError: the outage"
        assert (await shop.action(said)).attempts == 3


async def test_a_storm_comes_back_in_single_file_and_lets_others_through(tmp_path: Path, monkeypatch: Any) -> None:
    """F25: 500 fail at once after an outage."""
    count = 500
    monkeypatch.setattr("runtime.wiring.SystemChance", lambda: At(0.0))  # the worst: no jitter at all
    names = [f"storm{number}" for number in range(count)]
    breaking = Breaking(monkeypatch, dict.fromkeys(names, 1))
    async with workshop(tmp_path, answers(), quiet=False, max_attempts=5, retries_per_s=1) as shop:
        other = await shop.create("answers", "other")
        await shop.done(other)
        storm = [NewAction(ActionKind.INPUT, session_id=SessionId(name), payload={"text": "x"}) for name in names]
        await enqueue_all(shop.db, storm)

        async def all_wait() -> bool:
            return sum(action.attempts for action in await list_open_actions(shop.db)) >= count - 50

        await eventually(all_wait, deadline_s=30)
        moments = sorted(a.not_before for a in await list_open_actions(shop.db) if a.not_before is not None)
        for early, late in zip(moments, moments[10:], strict=False):
            assert late - early >= timedelta(seconds=8.9)
        tried_before = len(breaking.tried)
        said = await shop.say("still here?", "other")
        await shop.done(said)
        retried = len(breaking.tried) - tried_before
        assert retried < count / 4
        assert (await shop.texts("other"))[-1] == "still here?"


async def test_retries_that_are_overdue_at_a_start_come_in_single_file_too(tmp_path: Path, monkeypatch: Any) -> None:
    count = 40
    breaking = Breaking(monkeypatch, {})
    async with workshop(tmp_path, answers(), start=False, quiet=False, max_attempts=5, retries_per_s=0.001) as shop:
        rows = await enqueue_all(
            shop.db, [NewAction(ActionKind.INPUT, session_id=SessionId(f"s{number}")) for number in range(count)]
        )
        marks = [
            mark_action_processed_async(shop.db, row.id, status=ActionStatus.PENDING, attempts=1, error="e")
            for row in rows
        ]
        await asyncio.gather(*marks)
        await shop.start()
        await shop.queue_read()
        assert len(breaking.tried) <= 1


def test_moments_are_in_utc() -> None:
    pace = RetryPace(20)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert {pace.place(now, now).tzinfo for _ in range(3)} == {UTC}
