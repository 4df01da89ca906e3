"""Forks: whatever became of the old session, a fork begins with exactly what its history shows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contract import MonikerError, StepFrame, StepOut
from store.actions import Action, ActionKind, ActionStatus, queue_of
from store.agent_requests import FirstInput, agent_fork, agent_input
from store.agent_state import SessionStatus
from store.agent_steps import AgentStep, StepStatus, journal_of
from store.conversations import list_participants
from store.errors import ConflictError
from store.ids import AgentId, ConversationId, SessionId
from store.jsontext import json_dumps
from tests.runtime.invariants import hold_laws
from tests.runtime.kit import Workshop, moniker, out, workshop
from tests.support import eventually, examples

KB = "x" * 990


async def chat(_: Any, frame: StepFrame) -> StepOut:
    """Counts, remembers what it heard, and waits; `big` makes its state one that is stored as changes."""
    heard = [item.text for item in frame.inputs]
    big = KB * 3 if "big" in heard else frame.state.get("big", "")
    said = [*frame.state.get("said", []), *heard]
    state = {"n": frame.state.get("n", 0) + 1, "big": big + ("y" * 50 if big else ""), "said": said}
    if "fail" in heard:
        raise MonikerError("it failed")
    if "finish" in heard:
        return out(frame, state=state, text="finished", done=True)
    return out(frame, state=state, text=f"heard {heard}", wait={"kind": "input", "prompt": "more?"})


CHAT = moniker("chat", chat)


@asynccontextmanager
async def talked(folder: Path, *texts: str) -> AsyncIterator[Workshop]:
    """A worker and a session that has heard `texts`."""
    async with workshop(folder, CHAT) as shop:
        await shop.create("chat")
        await shop.until_steps(1)
        for text in texts:
            await shop.ended(await shop.say(text))
        yield shop


async def fork(shop: Workshop, iteration: int, session: str = "f", **other: Any) -> Action:
    spec = {"moniker": "chat", "config": other.pop("config", {})}
    return await agent_fork(
        shop.db,
        source_id=SessionId(other.pop("source", "s")),
        iteration=iteration,
        agent_id=AgentId("chat"),
        session_id=SessionId(session),
        spec=spec,
        **other,
    )


async def rows_of(shop: Workshop) -> list[str]:
    """The id of every row of the journal that is a step, as often as it is there."""
    return [step_id for step_id in await shop.raw_step_ids() if not step_id.startswith("fence:")]


def carried(step: AgentStep) -> Any:
    return step.state, step.step_token, step.next_step_token, step.wait


async def test_a_fork_begins_with_the_step_and_goes_its_own_way(tmp_path: Path) -> None:
    async with talked(tmp_path, "one", "big", "two") as shop:
        before = await shop.steps()
        await shop.done(await fork(shop, 2))
        await shop.done(await shop.say("mine", "f"))
        await shop.done(await shop.say("yours", "s"))
        steps = await shop.steps("f")
        assert carried(steps[0]) == carried(before[2])
        assert steps[0].data == {"forked_from": {"session_id": "s", "iteration": 2}}
        assert [step.iteration for step in steps] == [0, 1]
        assert steps[1].state["said"] == ["one", "big", "mine"]
        assert (await shop.steps())[:4] == before
        assert (await shop.steps())[-1].state["said"] == ["one", "big", "two", "yours"]
        row = await shop.until(SessionStatus.WAITING, "f")
        assert row.spec["forked_from"] == {"session_id": "s", "iteration": 2}
        assert row.status is SessionStatus.WAITING
        assert row.conversation_id is None
        assert steps[1].usage["steps"] == 2
        await hold_laws(shop.db)


@pytest.mark.parametrize("is_running", [True, False], ids=["a worker runs", "a worker starts later"])
async def test_what_is_said_with_a_fork_is_its_first_turn(tmp_path: Path, is_running: bool) -> None:
    """Both are in one commit: the input never finds a session that is not there, and nothing comes before it."""
    async with talked(tmp_path, "one") as shop:
        if not is_running:
            await shop.stop()
        forked = [
            await fork(shop, 1, f"f{at}", first_input=FirstInput(f"mine {at}"), idempotency_key=f"k{at}")
            for at in range(5)
        ]
        again = await fork(shop, 1, "f0", first_input=FirstInput("mine 0"), idempotency_key="k0")
        assert again.id == forked[0].id
        if not is_running:
            await shop.start()
        for at in range(5):
            steps = await shop.until_steps(2, f"f{at}")
            assert [step.iteration for step in steps] == [0, 1]
            assert steps[1].state["said"] == ["one", f"mine {at}"]
        asked = [action for action in await queue_of(shop.db).find() if action.kind is ActionKind.INPUT]
        assert len(asked) == 1 + 5
        await hold_laws(shop.db)


async def test_what_is_said_with_a_fork_is_there_with_it_or_not_at_all(tmp_path: Path) -> None:
    async with talked(tmp_path) as shop:
        before = await shop.store.tables["queue"].version()
        made = await fork(shop, 0, first_input=FirstInput("mine"))
        rows = await queue_of(shop.db).created_since(before)
        mine = {row.version for row in rows if row.item.session_id == made.session_id}
        assert len(mine) == 1, "two commits: a crash between them leaves a fork that nobody speaks to"
        assert [row.item.kind for row in rows if row.item.session_id == made.session_id] == [
            ActionKind.FORK,
            ActionKind.INPUT,
        ]


async def test_a_fork_of_a_done_step_waits_for_an_input(tmp_path: Path) -> None:
    async with talked(tmp_path, "finish") as shop:
        await shop.until(SessionStatus.DONE)
        await shop.done(await fork(shop, 1))
        row = await shop.state("f")
        assert (row.status, row.next_step_token) == (SessionStatus.WAITING, "3")
        await shop.done(await shop.say("again", "f"))
        assert (await shop.steps("f"))[-1].state["said"] == ["finish", "again"]


async def test_a_fork_of_a_failed_step_takes_it_again(tmp_path: Path) -> None:
    async with workshop(tmp_path, CHAT) as shop:
        await shop.create("chat")
        await shop.until_steps(1)
        await shop.ended(await shop.say("fail"))
        failed = (await shop.steps())[-1]
        assert failed.status is StepStatus.ERROR
        await shop.done(await fork(shop, failed.iteration))
        steps = await shop.until_steps(2, "f")
        assert (steps[0].state, steps[0].next_step_token) == (failed.state, failed.step_token)
        assert (steps[1].step_token, steps[1].status) == (failed.step_token, StepStatus.WAITING)
        shop.log.lines.clear()


async def test_a_fork_of_a_running_session_goes_on_by_itself(tmp_path: Path) -> None:
    async def count(_: Any, frame: StepFrame) -> StepOut:
        return out(frame, state={"n": frame.state.get("n", 0) + 1}, done=frame.step == "6")

    async with workshop(tmp_path, moniker("chat", count)) as shop:
        await shop.create("chat")
        await shop.until(SessionStatus.DONE)
        await shop.done(await fork(shop, 2))
        await shop.until(SessionStatus.DONE, "f")
        assert [step.state["n"] for step in await shop.steps("f")] == [3, 4, 5, 6]


async def test_a_fork_speaks_only_in_a_thread_that_it_is_given(tmp_path: Path) -> None:
    async with talked(tmp_path, "one") as shop:
        thread = ConversationId(await shop.thread("c"))
        await shop.done(await fork(shop, 1, "quiet"), await fork(shop, 1, "loud", conversation_id=thread))
        assert [member.session_id for member in await list_participants(shop.db, thread)] == ["loud"]
        assert [message.session_id for message in await shop.messages("c")] == ["loud"]


@pytest.mark.parametrize("iteration", [7, 99])
async def test_a_step_that_is_not_there_cannot_be_forked_from(tmp_path: Path, iteration: int) -> None:
    async with talked(tmp_path, "one") as shop:
        assert f"no whole step {iteration}" in await shop.error_of(await fork(shop, iteration))
        assert await shop.steps("f") == []


async def test_one_key_and_one_id_give_one_session(tmp_path: Path) -> None:
    async with talked(tmp_path, "one") as shop:
        first = await fork(shop, 1, idempotency_key="k")
        assert (await fork(shop, 1, idempotency_key="k")).id == first.id
        for taken in ("f", "s"):
            with pytest.raises(ConflictError, match="already in use"):
                await fork(shop, 1, taken)
        await shop.done(first)


async def test_a_fork_that_comes_again_finds_what_it_did(tmp_path: Path) -> None:
    async with talked(tmp_path, "one") as shop:
        action = await fork(shop, 1)
        await shop.done(action)
        await shop.lose_mark(action)
        await shop.restart()
        await shop.done(action)
        assert await rows_of(shop) == ["s:0", "s:1", "f:0"]


async def test_a_fork_whose_row_was_never_stored_is_repaired_from_the_journal(tmp_path: Path) -> None:
    async with talked(tmp_path, "one", "big", "two") as shop:
        source = (await shop.steps())[3]
        async with shop.writes_held("agent_state"):
            action = await fork(shop, 3)
            await shop.until_steps(1, "f")
            await shop.crash(writing=False)
        await shop.start()
        await shop.done(action)
        assert await rows_of(shop) == ["s:0", "s:1", "s:2", "s:3", "f:0"]
        row = await shop.state("f")
        assert (row.status, row.context) == (SessionStatus.WAITING, source.state)
        assert row.spec["forked_from"] == {"session_id": "s", "iteration": 3}
        await hold_laws(shop.db)


async def test_a_fork_that_found_no_place_in_the_journal_is_made_by_the_next_worker(tmp_path: Path) -> None:
    async with talked(tmp_path, "one") as shop:
        async with shop.writes_held("agent_steps"):
            action = await fork(shop, 1)
            await eventually(lambda: waiting_appends(shop) > 0)
            await shop.crash(writing=False)
        await shop.open()
        assert await rows_of(shop) == ["s:0", "s:1"]
        await shop.start()
        await shop.done(action)
        assert await rows_of(shop) == ["s:0", "s:1", "f:0"]


def waiting_appends(shop: Workshop) -> int:
    """How many appends to the journal are under way."""
    return int(shop.store.tables["agent_steps"]._appends._flushing is not None)


TALK = st.lists(st.sampled_from(["one", "two", "big", "restart", "finish"]), min_size=1, max_size=7)


@given(talk=TALK, place=st.integers(0, 100), later=st.sampled_from(["", "restart", "goes on"]))
@examples(12)
async def test_from_any_iteration_the_state_is_what_the_history_shows(
    tmp_path_factory: pytest.TempPathFactory, talk: list[str], place: int, later: str
) -> None:
    async with workshop(tmp_path_factory.mktemp("fork"), CHAT) as shop:
        await shop.create("chat")
        await shop.until_steps(1)
        for text in talk:
            await (shop.restart() if text == "restart" else shop.ended(await shop.say(text)))
        shown = await shop.steps()
        chosen = shown[place % len(shown)]
        if later == "restart":
            await shop.restart()
        elif later:
            await shop.ended(await shop.say("later"))
        await shop.done(await fork(shop, chosen.iteration))
        await shop.done(await fork(shop, 0, "g", source="f"))
        first, second = (await shop.steps("f"))[0], (await shop.steps("g"))[0]
        assert json_dumps(first.state) == json_dumps(chosen.state) == json_dumps(second.state)
        assert json_dumps((await shop.state("f")).context) == json_dumps(chosen.state)
        assert (first.step_token, first.next_step_token) == (chosen.step_token, chosen.next_step_token)
        if chosen.status is not StepStatus.DONE:
            assert first.wait == chosen.wait
        raw = await journal_of(shop.db).find()
        assert len({row.id for row in raw}) == len(raw)


async def test_an_input_before_the_fork_is_carried_out_waits_for_it(tmp_path: Path) -> None:
    async with workshop(tmp_path, CHAT) as shop:
        await shop.create("chat")
        await shop.until_steps(1)
        await shop.stop()
        action = await fork(shop, 0)
        said = await agent_input(shop.db, text="hello", session_id=SessionId("f"))
        await shop.start()
        await shop.done(action, said)
        assert (await shop.steps("f"))[-1].state["said"] == ["hello"]
        assert (await shop.action(action)).status is ActionStatus.DONE
