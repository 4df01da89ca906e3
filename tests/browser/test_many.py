"""Many steps, many messages: the page stays small, in order, and does not move under its reader."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from tests.browser.tab import Tab, new_tab
from tests.remote import Api
from tests.support import eventually

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

STEPS = 350
MOST_NODES = 2500


async def test_a_flood_of_steps_keeps_the_page_small(tab: Tab, api: Api, browser: Browser) -> None:
    session_id = await api.start("echo", config={"text": "drop after drop", "steps": STEPS})
    await tab.open(f"/sessions/{session_id}")
    await tab.session_is("done")
    await tab.has_steps(STEPS)
    assert await tab.step_count() == STEPS
    shown = await tab.iterations()
    assert shown == list(range(shown[0], STEPS))
    assert await tab.nodes() <= MOST_NODES

    await tab.page.evaluate("document.querySelector('[data-scroll]').scrollTop = 0")
    while shown[0] > 0:
        await tab.find("[data-earlier]").click()
        await _top_moved(tab, shown[0])
        shown = await tab.iterations()
        assert shown == list(range(shown[0], shown[-1] + 1))
        assert await tab.nodes() <= MOST_NODES
    await tab.find("[data-follow]").click()

    async def at_the_end() -> bool:
        return (await tab.iterations())[-1] == STEPS - 1

    await eventually(at_the_end, 20, 0.05)
    async with new_tab(browser, tab.url) as fresh:
        await fresh.open(f"/sessions/{session_id}#step-120")
        await expect(fresh.find('[data-iteration="120"] .detail h2').first).to_be_visible()
        assert await fresh.nodes() <= MOST_NODES
        await fresh.healthy()


async def _top_moved(tab: Tab, before: int) -> None:
    async def moved() -> bool:
        return (await tab.iterations())[0] < before

    await eventually(moved, 20, 0.05)


async def test_a_reader_is_not_moved_by_what_comes(tab: Tab, api: Api) -> None:
    session_id = await api.start("joke", task="patience", config={"interval_s": 0.1})
    await api.has_steps(session_id, 60)
    await tab.open(f"/sessions/{session_id}")
    place = "document.querySelector('[data-scroll]').scrollTop"
    await tab.page.evaluate(f"{place} = 0")
    await expect(tab.find("[data-follow]")).to_be_visible()
    count = await tab.step_count()
    await tab.has_steps(count + 5)
    assert await tab.page.evaluate(place) == 0
    await tab.find("[data-follow]").click()
    await expect(tab.find("[data-follow]")).to_be_hidden()
    newest = await tab.step_count()
    await tab.has_steps(newest + 3)
    await expect(tab.find(f'[data-iteration="{newest + 1}"]')).to_be_in_viewport()
    await api.control(session_id, "destroy")
