"""Creating: what a create needs, an agent's versions, and where a new session begins to read its thread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from runtime.contract import StepFrame, StepOut, WaitForInput
from store.actions import ActionKind
from store.agent_state import SessionStatus
from store.agents import find_agent
from store.ids import AgentId, ConversationId
from store.posting import post_to_conversation
from tests.runtime.kit import Gate, moniker, out, workshop


async def waits(ctx: Any, frame: StepFrame) -> StepOut:
    """Waits for input after each step."""
    return out(frame, wait=WaitForInput())


WAITS = moniker("waits", waits)


async def test_an_unknown_moniker_is_left_for_a_worker_that_knows_it(tmp_path: Path) -> None:
    async with workshop(tmp_path, WAITS) as shop:
        unknown = await shop.create("nothing")
        await shop.done(await shop.create("waits", "known"))
        assert [action.id for action in await shop.open_actions()] == [unknown.id]


async def test_a_config_that_does_not_fit_is_refused_with_its_fields(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        error = await shop.error_of(await shop.create("echo", config={"steps": 0, "nonsense": 1}, task="hi"))
        assert "steps: " in error
        assert "nonsense: " in error


async def test_an_unknown_conversation_is_refused(tmp_path: Path) -> None:
    async with workshop(tmp_path, WAITS) as shop:
        error = await shop.error_of(await shop.create("waits", conversation="nowhere"))
        assert "there is no conversation 'nowhere'" in error


async def test_a_fork_that_names_no_moniker_is_refused(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        assert "moniker" in await shop.error_of(await shop.ask(ActionKind.FORK))


async def test_a_refused_create_leaves_the_agents_latest_session_as_it_was(tmp_path: Path) -> None:
    async with workshop(tmp_path, WAITS) as shop:
        await shop.create("waits", "good", agent="a")
        await shop.until(SessionStatus.WAITING, "good")
        await shop.error_of(await shop.create("waits", "bad", agent="a", max_steps=0))
        await shop.done(await shop.pause(None, agent_id=AgentId("a")))
        assert (await shop.state("good")).status is SessionStatus.PAUSED


async def test_each_configuration_of_an_agent_is_a_version(tmp_path: Path) -> None:
    async with workshop(tmp_path, WAITS) as shop:
        for session, config in (("a", {"n": 1}), ("b", {"n": 1}), ("c", {"n": 2})):
            await shop.done(await shop.create("waits", session, agent="x", config=config))
        found = await find_agent(shop.db, AgentId("x"))
        assert found is not None
        assert (found.version, found.config) == (2, {"n": 2})


async def test_a_session_that_pulls_reads_each_post_once_also_over_crashes(tmp_path: Path) -> None:
    gate = Gate()
    read: list[list[str]] = []

    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        await gate.passing()
        read.append([said.text for said in frame.inputs])
        return out(frame, done=frame.step == "4")

    async with workshop(tmp_path, moniker("m", body)) as shop:
        thread = ConversationId(await shop.thread("t"))
        await post_to_conversation(shop.db, thread, text="before it came")
        await shop.create("m", conversation="t", delivery="pull")
        await gate.reached.wait()
        await post_to_conversation(shop.db, thread, text="one")
        await post_to_conversation(shop.db, thread, text="two")
        await gate.let_one_through()
        await gate.reached.wait()
        await post_to_conversation(shop.db, thread, text="three")
        await shop.crash()
        gate.close()
        await shop.start()
        await gate.let_one_through()
        await gate.reached.wait()
        await shop.crash()
        gate.close()
        await shop.start()
        await gate.let_one_through()
        await gate.let_one_through()
        await shop.until(SessionStatus.DONE)
        inputs = [said["text"] for step in await shop.steps() for said in (step.guidance or {}).get("inputs", [])]
        assert inputs == ["one", "two", "three"]
        assert [step.iteration for step in await shop.steps()] == [0, 1, 2, 3]


async def test_a_pulling_session_that_is_created_again_skips_no_post(tmp_path: Path) -> None:
    gate = Gate()

    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        await gate.passing()
        return out(frame, done=frame.step == "2", data={"read": [said.text for said in frame.inputs]})

    async with workshop(tmp_path, moniker("m", body)) as shop:
        thread = ConversationId(await shop.thread("t"))
        async with shop.writes_held("agent_state"):
            created = await shop.create("m", conversation="t", delivery="pull")
            await gate.reached.wait()
            await post_to_conversation(shop.db, thread, text="hello")
            await shop.crash(writing=False)
        gate.open()
        await shop.start()
        await shop.done(created)
        await shop.until(SessionStatus.DONE)
        assert [step.data["read"] for step in await shop.steps()] == [["hello"], []]
