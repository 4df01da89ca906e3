from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runtime import dispatcher as module
from runtime.cancelling import Cancels
from runtime.contract import StepFrame, StepOut, WaitForInput
from runtime.creating import Creating
from runtime.errors import RefusedError
from runtime.rehydration import Recovered
from store.actions import Action, ActionKind, ActionStatus
from store.agent_requests import agent_create
from store.agent_state import SessionStatus, find_agent_state
from store.cancelling import CANCELLED, cancel_action, withdraw_action
from store.enqueueing import NewAction, enqueue
from store.errors import StoreUnavailableError
from store.ids import SessionId
from store.marks import requeue_action
from tests.runtime.kit import Gate, Workshop, moniker, opened, out, workshop
from tests.support import eventually

BEGUN = "already begun; interrupt or pause the session instead"


class Hearing:
    """A moniker that keeps what it hears and waits at a gate in each step."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.heard: list[str] = []

    async def __call__(self, ctx: Any, frame: StepFrame) -> StepOut:
        self.heard.extend(said.text for said in frame.inputs)
        await self.gate.passing()
        return out(frame, wait=WaitForInput())


async def refusal_of(shop: Workshop, target: Action) -> str:
    return await shop.error_of(await cancel_action(shop.db, target.id))


def open_hearing() -> Hearing:
    """One whose steps do not wait."""
    hearing = Hearing()
    hearing.gate.open()
    return hearing


async def busy(shop: Workshop, hearing: Hearing) -> Action:
    """A session in the middle of the turn of an input."""
    hearing.gate.open()
    await shop.done(await shop.create("m"))
    await shop.until(SessionStatus.WAITING)
    hearing.gate.close()
    said = await shop.say("first")
    await hearing.gate.reached.wait()
    return said


async def test_an_input_that_waits_for_its_session_is_taken_back(tmp_path: Path) -> None:
    hearing = Hearing()
    async with workshop(tmp_path, moniker("m", hearing)) as shop:
        first = await busy(shop, hearing)
        second, third = await shop.say("second"), await shop.say("third")
        await shop.queue_read()
        await shop.done(await cancel_action(shop.db, second.id))
        assert await shop.error_of(second) == CANCELLED
        assert BEGUN in await refusal_of(shop, first)
        hearing.gate.open()
        await shop.done(first, third)
        assert hearing.heard == ["first", "third"]


async def test_a_job_that_finishes_does_not_overwrite_its_cancel(tmp_path: Path) -> None:
    hearing = Hearing()
    async with workshop(tmp_path, moniker("m", hearing)) as shop:
        await busy(shop, hearing)
        second = await shop.say("second")
        await shop.queue_read()
        cancel = await cancel_action(shop.db, second.id)
        await shop.done(cancel)
        hearing.gate.open()
        await shop.until(SessionStatus.WAITING)
        await shop.queue_read()
        await shop.restart()
        await shop.queue_read()
        assert ((await shop.action(second)).status, hearing.heard) == (ActionStatus.FAILED, ["first"])
        again = await requeue_action(shop.db, second.id)
        await shop.done(again)
        assert hearing.heard == ["first", "second"]


async def test_an_action_that_waits_for_its_moment_is_taken_back(tmp_path: Path) -> None:
    async with workshop(tmp_path, moniker("m", open_hearing()), keep_queue_days=0) as shop:
        later = await shop.create("m", "later")
        asked = await shop.say("x", "later", not_before=shop.now().replace(year=2099))
        await shop.done(later)
        await shop.queue_read()
        await shop.done(await cancel_action(shop.db, asked.id))
        assert await shop.error_of(asked) == CANCELLED
        shop.clock.leap(75 * 365 * 86_400)
        await shop.queue_read()
        assert (await shop.action(asked)).attempts == 0


async def test_a_parked_input_is_taken_back_and_a_half_done_turn_is_not(tmp_path: Path) -> None:
    gate, heard = Gate(), list[str]()

    async def two_steps(ctx: Any, frame: StepFrame) -> StepOut:
        heard.extend(said.text for said in frame.inputs)
        await gate.passing()
        return out(frame, **({} if frame.inputs else {"wait": WaitForInput()}))

    async with workshop(tmp_path, moniker("m", two_steps)) as shop:
        gate.open()
        await shop.done(await shop.create("m"))
        await shop.until(SessionStatus.WAITING)
        gate.close()
        half = await shop.say("half")
        await gate.reached.wait()
        pause = await shop.pause()
        await shop.queue_read()
        gate.open()
        await shop.done(pause)
        parked = await shop.say("parked")
        await shop.queue_read()
        await shop.done(await cancel_action(shop.db, parked.id))
        assert BEGUN in await refusal_of(shop, half)
        await shop.restart()
        assert BEGUN in await refusal_of(shop, half)
        await shop.done(await shop.resume(), half)
        assert (heard, (await shop.action(parked)).error) == (["half"], CANCELLED)


async def test_a_create_in_the_backlog_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_BUSY", 1)
    gate, real = Gate(), Creating.create

    async def slow(creating: Creating, action: Action) -> None:
        if action.session_id == "slow":
            await gate.passing()
        await real(creating, action)

    monkeypatch.setattr(Creating, "create", slow)
    async with workshop(tmp_path, moniker("m", open_hearing())) as shop:
        # the handlers are busy, so the cancel waits for room as well; it comes before what is less urgent
        await shop.create("m", "slow")
        await gate.reached.wait()
        waiting = await shop.create("m", "waiting")
        cancel = await cancel_action(shop.db, waiting.id)
        monkeypatch.setattr(module, "_MAX_BUSY", 2)
        gate.open()
        await shop.ended(cancel, waiting)
        found, asked = await shop.action(waiting), await shop.action(cancel)
        # either the cancel came first or the create did; they agree on which
        assert (found.error == CANCELLED) == (asked.status is ActionStatus.DONE)
        row = await find_agent_state(shop.db, session_id=SessionId("waiting"))
        assert (row is None) == (found.error == CANCELLED)


async def test_a_create_between_two_tries_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def breaks(creating: Creating, action: Action) -> None:
        raise OSError("no")

    monkeypatch.setattr(Creating, "create", breaks)
    async with workshop(
        tmp_path, moniker("m", open_hearing()), max_attempts=5, retry_base_s=1000, retry_cap_s=1000
    ) as shop:
        create = await shop.create("m")
        told = await shop.say("hello")

        async def failed_once() -> bool:
            return (await shop.action(create)).attempts == 1

        await eventually(failed_once)
        await shop.queue_read()
        assert not (await shop.action(told)).processed  # it waits for the create
        await shop.done(await cancel_action(shop.db, create.id))
        assert await shop.error_of(create) == CANCELLED


async def test_what_is_asked_of_a_session_waits_for_its_create(tmp_path: Path) -> None:
    hearing = Hearing()
    hearing.gate.open()
    async with workshop(tmp_path, moniker("m", hearing)) as shop:
        create = await shop.create("m")
        await shop.done(create)
        later = await agent_create(
            shop.db, moniker="m", session_id=SessionId("later"), spec={}, not_before=shop.now().replace(year=2090)
        )
        told = await shop.say("hello", "later")
        await shop.queue_read()
        assert not (await shop.action(told)).processed
        shop.clock.leap(70 * 365 * 86_400)
        await shop.done(later, told)
        assert hearing.heard == ["hello"]


async def test_a_cancel_names_what_it_cannot_cancel(tmp_path: Path) -> None:
    async with workshop(tmp_path, moniker("m", open_hearing())) as shop:
        cancel = await cancel_action(shop.db, (await shop.say("x", not_before=shop.now().replace(year=2099))).id)
        await shop.done(cancel)
        bad = await shop.ask(cancel.kind, payload={"action_id": "nope"})
        assert await shop.error_of(bad) == "there is no action 'nope' to cancel"
        ended = await shop.ask(cancel.kind, payload={"action_id": bad.id})
        assert "had ended before" in await shop.error_of(ended)
        await shop.lose_mark(cancel)  # a crash before the cancel's own mark
        await shop.restart()
        await shop.done(cancel)


async def test_a_cancel_that_cannot_be_stored_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = [StoreUnavailableError("gone")]

    async def fails_once(db: Any, action_id: Any) -> bool:
        if failures:
            raise failures.pop()
        return await withdraw_action(db, action_id)

    monkeypatch.setattr("runtime.cancelling.withdraw_action", fails_once)
    async with workshop(tmp_path, moniker("m", open_hearing()), max_attempts=5, retry_base_s=0.001) as shop:
        asked = await shop.say("x", not_before=shop.now().replace(year=2099))
        await shop.queue_read()
        await shop.done(await cancel_action(shop.db, asked.id))
        assert (failures, await shop.error_of(asked)) == ([], CANCELLED)


async def test_an_action_in_hand_is_refused_when_its_turn_comes_after_its_cancel(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        db, idle = store.tenant(), SimpleNamespace(SESSIONS={}, forget_latest=lambda _: None)
        registry: Any = idle
        cancels = Cancels(db, registry, Recovered())
        cancels.bind(lambda _: False, lambda _: None)  # a handler has it, and waits for its session
        target = await enqueue(db, NewAction(ActionKind.INPUT, session_id=SessionId("s")))
        await cancels.cancel(await cancel_action(db, target.id))
        with pytest.raises(RefusedError, match=CANCELLED):
            cancels.begin(target, SessionId("s"))
        cancels.forget(target.id)
        again = await requeue_action(db, target.id)
        cancels.begin(again, SessionId("s"))
        with pytest.raises(RefusedError, match="already begun"):
            await cancels.cancel(await cancel_action(db, target.id))
