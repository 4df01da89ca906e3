"""Live text through a real worker, from an endpoint that is slow, cut, begun anew, truncated or gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from runtime.contract import StepFrame, StepOut
from runtime.llm.openai_chat import OpenAiChat
from runtime.llm.port import ChatMessage, ChatRequest, Stream, StreamEnd, TextDelta
from runtime.testing import ScriptedModel
from runtime.tokens import EVERY_S
from store.agent_events import AgentEvent, append_events, events_of, running_text
from store.agent_state import SessionStatus
from store.clock import SystemClock
from store.ids import SessionId
from store.lanes import LaneId
from store.leases import list_leases
from tests.llmserver import Answer, LlmServer, llm_server, piece, streamed
from tests.runtime.kit import Gate, Workshop, moniker, workshop
from tests.runtime.livetext import pieces, shown
from tests.support import eventually

ASKED = ChatRequest(purpose="tell", messages=(ChatMessage(role="user", content="Tell me."),), deadline_s=300)


async def _tell(ctx: Any, frame: StepFrame) -> StepOut:
    return StepOut(step=frame.step, next_step="2", text=(await ctx.llm.live(ASKED)).text, done=True)


TELLER = moniker("teller", _tell)


async def _at_once(_: float) -> None:
    """Pauses between tries take no time."""


@asynccontextmanager
async def shop_at(folder: Path, server: LlmServer, **settings: Any) -> AsyncIterator[Workshop]:
    model = OpenAiChat(base_url=server.url, api_key="sk-test-0123456789", model="m", sleep=_at_once)
    async with workshop(folder, TELLER, model=model, **settings) as shop:
        yield shop
    await model.aclose()


@pytest.fixture
async def server() -> AsyncIterator[LlmServer]:
    async with llm_server() as it:
        yield it


def slow(gate: Gate, *texts: str) -> Answer:
    """A stream whose next piece comes when the test lets it."""
    told = streamed(*texts)
    return Answer(pieces=told.pieces, pace=gate.passing)


async def _shows(shop: Workshop, text: str) -> None:
    async def so() -> bool:
        return shown(await pieces(shop.db)).get(1) == text

    await eventually(so)


async def test_text_is_stored_while_it_comes_and_the_step_has_the_whole(tmp_path: Path, server: LlmServer) -> None:
    gate = Gate()
    async with shop_at(tmp_path, server) as shop:
        server.script(slow(gate, "Once ", "upon ", "a time"))
        await shop.create("teller")
        await gate.let_one_through()
        await _shows(shop, "Once ")
        await gate.let_one_through()
        await _shows(shop, "Once upon ")
        assert await shop.steps() == []
        gate.open()
        await shop.until(SessionStatus.DONE)
        (step,) = await shop.steps()
        assert step.text == "Once upon a time"
        assert shown(await pieces(shop.db)) == {1: step.text}
        alone = {"calls": 1, "input_tokens": 7, "output_tokens": 3, "cost": "0", "unpriced_calls": 1}
        assert step.usage["step"] == alone == {name: step.usage[name] for name in alone}


async def test_a_stream_that_is_cut_begins_anew_and_the_page_shows_the_second(
    tmp_path: Path, server: LlmServer
) -> None:
    async with shop_at(tmp_path, server) as shop:
        server.script(Answer(pieces=(piece("wrong "), piece("words")), cut=True), streamed("right", " words"))
        await shop.create("teller")
        await shop.until(SessionStatus.DONE)
        assert (await shop.texts(), shown(await pieces(shop.db))) == (["right words"], {1: "right words"})
        assert len(server.asked) == 2


async def test_a_truncated_stream_fails_the_step_with_what_to_do(tmp_path: Path, server: LlmServer) -> None:
    async with shop_at(tmp_path, server) as shop:
        server.script(streamed("half a", finish="length"))
        await shop.create("teller")
        row = await shop.until(SessionStatus.ERROR)
        assert "truncated" in (row.last_error or "")
        assert "max_tokens" in (row.last_error or "")


async def test_a_session_that_is_destroyed_closes_its_request(tmp_path: Path, server: LlmServer) -> None:
    async with shop_at(tmp_path, server, stop_grace_s=0.05) as shop:
        server.script(Answer(pieces=(piece("for ever "),), hang=True))
        await shop.create("teller")
        await server.hanging.wait()
        await shop.destroy()
        await asyncio.wait_for(server.left.wait(), 30)
        await shop.until(SessionStatus.STOPPED)


async def test_a_worker_that_dies_in_a_stream_makes_the_call_again_once(tmp_path: Path, server: LlmServer) -> None:
    async with shop_at(tmp_path, server) as shop:
        server.script(Answer(pieces=(piece("never "), piece("ended")), hang=True), streamed("the ", "truth"))
        await shop.create("teller")
        await _shows(shop, "never ended")
        await shop.restart()
        await shop.until(SessionStatus.DONE)
        assert len(server.asked) == 2
        assert (await shop.texts(), shown(await pieces(shop.db))) == (["the truth"], {1: "the truth"})
        assert [row.usage["calls"] for row in await shop.steps()] == [1]
        await shop.restart()
        assert len(server.asked) == 2


async def test_a_page_that_begins_in_the_middle_is_told_what_was_said(tmp_path: Path, server: LlmServer) -> None:
    gate = Gate()
    async with shop_at(tmp_path, server) as shop:
        server.script(slow(gate, "Once ", "upon ", "a time"))
        await shop.create("teller")
        await gate.let_one_through()
        await gate.let_one_through()
        await _shows(shop, "Once upon ")
        session = SessionId("s")
        assert shown(await running_text(shop.db, [session], {session: -1})) == {1: "Once upon "}
        assert await running_text(shop.db, [session], {session: 0}) == []
        gate.open()
        await shop.until(SessionStatus.DONE)


async def test_text_of_an_owner_that_was_replaced_is_not_shown(tmp_path: Path) -> None:
    async with workshop(tmp_path, TELLER, model=ScriptedModel("mine")) as shop:
        await shop.create("teller")
        await shop.until(SessionStatus.DONE)
        session = SessionId("s")
        assert shown(await running_text(shop.db, [session], {})) == {1: "mine"}
        (mine,) = {(row.lane, row.epoch) for row in await pieces(shop.db)}
        lane, epoch = LaneId(mine[0]), mine[1]
        assert epoch == (await list_leases(shop.db))[lane].epoch
        await shop.stop()
        await shop.start()  # claims the lane anew, and raises a fence
        late = {"call": 1, "stream": 9, "offset": 0, "text": "late"}
        stale = AgentEvent("late", shop.now(), session, 1, 9, "token", late, epoch, lane)
        await append_events(shop.db, [stale])
        assert await running_text(shop.db, [session], {}) == []


class Chatty:
    """Says a word every few milliseconds, on and on, in as many streams as are asked for."""

    label = "chatty"

    def __init__(self, words: int, pause_s: float) -> None:
        self._words, self._pause_s = words, pause_s
        self._clock = SystemClock()
        self.streams = 0

    async def chat(self, request: ChatRequest) -> Any:
        raise AssertionError("asked for streams only")

    async def stream(self, request: ChatRequest, *, restart: bool = False) -> Stream:
        self.streams += 1
        said, clock = [], self._clock
        for number in range(self._words):
            await clock.sleep(self._pause_s)
            said.append(f"{number} ")
            yield TextDelta(text=said[-1])
        yield StreamEnd(reply=(await ScriptedModel("".join(said)).chat(request)))


async def test_fifty_streams_share_twenty_commits_a_second(tmp_path: Path) -> None:
    model = Chatty(words=40, pause_s=0.02)
    async with workshop(tmp_path, TELLER, model=model) as shop:
        before, began = await events_of(shop.db).version(), time.monotonic()
        for number in range(50):
            await shop.create("teller", f"s{number}")
        for number in range(50):
            await shop.until(SessionStatus.DONE, f"s{number}")
        took, commits = time.monotonic() - began, await events_of(shop.db).version() - before
        whole = "".join(f"{number} " for number in range(40))
        for number in range(50):
            assert shown(await pieces(shop.db, f"s{number}")) == {1: whole}
        assert model.streams == 50
        # upkeep merges the table's files meanwhile, in versions of its own
        assert commits <= took / EVERY_S * 1.1 + 10, (commits, took)
