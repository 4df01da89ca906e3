from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from runtime.context import Services, StepContext, calls_of
from runtime.contract import StepFrame, StepOut, WaitForInput
from runtime.llm.port import ChatMessage, ChatReply, ChatRequest, Usage
from runtime.session import LiveSession, new_session
from runtime.spec import read_spec
from runtime.testing import FakeFiles, ScriptedModel
from store.actions import Action, ActionFilter, ActionKind, list_actions
from store.agent_events import events_of
from store.agent_state import SessionStatus
from store.database import TenantStore
from store.enqueueing import NewAction, enqueue
from store.ids import AgentId, SessionId
from store.records import list_records
from tests.runtime.kit import Anything, KeptLog, moniker, opened, out, workshop
from tests.support import eventually


def asked(text: str, purpose: str = "test") -> ChatRequest:
    return ChatRequest(purpose=purpose, messages=(ChatMessage(role="user", content=text),))


class Bench:
    """A step of a session on a real store, that can be begun again as after a crash."""

    def __init__(self, db: TenantStore, create: Action, model: Any) -> None:
        self.db = db
        self.services = Services(db, model, FakeFiles(), db.clock, KeptLog())
        self.session: LiveSession = new_session(create, read_spec(create.payload, create.id), "1", owner="w", epoch=1)

    def step(self, *, again: bool = False) -> StepContext:
        """The context of the session's next step."""
        calls = calls_of(self.services, self.session, look_for_records=again)
        return StepContext(self.services, calls, Anything())


@asynccontextmanager
async def bench(folder: Path, model: Any = None) -> AsyncIterator[Bench]:
    async with opened(folder) as store:
        new = NewAction(
            kind=ActionKind.CREATE,
            agent_id=AgentId("a"),
            session_id=SessionId("s"),
            payload={"moniker": "m", "task": "the task"},
        )
        yield Bench(store.tenant(), await enqueue(store.tenant(), new), model)


def counted() -> tuple[list[int], Callable[[], Any]]:
    """A call that counts itself and answers its number."""
    calls: list[int] = []

    async def call() -> int:
        calls.append(len(calls) + 1)
        return len(calls)

    return calls, call


async def test_it_tells_the_step_who_it_is(tmp_path: Path) -> None:
    async with bench(tmp_path) as desk:
        ctx = desk.step()
        assert (ctx.session_id, ctx.agent_id, ctx.conversation_id, ctx.task) == ("s", "a", None, "the task")
        assert (ctx.iteration, ctx.config, ctx.clock) == (0, Anything(), desk.db.clock)
        ctx.log.info("hello")
        assert desk.services.log.of("info") == [("hello", {})]


async def test_a_recorded_call_is_made_once_a_step(tmp_path: Path) -> None:
    async with bench(tmp_path) as desk:
        calls, call = counted()
        ctx = desk.step()
        assert [await ctx.record("key", call), await ctx.record("key", call), await ctx.record("other", call)] == [
            1,
            1,
            2,
        ]
        again = desk.step(again=True)
        assert [await again.record("other", call), await again.record("key", call)] == [2, 1]
        assert calls == [1, 2]


async def test_calls_side_by_side_all_find_their_records(tmp_path: Path) -> None:
    async with bench(tmp_path) as desk:
        calls, call = counted()
        keys = ["a", "b", "c"]
        first = desk.step()
        await asyncio.gather(*[first.record(key, call) for key in keys])
        again = desk.step(again=True)
        await asyncio.gather(*[again.record(key, call) for key in keys])
        assert len(calls) == 3


async def test_a_call_that_failed_is_made_again(tmp_path: Path) -> None:
    async with bench(tmp_path) as desk:
        calls: list[int] = []

        async def call() -> str:
            calls.append(1)
            if len(calls) == 1:
                raise ConnectionError("gone")
            return "here"

        ctx = desk.step()
        failed = await asyncio.gather(ctx.record("key", call), return_exceptions=True)
        assert isinstance(failed[0], ConnectionError)
        assert await ctx.record("key", call) == "here"
        assert await desk.step(again=True).record("key", call) == "here"
        assert len(calls) == 2


async def test_records_belong_to_their_step(tmp_path: Path) -> None:
    async with bench(tmp_path) as desk:
        calls, call = counted()
        await desk.step().record("key", call)
        desk.session.iteration, desk.session.tried_from = 0, 1
        assert await desk.step(again=True).record("key", call) == 2
        assert calls == [1, 2]


