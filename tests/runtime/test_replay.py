"""Replay: the same code gives the same steps; other code and damaged records are found where they first matter."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from monikers.catalogue import Catalogue, catalogue
from runtime.contract import Moniker, MonikerError, StepFrame, StepOut
from runtime.llm.port import ChatMessage, ChatReply, ChatRequest
from runtime.replay import Replayed, replay_session
from runtime.testing import FakeFiles
from store.agent_requests import agent_fork
from store.agent_state import SessionStatus
from store.agent_steps import AgentStep, StepStatus, append_agent_step, journal_of
from store.errors import NotFoundError
from store.ids import AgentId, SessionId
from store.jsontext import json_dumps
from store.records import CODEC as RECORDS
from tests.runtime.kit import Workshop, moniker, out, workshop
from tests.support import eventually


async def replayed(shop: Workshop, *monikers: Moniker[Any], session: str = "s", **limits: Any) -> Replayed:
    """Replay with a model that nobody may ask; what the store holds must not change."""
    before = await versions(shop)
    known = Catalogue.of(*monikers) if monikers else catalogue()
    found = await replay_session(shop.db, known, FakeFiles(), SessionId(session), **limits)
    assert await versions(shop) == before
    return found


async def versions(shop: Workshop) -> dict[str, int]:
    return {name: await table.version() for name, table in shop.store.tables.items()}


class Untouchable:
    """A model that fails whoever asks it."""

    label = "untouchable"

    async def chat(self, request: ChatRequest) -> ChatReply:
        raise AssertionError(f"asked {request.purpose}")


BUILT_IN: Mapping[str, dict[str, Any]] = {
    str(name): dict(catalogue().get(name).example) for name in catalogue().names()
}


@pytest.mark.parametrize("name", BUILT_IN)
async def test_every_built_in_moniker_is_replayed_the_same(tmp_path: Path, name: str) -> None:
    known = catalogue()
    others = [known.get(other) for other in known.names() if str(other) != "echo"]
    async with workshop(tmp_path, *others) as shop:
        config = known.check(known.get(name), BUILT_IN[name], "the well").model_dump(mode="json")
        await shop.create(name, task="the well", config=config, max_steps=6)
        await shop.until_steps(1)
        said = await shop.say("more of it")
        await at_rest(shop)
        await shop.stop()
        steps = await shop.steps()
        found = await replayed(shop)
        assert (found.difference, found.steps) == (None, len(steps)), steps
        assert (await shop.action(said)).id == said.id


async def test_live_calls_and_vectors_are_replayed_without_a_model(tmp_path: Path) -> None:
    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        said = ChatRequest(purpose="tell", messages=(ChatMessage(role="user", content="Say it."),))
        reply = await ctx.llm.live(said)
        vectors = (await ctx.llm.embed([reply.text, "water"])).vectors
        return StepOut(step="1", next_step="2", text=reply.text, data={"sum": sum(vectors[0])}, done=True)

    teller = moniker("teller", body)
    async with workshop(tmp_path, teller) as shop:
        await shop.create("teller")
        await shop.until(SessionStatus.DONE)
        await shop.stop()
        assert await replayed(shop, teller) == Replayed(steps=1)


async def at_rest(shop: Workshop) -> None:
    """Return when the session waits or has ended. Between two leaps there is time to renew the leases and to step."""
    rests = {SessionStatus.WAITING, SessionStatus.DONE, SessionStatus.STOPPED, SessionStatus.ERROR}

    async def so() -> bool:
        shop.clock.leap(3_600)
        return (await shop.state()).status in rests

    await eventually(so, 60, 0.2)


async def work(ctx: Any, frame: StepFrame) -> StepOut:
    """Calls a tool and the model, remembers, asks for an action, and says the time."""
    number = int(frame.step)
    fetched = await ctx.record("fetch", lambda: fetch(number))
    reply = await ctx.llm.chat(
        ChatRequest(purpose="tell", messages=(ChatMessage(role="user", content=f"say {number}"),))
    )
    heard = [*frame.state.get("heard", []), reply.text, fetched, frame.guidance]
    if number == 2:
        await ctx.enqueue("agent_interrupt", session_id="nobody", payload={"guidance": "hello"})
    state = {"n": number, "heard": heard, "pad": "x" * 2000}
    return out(frame, state=state, text=f"{number} at {ctx.clock.now().year}", data={"calls": 2}, done=number == 4)


async def fetch(number: int) -> dict[str, int]:
    return {"fetched": number}


WORK = moniker("work", work)


@pytest.fixture
async def worked(tmp_path: Path) -> Any:
    """A session of four steps with records."""
    async with workshop(tmp_path, WORK, quiet=False) as shop:
        await shop.create("work")
        await shop.until(SessionStatus.DONE)
        await shop.stop()
        yield shop


async def test_records_stand_for_the_calls(worked: Workshop) -> None:
    assert await replayed(worked, WORK) == Replayed(steps=4)
    assert await replayed(worked, WORK, first=2, last=2) == Replayed(steps=1)


def changed(**edits: Any) -> Moniker[Any]:
    """`work`, with some of its answers edited."""

    async def step(ctx: Any, frame: StepFrame) -> StepOut:
        answer = await work(ctx, frame)
        return answer.model_copy(update=edits) if frame.step == "3" else answer

    return moniker("work", step)


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        ({"text": "other"}, "text: stored '3 at"),
        ({"next_step": "9"}, "next_step_token: stored '4', new '9'"),
        ({"state": {"n": 3}}, "state.heard: stored ["),
        ({"state": {"n": True}}, "state.n: stored 3, new True"),
        ({"data": {"calls": 3}}, "data.calls: stored 2, new 3"),
        ({"notes": "a note"}, "notes: stored None, new 'a note'"),
        ({"done": True}, "done: stored False, new True"),
        ({"wait": {"kind": "input"}}, "wait: stored None, new {"),
    ],
)
async def test_changed_code_is_found_where_it_first_matters(worked: Workshop, edits: Any, said: str) -> None:
    if "wait" in edits:
        edits = {"wait": StepOut(step="1", next_step="2", wait=edits["wait"]).wait}
    found = await replayed(worked, changed(**edits))
    assert found.steps == 2
    assert found.difference is not None
    assert str(found.difference).startswith(f"iteration 2: {said}")


async def test_a_new_call_a_changed_request_and_a_new_error_are_named(worked: Workshop) -> None:
    async def asks_more(ctx: Any, frame: StepFrame) -> StepOut:
        await ctx.record("new", lambda: fetch(1))
        return await work(ctx, frame)

    async def asks_otherwise(ctx: Any, frame: StepFrame) -> StepOut:
        return await work(ctx, frame.model_copy(update={"step": "7"}))

    async def fails(_: Any, __: StepFrame) -> StepOut:
        raise MonikerError("broken now")

    async def hides(ctx: Any, frame: StepFrame) -> StepOut:
        with suppress(MonikerError):
            await ctx.record("new", lambda: fetch(1))
        return await work(ctx, frame)

    for body, said in (
        (asks_more, "asked for the call 'new', which was not recorded"),
        (asks_otherwise, "the recorded call 'llm:1' was asked with another request"),
        (fails, "error: stored None, new 'broken now'"),
        (hides, "asked for the call 'new', which was not recorded"),
    ):
        found = await replayed(worked, moniker("work", body))
        assert str(found.difference) == f"iteration 0: {said}"


async def test_a_damaged_record_is_found(worked: Workshop) -> None:
    records = worked.db.table(RECORDS)
    rows = {(row.iteration, row.key): row for row in await records.find()}
    await spoil(worked, "records", rows[1, "fetch"].id, result=json_dumps({"fetched": "rubbish"}))
    assert "state.heard[4].fetched: stored 2, new 'rubbish'" in str((await replayed(worked, WORK)).difference)
    await spoil(worked, "records", rows[1, "llm:1"].id, digest="rubbish")
    assert "'llm:1' was asked with another request" in str((await replayed(worked, WORK)).difference)
    await spoil(worked, "records", rows[0, "llm:1"].id, result="{not json")
    assert 'iteration 0: error: stored None, new "ValidationError' in str((await replayed(worked, WORK)).difference)


async def spoil(shop: Workshop, table: str, row_id: str, **columns: str) -> None:
    """Change a row behind the store's back."""
    handle = shop.store.tables[table]._handle
    await handle.update(columns, where=f"id = '{row_id}'")


