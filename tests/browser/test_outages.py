"""Programs are killed while somebody watches: the page says so, goes on by itself, and ends with the right numbers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.browser.tab import PATIENCE_MS, Tab, new_tab
from tests.processes import QUICK, Dashboard, Program, start_dashboard, start_worker, steps_in
from tests.remote import Api
from tests.support import eventually

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]
STEPS = 40
LOST = '[data-banner="lost"]'


@dataclass
class Pair:
    """`app.py` and `agents.py` on one folder, each of which may be killed and started again."""

    web: Dashboard
    worker: Program

    async def new_web(self) -> None:
        """Start the web process again on its port."""
        self.web = await self.web.restart(QUICK)

    async def new_worker(self) -> None:
        """Start the worker again."""
        self.worker = await start_worker(self.web.folder, QUICK)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def pair(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> AsyncIterator[Pair]:
    """The two programs."""
    folder = tmp_path_factory.mktemp("outages")
    web, worker = await asyncio.gather(start_dashboard(folder, QUICK), start_worker(folder, QUICK))
    both = Pair(web, worker)
    yield both
    both.web.end()
    both.worker.end()


@pytest_asyncio.fixture(loop_scope="session")
async def own_tab(browser: Browser, pair: Pair) -> AsyncIterator[Tab]:
    """A tab on them; while a program is down it may complain that it cannot be reached."""
    async with new_tab(browser, pair.web.url) as fresh:
        yield fresh
        fresh.complaints[:] = [line for line in fresh.complaints if "ERR_CONNECTION_REFUSED" not in line]
        fresh.complaints[:] = [line for line in fresh.complaints if "WebSocket connection to" not in line]
        fresh.complaints[:] = [line for line in fresh.complaints if not line.startswith("failed: ")]
        await fresh.healthy()


async def stored_steps(pair: Pair, session_id: str, count: int) -> None:
    """Return once the store holds so many steps, whoever is down."""

    async def enough() -> bool:
        return len(await steps_in(pair.web.folder, session_id)) >= count

    await eventually(enough, 60, 0.2)


async def passes(check: Awaitable[None]) -> float:
    """Seconds until a check passes; to be told, not to be asserted."""
    begun = time.monotonic()
    await check
    return time.monotonic() - begun


async def test_the_web_process_is_killed_in_mid_run(pair: Pair, own_tab: Tab) -> None:
    api, tab = Api(pair.web.url), own_tab
    session_id = await api.start("echo", config={"text": "step by step", "steps": STEPS, "delay_s": 0.25})
    await tab.open(f"/sessions/{session_id}")
    await tab.page.evaluate("window.mark = 'same page'")
    await tab.find("#say").fill("half a sentence")
    await tab.has_steps(4)

    await pair.web.kill()
    shown_s = await passes(expect(tab.find(LOST)).to_be_visible())
    await tab.shows("[data-banner-text]", "Connection lost")
    await expect(tab.find('[data-control="pause"]')).to_be_disabled()
    assert len(await tab.iterations()) >= 4
    await stored_steps(pair, session_id, 15)
    known = await tab.step_count()
    assert known < 15

    await pair.new_web()
    gone_s = await passes(expect(tab.find(LOST)).to_have_count(0))
    print(f"banner shown {shown_s:.1f} s after the kill, gone {gone_s:.1f} s after health")
    await tab.has_steps(15)
    await tab.session_is("done")
    await tab.has_steps(STEPS)
    steps = await steps_in(pair.web.folder, session_id)
    assert await tab.iterations() == [step.iteration for step in steps] == list(range(STEPS))
    assert await tab.step_count() == STEPS
    assert await tab.page.evaluate("window.mark") == "same page"
    await expect(tab.find("#say")).to_have_value("half a sentence")
    await expect(tab.find("[data-banner]")).to_be_hidden()


async def test_lists_catch_up_after_the_web_process_came_back(pair: Pair, own_tab: Tab) -> None:
    api, tab = Api(pair.web.url), own_tab
    session_id = await api.start("echo", config={"text": "in the list", "steps": 20, "delay_s": 0.2})
    await api.has_steps(session_id, 2)
    thread = (await api.post("/api/conversations", {"title": "Drafts"}, expect=201))["conversation_id"]
    queue = await tab_beside(tab, "/queue")
    talk = await tab_beside(tab, f"/conversations/{thread}")
    await talk.find("#post").fill("half a thought")
    await tab.open("/sessions")
    row = tab.find(f'[data-rows] [data-session-id="{session_id}"]')
    await expect(row).to_have_attribute("data-status", "running")

    await pair.web.kill()
    for page in (tab, queue, talk):
        await expect(page.find(LOST)).to_be_visible()
    await stored_steps(pair, session_id, 20)
    await pair.new_web()
    for page in (tab, queue, talk):
        await page.is_live()
        await expect(page.find(LOST)).to_have_count(0)
    await expect(row).to_have_attribute("data-status", "done")
    await expect(row.locator(".steps")).to_have_text("20 steps")
    counts = (await api.get("/api/sessions?limit=1"))["counts"]
    await tab.shows('[data-tab="done"] [data-count]', str(counts["done"]))
    await tab.shows('[data-tab="running"] [data-count]', "0")
    counts = (await api.get("/api/queue?limit=1"))["counts"]
    await queue.shows('[data-tab="done"] [data-count]', str(counts["done"]))
    await expect(talk.find("#post")).to_have_value("half a thought")
    await talk.find("[data-post]").click()
    await expect(talk.find(".message")).to_have_count(1)


async def tab_beside(tab: Tab, path: str) -> Tab:
    """A page in the same profile."""
    return await Tab(tab.url, await tab.page.context.new_page()).open(path)


async def test_the_worker_is_killed_in_mid_run(pair: Pair, own_tab: Tab) -> None:
    api, tab = Api(pair.web.url), own_tab
    session_id = await api.start("echo", config={"text": "over and over", "steps": 30, "delay_s": 0.15})
    await tab.open(f"/sessions/{session_id}")
    await expect(tab.find("[data-worker]")).to_be_hidden()
    await tab.has_steps(4)

    await pair.worker.kill()
    lost_s = await passes(expect(tab.find("[data-worker]")).to_be_visible())
    print(f"the page said {lost_s:.1f} s after the kill that the worker is lost")
    await expect(tab.find("[data-worker-lost]")).to_be_visible()
    stood_at = len(await steps_in(pair.web.folder, session_id))
    assert stood_at < 30
    await tab.session_is("running")

    await pair.new_worker()
    await expect(tab.find("[data-worker]")).to_be_hidden()
    await tab.session_is("done")
    await tab.has_steps(30)
    assert await tab.iterations() == list(range(30))
    await tab.shows("[data-steps] .divider", f"{stood_at} finished steps not run again")
    assert await tab.page.evaluate(
        "document.querySelector('[data-steps] .divider').nextElementSibling.dataset.iteration"
    ) == str(stood_at)


async def test_without_a_worker_a_page_says_what_happens_to_a_wish(pair: Pair, own_tab: Tab) -> None:
    api, tab = Api(pair.web.url), own_tab
    assert await pair.worker.stop() == 0
    await tab.open("/sessions")
    await expect(tab.find("[data-worker]")).to_be_visible()
    session_id = await api.start("echo", config={"text": "later"})
    await tab.open(f"/sessions/{session_id}")
    await tab.session_is("created")
    await pair.new_worker()
    await tab.session_is("done")
    await expect(tab.find("[data-worker]")).to_be_hidden(timeout=PATIENCE_MS)