async def test_a_models_reply_is_read_back_with_its_usage(tmp_path: Path) -> None:
    model = ScriptedModel("one", "two")
    async with bench(tmp_path, model) as desk:
        ctx = desk.step()
        said = [(await ctx.llm.chat(asked("first"))).text, (await ctx.llm.chat(asked("second"))).text]
        again = desk.step(again=True)
        assert [(await again.llm.chat(asked("first"))).text, (await again.llm.chat(asked("second"))).text] == said
        assert said == ["one", "two"]
        assert len(model.requests) == 2
        assert ctx.usage == again.usage == Usage(input_tokens=2, output_tokens=2, calls=2)
        assert ctx.llm.label == "scripted"


async def test_a_changed_request_is_asked_anew_and_then_remembered(tmp_path: Path) -> None:
    model = ScriptedModel("one", "other")
    async with bench(tmp_path, model) as desk:
        await desk.step().llm.chat(asked("first"))
        again = desk.step(again=True)
        assert (await again.llm.chat(asked("changed"))).text == "other"
        third = desk.step(again=True)
        assert (await third.llm.chat(asked("changed"))).text == "other"
        assert len(model.requests) == 2


async def test_events_are_numbered_within_the_step(tmp_path: Path) -> None:
    async with bench(tmp_path) as desk:
        ctx = desk.step()
        await ctx.emit("progress", {"part": 1})
        await ctx.emit("progress", {"part": 2})
        found = sorted(await events_of(desk.db).find(), key=lambda event: event.event_seq)
        assert [(event.id, event.kind, event.data) for event in found] == [
            ("s:0:1", "progress", {"part": 1}),
            ("s:0:2", "progress", {"part": 2}),
        ]


async def test_a_repeated_step_asks_for_an_action_once(tmp_path: Path) -> None:
    async with bench(tmp_path) as desk:
        _, call = counted()
        ids = []
        for again in (False, True):
            ctx = desk.step(again=again)
            await ctx.record("key", call)
            ids.append([await ctx.enqueue("agent_input", session_id="t", payload={"text": str(n)}) for n in range(2)])
        assert ids[0] == ids[1]
        queued = await list_actions(desk.db, ActionFilter(session_id=SessionId("t")))
        assert sorted(action.payload["text"] for action in queued.items) == ["0", "1"]


class Counting:
    """A model that counts its calls."""

    label = "counting"

    def __init__(self) -> None:
        self.calls = 0

    async def chat(self, request: ChatRequest) -> ChatReply:
        self.calls += 1
        return ChatReply(text=f"answer {self.calls}", model=self.label, usage=Usage(calls=1))


async def test_a_model_is_not_paid_twice_for_a_step_that_a_crash_cut(tmp_path: Path) -> None:
    model = Counting()

    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        reply = await ctx.llm.chat(asked("hello"))
        return out(frame, text=reply.text, wait=WaitForInput())

    async with workshop(tmp_path, moniker("m", body), model=model) as shop:
        async with shop.writes_held("agent_steps"):
            created = await shop.create("m")
            await shop.done(created)
            await shop.until(SessionStatus.RUNNING)
            await _until_called(shop, model)
            await shop.crash(writing=False)
        await shop.start()
        await shop.until(SessionStatus.WAITING)
        assert await shop.texts() == ["answer 1"]
        assert (await shop.state()).usage["calls"] == 1
    assert model.calls == 1


async def test_nor_for_a_first_step_whose_session_was_not_yet_stored(tmp_path: Path) -> None:
    model = Counting()

    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        reply = await ctx.llm.chat(asked("hello"))
        return out(frame, text=reply.text, wait=WaitForInput())

    async with workshop(tmp_path, moniker("m", body), model=model) as shop:
        async with shop.writes_held("agent_steps"), shop.writes_held("agent_state"):
            await shop.create("m")
            await _until_called(shop, model)
            await shop.crash(writing=False)
        await shop.start()
        await shop.until(SessionStatus.WAITING)
        assert await shop.texts() == ["answer 1"]
    assert model.calls == 1


async def _until_called(shop: Any, model: Counting) -> None:
    """Return when the model's first reply is a record."""

    async def recorded() -> bool:
        return bool(await list_records(shop.db, SessionId("s"), 0))

    await eventually(recorded)
    assert model.calls == 1