async def test_a_damaged_step_is_found(worked: Workshop) -> None:
    await spoil(worked, "agent_steps", "s:1", text="somebody else")
    assert str((await replayed(worked, WORK)).difference).startswith("iteration 1: text: stored 'somebody else'")


async def test_an_action_that_was_asked_for_must_be_in_the_queue_in_the_same_words(worked: Workshop) -> None:
    async def other_words(ctx: Any, frame: StepFrame) -> StepOut:
        async def enqueue(kind: str, *, session_id: str, payload: Any) -> str:
            return str(await ctx.enqueue(kind, session_id=session_id, payload={"guidance": "other"}))

        return await work(Shown(ctx, enqueue=enqueue), frame)

    found = await replayed(worked, moniker("work", other_words))
    assert "at $.payload.guidance 'other', not 'hello'" in str(found.difference)


class Shown:
    """A `ctx` of which some parts are others."""

    def __init__(self, ctx: Any, **parts: Any) -> None:
        self._ctx = ctx
        self.__dict__.update(parts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)


async def test_a_failed_step_fails_again_in_the_same_words(tmp_path: Path) -> None:
    async def breaks(_: Any, frame: StepFrame) -> StepOut:
        if frame.step == "2":
            raise MonikerError("no way on")
        return out(frame)

    async def breaks_otherwise(_: Any, frame: StepFrame) -> StepOut:
        if frame.step == "2":
            raise ValueError("another way")
        return out(frame)

    async def goes_on(_: Any, frame: StepFrame) -> StepOut:
        return out(frame)

    async with workshop(tmp_path, moniker("m", breaks), quiet=False) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.ERROR)
        await shop.stop()
        assert await replayed(shop, moniker("m", breaks)) == Replayed(steps=2)
        found = await replayed(shop, moniker("m", breaks_otherwise))
        assert "error: stored 'no way on" in str(found.difference)
        assert "new 'ValueError: another way'" in str(found.difference)
        assert "new None" in str((await replayed(shop, moniker("m", goes_on))).difference)


