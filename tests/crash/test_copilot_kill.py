"""`kill -9` in the middle of phase 1 of a copilot's turn: only the calls in flight are paid again."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from store.agent_requests import agent_create
from store.conversations import create_conversation
from store.ids import AgentId, ConversationId, SessionId
from store.messages import EventType, list_messages
from store.posting import post_to_conversation
from store.records import list_records
from tests.llmserver import Answer, Asked, LlmServer, llm_server, said
from tests.monikers.copilot.moniker.kit import advice, agent
from tests.processes import Program, start_worker, steps_in, stored
from tests.support import eventually

pytestmark = [pytest.mark.process, pytest.mark.slow]

NAMES = ("ann", "bob", "late", "last")
THREAD = ConversationId("call")


class Panel:
    """Answers each agent with an advice; `late` is kept waiting the first time."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def answer(self, asked: Asked) -> Answer:
        """What a request gets."""
        prompt = str(asked.body["messages"][0]["content"])
        name = next(name for name in NAMES if f"AGENT {name}" in prompt)
        self.asked[name] += 1
        if name == "late" and self.asked[name] == 1:
            return Answer(hang=True)
        return said(json.dumps(advice(f"Advice of {name}.")))


async def test_a_restart_pays_only_for_what_was_in_flight(tmp_path: Path) -> None:
    panel = Panel()
    async with llm_server() as server:
        server.otherwise = panel.answer
        settings = _settings(server)
        first = await start_worker(tmp_path, settings)
        second: Program | None = None
        try:
            await _create(tmp_path)
            await _has_steps(tmp_path, 1)
            await _speak(tmp_path)
            await _are_kept(tmp_path, 3)
            await first.kill()
            second = await start_worker(tmp_path, settings)
            await _has_steps(tmp_path, 2)
            await _told(tmp_path, len(NAMES))
        finally:
            first.end()
            if second is not None:
                second.end()
        assert panel.asked == {"ann": 1, "bob": 1, "late": 2, "last": 1}
        step = (await steps_in(tmp_path, "s"))[-1]
        assert [one["agent_id"] for one in step.data["insights"]] == list(NAMES)
        assert step.usage["calls"] == len(NAMES)
        assert await _insights(tmp_path) == [f"Advice of {name}." for name in NAMES]


def _settings(server: LlmServer) -> dict[str, str]:
    return {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-test-0123456789", "STEPWELL_LEASE_S": "2"}


async def _create(folder: Path) -> None:
    config: dict[str, Any] = {"agents": [agent(name) for name in NAMES], "agent_timeout_s": 300}
    async with stored(folder) as db:
        await create_conversation(db, conversation_id=THREAD)
        await agent_create(
            db,
            moniker="copilot",
            agent_id=AgentId("a"),
            session_id=SessionId("s"),
            conversation_id=THREAD,
            spec={"config": config},
        )


async def _speak(folder: Path) -> None:
    async with stored(folder) as db:
        await post_to_conversation(db, THREAD, text="Hello.", data={"segment": {"speaker": "ANN"}})


async def _has_steps(folder: Path, count: int) -> None:
    async def so() -> bool:
        return len(await steps_in(folder, "s")) == count

    await eventually(so, 60, 0.2)


async def _are_kept(folder: Path, count: int) -> None:
    """Return when so many calls of the turn are in the store."""

    async def so() -> bool:
        async with stored(folder) as db:
            records = await list_records(db, SessionId("s"), 1)
        return sum(one.key.startswith("llm:") for one in records) == count

    await eventually(so, 60, 0.2)


async def _insights(folder: Path) -> list[str | None]:
    async with stored(folder) as db:
        messages = (await list_messages(db, THREAD, limit=100)).items
    return [message.text for message in messages if message.event_type is EventType.INSIGHT]


async def _told(folder: Path, count: int) -> None:
    async def so() -> bool:
        return len(await _insights(folder)) >= count

    await eventually(so, 60, 0.2)
