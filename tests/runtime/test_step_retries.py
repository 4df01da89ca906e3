"""Steps that fail for a passing cause are tried again; what was paid for is not paid again."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runtime.contract import MonikerError, StepFrame, StepOut, WaitForInput
from runtime.llm.port import ChatMessage, ChatReply, ChatRequest, LlmError, LlmErrorKind, Usage
from runtime.retries import RetryPolicy
from store.actions import ActionStatus
from store.agent_state import SessionStatus
from store.errors import StoreUnavailableError
from tests.runtime.kit import Workshop, moniker, out, workshop
from tests.support import eventually


class Shaky:
    """Waits for an input; its step looks something up, asks the model, and fails as often as it is told to."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.lookups = 0
        self.tries = 0

    async def __call__(self, ctx: Any, frame: StepFrame) -> StepOut:
        if frame.step == "1":
            return out(frame, wait=WaitForInput())
        await ctx.llm.chat(asked("plan"))
        await ctx.record("look up", self._look_up)
        reply = await ctx.llm.chat(asked("answer"))
        self.tries += 1
        if self.failures:
            raise self.failures.pop(0)
        return out(frame, text=f"{reply.text} to {[said.text for said in frame.inputs]}", wait=WaitForInput())

    async def _look_up(self) -> int:
        self.lookups += 1
        return self.lookups


def asked(words: str) -> ChatRequest:
    return ChatRequest(purpose="test", messages=(ChatMessage(role="user", content=words),))


class Counting:
    """A model that numbers its answers and keeps what it was asked."""

    label = "counting"

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def chat(self, request: ChatRequest) -> ChatReply:
        self.asked.append(request.messages[-1].content)
        return ChatReply(text=f"reply {len(self.asked)}", model=self.label, usage=Usage(input_tokens=1, calls=1))


PASSING: list[Callable[[], Exception]] = [
    lambda: LlmError(LlmErrorKind.TIMEOUT, "slow"),
    lambda: LlmError(LlmErrorKind.RATE_LIMIT, "too many"),
    lambda: LlmError(LlmErrorKind.SERVER, "500"),
    lambda: LlmError(LlmErrorKind.UNAVAILABLE, "refused"),
    lambda: StoreUnavailableError("away"),
    lambda: KeyError("a fault of its own"),
]


@pytest.mark.parametrize("failure", PASSING)
async def test_a_passing_failure_is_tried_again_within_the_turn(
    tmp_path: Path, failure: Callable[[], Exception]
) -> None:
    shaky, model = Shaky(failure(), failure()), Counting()
    async with workshop(tmp_path, moniker("m", shaky), model=model, max_attempts=3) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        await shop.done(await shop.say("hello"))
        assert (shaky.tries, shaky.lookups) == (3, 1)
        assert model.asked == ["plan", "answer", "answer", "answer"], "what came before the tool call is read"
        steps = await shop.steps()
        assert [step.text for step in steps] == [None, "reply 4 to ['hello']"]
        assert steps[1].usage["calls"] == 4, "what was paid for is counted once"


@pytest.mark.parametrize(
    "failure",
    [MonikerError("no"), LlmError(LlmErrorKind.AUTH, "no key"), LlmError(LlmErrorKind.BAD_REQUEST, "what?")],
)
async def test_what_will_not_pass_is_not_tried_again(tmp_path: Path, failure: Exception) -> None:
    shaky = Shaky(failure)
    async with workshop(tmp_path, moniker("m", shaky), max_attempts=3) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        assert str(failure) in await shop.error_of(await shop.say("hello"), ActionStatus.FAILED)
        assert shaky.tries == 1
        await shop.until(SessionStatus.ERROR)