async def test_a_call_that_failed_has_no_record_and_is_no_difference(tmp_path: Path) -> None:
    async def calls(ctx: Any, frame: StepFrame) -> StepOut:
        await ctx.llm.chat(ChatRequest(purpose="tell", messages=(ChatMessage(role="user", content="say"),)))
        return out(frame)

    async with workshop(tmp_path, moniker("m", calls), model=Untouchable(), quiet=False) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.ERROR)
        await shop.stop()
        assert await replayed(shop, moniker("m", calls)) == Replayed(steps=1)


async def test_a_fork_is_compared_with_where_it_began_and_its_steps_are_replayed(worked: Workshop) -> None:
    await worked.start()
    await agent_fork(
        worked.db,
        source_id=SessionId("s"),
        iteration=1,
        agent_id=AgentId("work"),
        session_id=SessionId("f"),
        spec={"moniker": "work"},
    )
    await worked.until(SessionStatus.DONE, "f")
    await worked.stop()
    assert await replayed(worked, WORK, session="f") == Replayed(steps=3)
    await spoil(worked, "agent_steps", "f:0", state=json_dumps({"n": 2}))
    assert "iteration 0: state" in str((await replayed(worked, WORK, session="f")).difference)


async def test_rows_that_no_moniker_made_are_passed_over(worked: Workshop) -> None:
    last = (await worked.steps())[-1]
    rolled_back = as_row(last, 4, guidance={"rolled_back": [3, 3]}, status=StepStatus.RUNNING)
    asking = as_row(last, 5, guidance={"again": True, "inputs": []}, status=StepStatus.WAITING)
    for row in (rolled_back, asking):
        await append_agent_step(worked.db, row)
    assert await replayed(worked, WORK) == Replayed(steps=4, passed_over=2)


def as_row(step: AgentStep, iteration: int, **other: Any) -> AgentStep:
    return dataclasses.replace(
        step, id=type(step.id)(f"s:{iteration}"), iteration=iteration, changes=None, base=None, **other
    )


async def test_a_session_that_is_not_there_is_refused(worked: Workshop) -> None:
    with pytest.raises(NotFoundError):
        await replayed(worked, WORK, session="nobody")
    assert len([row for row in await journal_of(worked.db).find() if row.iteration >= 0]) == 4
