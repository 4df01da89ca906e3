"""A model's words on the page while they come: through a reload, a lost connection and a killed worker."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.browser.tab import Tab, new_tab
from tests.llmserver import Answer, Asked, LlmServer, llm_server, piece, said, streamed
from tests.processes import QUICK, Dashboard, Program, start_dashboard, start_worker
from tests.remote import Api
from tests.runtime.kit import Gate

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

QUOTE = "Stepwells kept water through the dry months."
CONFIG: dict[str, Any] = {"question": "What did stepwells do?", "documents": [{"title": "A", "text": QUOTE}]}
PIECES = ("They kept ", "<img src=x onerror=alert(1)> ", "water 💧 ", "for long ", "[1].")
WORDS = "[data-running-text]"


@dataclass
class Desk:
    """`app.py`, `agents.py` and the endpoint that the worker asks."""

    web: Dashboard
    worker: Program
    model: LlmServer
    settings: dict[str, str]
    gate: Gate = field(default_factory=Gate)

    @property
    def api(self) -> Api:
        return Api(self.web.url)

    def will_write(self, *pieces: str) -> Answer:
        """A report whose next piece comes when the test lets it."""
        return Answer(pieces=streamed(*pieces).pieces, pace=self.gate.passing)

    async def research(self, *reports: Answer, **request: Any) -> str:
        """A session whose plan and findings come at once, and whose reports these are."""
        self.gate = Gate()
        self.model.script(_answer, _answer, *reports)
        return await self.api.start("research", config=CONFIG, **request)


def _answer(asked: Asked) -> Answer:
    if "sub-questions that documents could answer" in json.dumps(asked.body["messages"]):
        return said(json.dumps({"sub_questions": ["What?"]}))
    return said(json.dumps({"findings": [{"claim": "They kept water.", "quote": QUOTE}]}))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def desk(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> AsyncIterator[Desk]:
    """The programs, on a folder of their own."""
    async with llm_server() as model:
        settings = {**QUICK, "OPENAI_BASE_URL": model.url, "STEPWELL_LEASE_S": "2"}
        folder = tmp_path_factory.mktemp("stream")
        web = await start_dashboard(folder, settings)
        desk = Desk(web, await start_worker(folder, settings), model, settings)
        yield desk
        desk.worker.end()
        web.end()


@pytest_asyncio.fixture(loop_scope="session")
async def watcher(browser: Browser, desk: Desk) -> AsyncIterator[Tab]:
    """A tab on them."""
    async with new_tab(browser, desk.web.url) as fresh:
        yield fresh
        await fresh.healthy()


async def test_words_grow_through_a_reload_and_a_lost_connection_until_the_step_is_there(
    watcher: Tab, desk: Desk
) -> None:
    session_id = await desk.research()
    desk.model.answers.append(desk.will_write(*PIECES))
    await watcher.open(f"/sessions/{session_id}")
    await desk.gate.let_one_through()
    await watcher.shows(WORDS, "They kept")
    await desk.gate.let_one_through()
    await watcher.shows(WORDS, "They kept <img src=x onerror=alert(1)>")
    assert await watcher.find(f"{WORDS} img").count() == 0

    await watcher.page.reload()
    await watcher.shows(WORDS, "They kept <img src=x onerror=alert(1)>")
    await watcher.is_live()
    await desk.gate.let_one_through()
    await watcher.shows(WORDS, "They kept <img src=x onerror=alert(1)> water 💧")

    await watcher.page.context.set_offline(True)
    await expect(watcher.find("[data-live]")).not_to_have_attribute("data-live", "live")
    await desk.gate.let_one_through()
    await desk.gate.reached.wait()
    await watcher.page.context.set_offline(False)
    await watcher.shows(WORDS, "They kept <img src=x onerror=alert(1)> water 💧 for long")
    assert await watcher.step_count() == 2
    watcher.forgive("ERR_INTERNET_DISCONNECTED", "WebSocket")

    desk.gate.open()
    await watcher.session_is("done")
    await expect(watcher.find(WORDS)).to_be_hidden()
    assert await watcher.iterations() == [0, 1, 2]
    await watcher.shows('[data-iteration="2"] .said', "They kept <img src=x onerror=alert(1)> water 💧 for long [1].")
    await watcher.shows("[data-cost]", "price not known")
    assert await watcher.find("[data-usage]").inner_text() == "30"


async def test_what_a_killed_worker_wrote_gives_way_to_what_the_next_one_writes(watcher: Tab, desk: Desk) -> None:
    cut = Answer(pieces=(piece("They never "), piece("did")), hang=True)
    session_id = await desk.research(cut)
    desk.model.answers.append(desk.will_write(*PIECES))
    await watcher.open(f"/sessions/{session_id}")
    await watcher.shows(WORDS, "They never did")
    asked = len(desk.model.asked)
    await desk.worker.kill()
    desk.worker = await start_worker(desk.web.folder, desk.settings)
    await desk.gate.let_one_through()
    await expect(watcher.find(WORDS)).to_have_text("They kept")
    await watcher.page.reload()
    await expect(watcher.find(WORDS)).to_have_text("They kept")
    desk.gate.open()
    await watcher.session_is("done")
    await watcher.shows('[data-iteration="2"] .said', "They kept")
    assert len(desk.model.asked) == asked + 1


async def test_a_thread_sees_who_is_writing(watcher: Tab, desk: Desk) -> None:
    thread = (await desk.api.post("/api/conversations", {"title": "Wells"}, expect=201))["conversation_id"]
    await desk.research(conversation_id=thread)
    desk.model.answers.append(desk.will_write(*PIECES))
    await watcher.open(f"/conversations/{thread}")
    await desk.gate.let_one_through()
    await watcher.shows("[data-live-texts]", "They kept")
    await watcher.page.reload()
    await watcher.shows("[data-live-texts]", "They kept")
    await desk.gate.let_one_through()
    await watcher.shows("[data-live-texts]", "They kept <img src=x onerror=alert(1)>")
    assert await watcher.find("[data-live-texts] img").count() == 0
    desk.gate.open()
    await watcher.shows("[data-messages]", "water 💧 for long")
    await expect(watcher.find("[data-live-texts] p")).to_have_count(0)


FEED = """async ({ source, pieces, stored }) => {
  const { LiveText } = await import(source);
  const text = new LiveText(document.createElement("div"));
  text.drop(stored);
  for (const [iteration, epoch, call, stream, offset, words] of pieces)
    text.take({ iteration, epoch, kind: "token", data: { call, stream, offset, text: words } });
  return [...text.place.children].map((child) => [child.textContent, child.childNodes.length]);
}"""
LONG = "💧" * 15_000


@pytest.mark.parametrize(
    ("pieces", "texts"),
    [
        ([(1, 1, 1, 1, 0, "Once "), (1, 1, 1, 1, 5, "upon"), (1, 1, 1, 1, 5, "upon")], ["Once upon"]),
        ([(1, 1, 1, 1, 0, "a💧b"), (1, 1, 1, 1, 1, "💧bc"), (1, 1, 1, 1, 0, "a")], ["a💧bc"]),
        ([(1, 1, 1, 2, 0, "new"), (1, 1, 1, 1, 0, "old"), (1, 2, 1, 1, 0, "newest"), (1, 1, 1, 2, 3, "?")], ["newest"]),
        ([(1, 1, 1, 1, 0, "one"), (1, 1, 2, 2, 0, "two"), (1, 1, 1, 3, 0, "")], ["", "two"]),
        ([(0, 1, 1, 1, 0, "stored"), (2, 1, 1, 2, 0, "next"), (1, 1, 1, 1, 0, "late")], ["next"]),
        ([(1, 1, 1, 1, 7, "middle"), (1, 1, 1, 1, 20, "end")], ["… middle… end"]),
        ([(1, 1, 1, 1, 0, LONG), (1, 1, 1, 1, 15_000, "!")], ["… " + "💧" * 10_000 + "!"]),
        ([(1, 1, call, call, 0, str(call)) for call in range(9)], ["3", "4", "5", "6", "7", "8"]),
    ],
)
async def test_pieces_may_come_twice_late_or_not_at_all(
    watcher: Tab, pieces: list[tuple[int, int, int, int, int, str]], texts: list[str]
) -> None:
    await watcher.open("/sessions")
    source = await watcher.page.evaluate("document.querySelector('script[type=module][src]').src")
    feed = {"source": source.rsplit("/", 1)[0] + "/stream.js", "pieces": pieces, "stored": 0}
    shown = await watcher.page.evaluate(FEED, feed)
    assert [text for text, _ in shown] == texts
    assert {nodes for _, nodes in shown} == {1}
