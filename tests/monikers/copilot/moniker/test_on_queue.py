"""A copilot session on a real store and worker: segments are turns, timers fire, crashes cost what was in flight."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from monikers.catalogue import Catalogue
from monikers.copilot.moniker import COPILOT
from runtime.llm.port import ChatReply, ChatRequest, LlmError, LlmErrorKind
from runtime.replay import replay_session
from runtime.testing import FakeFiles
from store.agent_events import events_of
from store.agent_state import SessionStatus
from store.budgets import put_budget, session_scope
from store.ids import ConversationId, SessionId, UserId
from store.limits import Limits
from store.messages import EventType, Message
from store.posting import post_to_conversation
from store.records import list_records
from tests.monikers.copilot.moniker.kit import Panel, advice, agent, agent_of
from tests.runtime.kit import Gate, Workshop, workshop
from tests.support import eventually

THREAD = ConversationId("call")


async def listening(shop: Workshop, **config: Any) -> None:
    """A session in a thread that waits for somebody to speak."""
    await shop.thread(THREAD)
    await shop.create("copilot", conversation=THREAD, config=config)
    await shop.until(SessionStatus.WAITING)


async def says(shop: Workshop, text: str, speaker: str = "ANN", **data: Any) -> None:
    """A segment is posted; returns when its turn has ended."""
    told = {"segment": {"speaker": speaker}, **data}
    posted = await post_to_conversation(shop.db, THREAD, text=text, data=told, user_id=UserId("phone"))
    await shop.done(*posted.actions)


async def insights(shop: Workshop) -> list[Message]:
    """The insights in the thread."""
    return [message for message in await shop.messages(THREAD) if message.event_type is EventType.INSIGHT]


async def test_a_segment_is_a_turn_and_its_insight_a_message(tmp_path: Path) -> None:
    panel = Panel(ann=advice("Ask why.", confidence=0.7, expiry=20, metadata={"zone": "B"}))
    async with workshop(tmp_path, COPILOT, model=panel) as shop:
        await listening(shop, agents=[agent("ann")])
        await says(shop, "It is too expensive.", "CUSTOMER")
        (step,) = (await shop.until_steps(2))[1:]
        assert step.data["segment"]["speaker"] == "CUSTOMER"
        await _told(shop, 1)
        posted, insight = await shop.messages(THREAD)
        assert (posted.event_type, posted.data["segment"]["speaker"]) == (EventType.POST, "CUSTOMER")
        assert (insight.event_type, insight.text, insight.status) == (EventType.INSIGHT, "Ask why.", "shown")
        assert (insight.data["metadata"]["zone"], insight.data["expiry"], insight.iteration) == ("B", 20, 1)
        (event,) = [event for event in await _events(shop) if event.kind == "insight"]
        assert event.data["insight_id"] == insight.data["insight_id"]


async def test_a_silence_comes_from_the_session_s_clock_also_after_a_restart(tmp_path: Path) -> None:
    panel = Panel(ann=advice("Say something."))
    quiet = agent("ann", "silence", trigger_config={"silence_threshold": 600})
    async with workshop(tmp_path, COPILOT, model=panel) as shop:
        await listening(shop, agents=[quiet], quiet_after_s=3600)
        await says(shop, "Hm.")
        row = await shop.until(SessionStatus.WAITING)
        assert (row.reason or "").startswith("sleeping")
        await shop.restart()
        shop.clock.leap(601)
        step = (await shop.until_steps(3))[-1]
        assert step.data["trigger"] == "silence"
        assert 600 <= step.data["turns"][0]["metadata"]["silence_duration"] < 660
        await shop.until(SessionStatus.WAITING)
        assert (await shop.state()).reason == "waiting for input: a segment of the conversation"


async def test_a_person_speaks_while_a_timer_is_near(tmp_path: Path) -> None:
    near = agent("ann", "silence", trigger_config={"silence_threshold": 20})
    async with workshop(tmp_path, COPILOT, model=Panel()) as shop:
        await listening(shop, agents=[near, agent("bob")])
        for text in ("One.", "Two.", "Three."):
            await says(shop, text)
        assert [step.data["trigger"] for step in await shop.steps()] == [None, *["turn_based"] * 3]


async def test_a_crash_in_the_middle_of_phase_1_costs_only_what_was_in_flight(tmp_path: Path) -> None:
    gate, hanging = Gate(), asyncio.Event()

    class Slow(Panel):
        async def chat(self, request: ChatRequest) -> ChatReply:
            if agent_of(request) == "late" and not hanging.is_set():
                self.asked.append("late")
                await gate.passing()
            return await super().chat(request)

    panel = Slow(ann=advice("a" * 3), late=advice("l" * 3), bad=LlmError(LlmErrorKind.SERVER, "broken"))
    names = ["ann", "late", "bad", "bob"]
    async with workshop(tmp_path, COPILOT, model=panel) as shop:
        await listening(shop, agents=[agent(name, trigger_config={"cooldown": 30}) for name in names])
        posted = await post_to_conversation(shop.db, THREAD, text="Hello.", data={"segment": {"speaker": "ANN"}})
        await gate.reached.wait()

        async def three_are_kept() -> bool:
            records = await list_records(shop.db, SessionId("s"), 1)
            return sum(one.key.startswith("llm:") for one in records) == 3

        await eventually(three_are_kept)
        assert sorted(panel.asked) == ["ann", "bad", "bob", "late"]
        await shop.crash()
        hanging.set()
        shop.clock.leap(100)
        await shop.start()
        await shop.done(*posted.actions)
        assert sorted(panel.asked) == ["ann", "bad", "bob", "late", "late"]
        step = (await shop.steps())[-1]
        assert [run["agent_id"] for run in step.data["turns"][0]["phases"][0]["ran"]] == names
        assert [one["type"] for one in step.data["insights"]] == ["suggestion", "suggestion", "error"]
        assert step.usage["calls"] == 3, "the failed call was not paid, the one in flight is not known to be"


async def test_a_spent_budget_cuts_the_turn_and_a_raise_takes_it_on(tmp_path: Path) -> None:
    panel = Panel(ann=advice("a" * 3), bob=advice("b" * 3))
    agents = [agent("ann"), agent("bob", "event", trigger_config={"subscribed_events": ["asked"]})]
    panel.answers["ann"] = {**advice("a" * 3), "events": [{"name": "asked"}]}
    async with workshop(tmp_path, COPILOT, model=panel) as shop:
        await shop.thread(THREAD)
        await shop.create("copilot", conversation=THREAD, config={"agents": agents}, budget={"calls": 1})
        await shop.until(SessionStatus.WAITING)
        posted = await post_to_conversation(shop.db, THREAD, text="Hello.", data={"segment": {"speaker": "ANN"}})
        row = await shop.until(SessionStatus.PAUSED)
        assert (row.reason, panel.asked) == ("budget spent: 1 of 1 model calls of this session", ["ann"])
        await put_budget(shop.db, session_scope(SessionId("s")), Limits(calls=5))
        await shop.done(*posted.actions)
        assert panel.asked == ["ann", "bob"]
        assert [one["agent_id"] for one in (await shop.steps())[-1].data["insights"]] == ["ann", "bob"]


async def test_every_turn_can_be_replayed(tmp_path: Path) -> None:
    panel = Panel(
        ann={**advice("Ask why."), "variable_updates": {"n": 1}, "events": [{"name": "asked"}]},
        bad=LlmError(LlmErrorKind.TIMEOUT, "no answer"),
        woken=advice("Yes?"),
        held=advice("Give in."),
        odd="no json at all",
    )
    agents = [
        agent("ann", trigger_config={"cooldown": 30}),
        agent("bad"),
        agent("odd"),
        agent("held", needs_approval=True),
        agent("woken", "event", trigger_config={"subscribed_events": ["asked"]}),
        agent("quiet", "silence", trigger_config={"silence_threshold": 300}),
        agent("word", "keyword", trigger_config={"keywords": ["price"]}),
    ]
    async with workshop(tmp_path, COPILOT, model=panel) as shop:
        await listening(shop, agents=agents, quiet_after_s=1000, insight_window_s=600)
        await says(shop, "Hello.")
        await says(shop, "The price?", "BOB", variables={"stage": "demo"})
        await says(shop, "One more th", "BOB", is_final=False)
        shop.clock.leap(301)
        steps = await shop.until_steps(5)
        held = next(one for one in steps[1].data["insights"] if one["status"] == "held")
        await says(shop, "", decide={"insight_id": held["insight_id"], "agreed": True, "by": "eve"})
        await shop.until_steps(6)
        await shop.stop()
        found = await replay_session(shop.db, Catalogue.of(COPILOT), FakeFiles(), SessionId("s"))
        assert (found.difference, found.steps) == (None, 6)


async def _events(shop: Workshop) -> list[Any]:
    return [row.item for row in await events_of(shop.db).created_since(0)]


async def _told(shop: Workshop, count: int) -> None:
    async def so() -> bool:
        return len(await insights(shop)) >= count

    await eventually(so)