async def test_used_up_tries_end_the_turn_and_a_resume_reads_the_finished_calls(tmp_path: Path) -> None:
    shaky, model = Shaky(*[ValueError(str(n)) for n in range(3)]), Counting()
    async with workshop(tmp_path, moniker("m", shaky), model=model, max_attempts=3) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        error = await shop.error_of(await shop.say("hello"), ActionStatus.DEAD)
        assert error == "the turn failed: ValueError: 2 (try 3 of 3)"
        row = await shop.until(SessionStatus.ERROR)
        assert row.inbox["tried_from"] == 1
        await shop.done(await shop.resume())
        await shop.until(SessionStatus.WAITING)
        assert shaky.lookups == 1, "a retry does not repeat tool calls"
        assert model.asked == ["plan", *["answer"] * 4]
        assert (await shop.steps())[-1].usage["calls"] == 5


async def test_the_session_says_why_it_waits_and_a_pause_stops_the_tries(tmp_path: Path) -> None:
    shaky = Shaky(LlmError(LlmErrorKind.RATE_LIMIT, "come back", retry_after_s=3600))
    async with workshop(tmp_path, moniker("m", shaky), max_attempts=5) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        said = await shop.say("hello")
        await eventually(lambda: _reason_begins(shop, "try 1 of 5 failed: rate_limit: come back; next try at "))
        row = await shop.state()
        assert (row.status, row.inbox["tries"]["iteration"], row.inbox["tries"]["count"]) == ("running", 1, 1)
        await shop.done(await shop.pause())
        assert shaky.tries == 1
        await shop.done(await shop.resume(), said)
        assert shaky.tries == 2


async def _reason_begins(shop: Workshop, words: str) -> bool:
    return ((await shop.state()).reason or "").startswith(words)


async def test_retry_after_is_kept(tmp_path: Path) -> None:
    shaky = Shaky(LlmError(LlmErrorKind.RATE_LIMIT, "come back", retry_after_s=3600))
    async with workshop(tmp_path, moniker("m", shaky), max_attempts=5) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        said = await shop.say("hello")
        await eventually(lambda: _reason_begins(shop, "try 1"))
        shop.clock.leap(3500)
        await shop.queue_read()
        assert shaky.tries == 1
        shop.clock.leap(200)
        await shop.done(said)
        assert shaky.tries == 2


@pytest.mark.parametrize("what", ["guide", "destroy"])
async def test_an_interrupt_and_a_stop_end_the_wait(tmp_path: Path, what: str) -> None:
    shaky = Shaky(LlmError(LlmErrorKind.RATE_LIMIT, "come back", retry_after_s=3600))
    async with workshop(tmp_path, moniker("m", shaky), max_attempts=5) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        said = await shop.say("hello")
        await eventually(lambda: _reason_begins(shop, "try 1"))
        if what == "destroy":
            await shop.done(await shop.destroy())
            assert "destroyed" in await shop.error_of(said)
        else:
            await shop.guide("go on")
            await shop.done(said)
            assert str((await shop.texts())[1]).endswith("to ['hello']")


async def test_a_restart_does_not_begin_at_one(tmp_path: Path) -> None:
    failures = [LlmError(LlmErrorKind.RATE_LIMIT, f"n{n}", retry_after_s=3600) for n in range(9)]
    shaky = Shaky(*failures)
    async with workshop(tmp_path, moniker("m", shaky), max_attempts=3) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        said = await shop.say("hello")
        await eventually(lambda: _reason_begins(shop, "try 1 of 3"))
        await shop.restart()
        await eventually(lambda: _reason_begins(shop, "try 2 of 3"))
        await shop.restart()
        assert "(try 3 of 3)" in await shop.error_of(said, ActionStatus.DEAD)
        assert (shaky.tries, shaky.lookups) == (3, 1)


def test_pauses_are_full_jitter_below_a_bound_that_doubles() -> None:
    policy = RetryPolicy(random.Random(1), max_attempts=6, base_s=1, cap_s=5)
    pauses = [[policy.next_delay(attempts) or 0.0 for _ in range(200)] for attempts in range(1, 6)]
    assert [round(max(found)) for found in pauses] == [1, 2, 4, 5, 5]
    assert all(min(found) < 0.1 * max(found) for found in pauses)
    assert policy.next_delay(6) is None
