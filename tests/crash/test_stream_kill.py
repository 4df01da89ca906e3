"""`kill -9` in the middle of a stream: the call is made again once, and whoever watches ends up with the right text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from store.agent_requests import agent_create
from store.ids import AgentId, SessionId
from tests.llmserver import Answer, Asked, llm_server, piece, said, streamed
from tests.processes import Program, start_worker, steps_in, stored
from tests.runtime.livetext import pieces, shown
from tests.support import eventually

pytestmark = [pytest.mark.process, pytest.mark.slow]

QUOTE = "Stepwells kept water through the dry months."
CONFIG: dict[str, Any] = {"question": "What did stepwells do?", "documents": [{"title": "A", "text": QUOTE}]}
REPORT = "They kept water [1]."


def _answer(asked: Asked) -> Answer:
    """The plan and the findings, whole."""
    words = json.dumps(asked.body["messages"])
    if "sub-questions that documents could answer" in words:
        return said(json.dumps({"sub_questions": ["What?"]}))
    return said(json.dumps({"findings": [{"claim": "They kept water.", "quote": QUOTE}]}))


async def test_a_report_that_a_kill_cut_is_written_again_once(tmp_path: Path) -> None:
    async with llm_server() as server:
        server.script(
            _answer, _answer, Answer(pieces=(piece("They never "), piece("did")), hang=True), streamed(*REPORT)
        )
        settings = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-test-0123456789", "STEPWELL_LEASE_S": "2"}
        first = await start_worker(tmp_path, settings)
        second: Program | None = None
        try:
            await _create(tmp_path)
            await _shows(tmp_path, "They never did")
            await first.kill()
            second = await start_worker(tmp_path, settings)
            await _has_ended(tmp_path)
        finally:
            first.end()
            if second is not None:
                second.end()
        steps = await steps_in(tmp_path, "s")
        assert [step.step_token for step in steps] == ["plan", "findings/1", "report"]
        assert steps[-1].data["report"] == REPORT
        assert await _text(tmp_path) == REPORT
        assert len(server.asked) == 4
        assert [step.usage["calls"] for step in steps] == [1, 2, 3]


async def _create(folder: Path) -> None:
    async with stored(folder) as db:
        await agent_create(
            db, moniker="research", agent_id=AgentId("a"), session_id=SessionId("s"), spec={"config": CONFIG}
        )


async def _text(folder: Path) -> str | None:
    """What a page shows of the report's call."""
    async with stored(folder) as db:
        return shown(await pieces(db, iteration=2)).get(1)


async def _shows(folder: Path, text: str) -> None:
    async def so() -> bool:
        return await _text(folder) == text

    await eventually(so, 60, 0.1)


async def _has_ended(folder: Path) -> None:
    async def so() -> bool:
        return len(await steps_in(folder, "s")) == 3

    await eventually(so, 60, 0.2)
