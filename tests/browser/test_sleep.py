"""A tab that sleeps, hides, goes offline or gets no answer shows, when it is back, what the store holds: each row once.

What is typed stays where it was.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
from playwright.async_api import Browser, Page, Route, expect

from tests.browser.tab import Tab, new_tab
from tests.remote import Api

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]
LOST = '[data-banner="lost"]'
MANY = 1_000
#: longer than a hidden page stays in its room
A_LONG_WHILE_MS = 90_000
TEXTS = """[...document.querySelectorAll(".message")].map(
  (item) => [item.dataset.messageId, item.querySelector(".text").textContent])"""


async def stored_messages(api: Api, thread: str) -> list[list[str]]:
    """Ids and texts of a thread's newest messages, oldest first."""
    found = await api.get(f"/api/conversations/{thread}/messages?order=desc&limit=100")
    return [[one["message_id"], one["text"]] for one in reversed(found["items"])]


async def shown_messages(tab: Tab) -> list[list[str]]:
    """The same of what a page shows: at most as many, and all of them different."""
    shown: list[list[str]] = await tab.page.evaluate(TEXTS)
    assert len({message_id for message_id, _ in shown}) == len(shown)
    return shown[-100:]


async def same_messages(tab: Tab, api: Api, thread: str) -> None:
    """Check that a page shows what the store holds, now and after a reload."""
    stored = await stored_messages(api, thread)
    await expect(tab.find(f'[data-message-id="{stored[-1][0]}"]')).to_have_count(1)
    assert await shown_messages(tab) == stored
    await tab.page.reload()
    await tab.is_live()
    assert await shown_messages(tab) == stored


async def new_thread(api: Api, title: str) -> str:
    """A thread without anybody."""
    return str((await api.post("/api/conversations", {"title": title}, expect=201))["conversation_id"])


async def say(api: Api, thread: str, text: str) -> None:
    """Somebody else writes."""
    await api.post(f"/api/conversations/{thread}/messages", {"text": text, "user_id": "mia"})


@asynccontextmanager
async def offline(tab: Tab) -> AsyncIterator[None]:
    """The network is gone."""
    await tab.page.context.set_offline(True)
    await expect(tab.find(LOST)).to_be_visible()
    yield
    await tab.page.context.set_offline(False)
    await expect(tab.find(LOST)).to_have_count(0)
    await tab.is_live()
    tab.forgive("ERR_INTERNET_DISCONNECTED")


async def hide(page: Page, *, hidden: bool) -> None:
    """What a page is told when another tab is shown, or it is again. Chromium without a window never hides one."""
    state = "hidden" if hidden else "visible"
    await page.evaluate(
        f"""Object.defineProperty(document, "hidden", {{ configurable: true, value: {str(hidden).lower()} }});
        Object.defineProperty(document, "visibilityState", {{ configurable: true, value: "{state}" }});
        document.dispatchEvent(new Event("visibilitychange"));"""
    )


@contextmanager
def stopped(pids: list[int]) -> Iterator[None]:
    """These processes stand still, as on a closed laptop."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


async def renderers(browser: Browser) -> list[int]:
    """The processes that draw this Chromium's pages."""
    session = await browser.new_browser_cdp_session()
    found: dict[str, Any] = await session.send("SystemInfo.getProcessInfo")
    await session.detach()
    return [one["id"] for one in found["processInfo"] if one["type"] == "renderer"]


async def test_a_thousand_events_while_a_tab_is_hidden(browser: Browser, api: Api, tab: Tab) -> None:
    thread = await new_thread(api, "Much is said")
    session_id = await api.start("echo", config={"text": "drop", "steps": MANY}, conversation_id=thread)
    await api.done(await api.control(session_id, "pause"))
    async with new_tab(browser, tab.url) as talk:
        for page, path, area in ((tab, f"/sessions/{session_id}", "#say"), (talk, f"/conversations/{thread}", "#post")):
            await page.page.clock.install()
            await page.open(path)
            await page.find(area).fill("half a sentence")
            await hide(page.page, hidden=True)
            await page.page.clock.fast_forward(A_LONG_WHILE_MS)
        known = await tab.step_count()
        await api.control(session_id, "resume")
        await api.becomes(session_id, "done")
        assert await tab.step_count() == known, "a page that nobody looks at was still followed"
        for page in (tab, talk):
            await hide(page.page, hidden=False)
        await tab.has_steps(MANY)
        await tab.shows("[data-steps] [data-away]", f"{MANY - known} steps while you were away")
        shown = await tab.iterations()
        assert shown == list(range(shown[0], MANY))
        assert [step["iteration"] for step in await api.steps(session_id)] == list(range(MANY))
        await expect(tab.find("#say")).to_be_disabled()  # the session has ended
        await expect(talk.find("#post")).to_have_value("half a sentence")
        await same_messages(talk, api, thread)
        await expect(talk.find("#post")).to_have_value("half a sentence")
        await tab.page.reload()
        await tab.is_live()
        assert (await tab.iterations())[-1] == MANY - 1
        await expect(tab.find("#say")).to_have_value("half a sentence")
        await talk.healthy()


async def test_two_tabs_of_which_one_is_offline_end_with_the_same_list(browser: Browser, api: Api, tab: Tab) -> None:
    thread = await new_thread(api, "In the tunnel")
    async with new_tab(browser, tab.url) as other:
        for page in (tab, other):
            await page.open(f"/conversations/{thread}")
        await tab.find("#post").fill("a thought in a tunnel")
        async with offline(tab):
            await tab.shows("[data-banner-text]", "Connection lost")
            await tab.shows("[data-banner-aside]", "Retrying in")
            await expect(tab.find("[data-post]")).to_be_disabled()
            for number in range(30):
                await say(api, thread, f"said outside {number}")
            await expect(other.find(".message")).to_have_count(30)
            await expect(tab.find(".message")).to_have_count(0)
        await tab.shows("[data-banner-text]", "Back.")
        await expect(tab.find("#post")).to_have_value("a thought in a tunnel")
        await tab.find("[data-post]").click()
        for page in (tab, other):
            await expect(page.find(".message:not(.pending)")).to_have_count(31)
            await same_messages(page, api, thread)
        await other.healthy()


async def test_a_message_whose_answer_is_lost_is_shown_once(api: Api, tab: Tab) -> None:
    thread = await new_thread(api, "Lost answers")
    await tab.open(f"/conversations/{thread}")

    async def swallow(route: Route) -> None:
        await route.fetch()
        await route.abort()

    await tab.page.route("**/messages", swallow)
    await tab.find("#post").fill("said once")
    await tab.find("#post").press("Control+Enter")
    await expect(tab.find(".message[data-message-id]")).to_have_count(1)
    await expect(tab.find(".message")).to_have_count(1)
    await expect(tab.find(".message.pending")).to_have_count(0)
    await tab.page.unroute("**/messages")
    tab.forgive("ERR_FAILED")
    await same_messages(tab, api, thread)


async def test_a_tab_whose_process_stood_still_catches_up(browser: Browser, api: Api, tab: Tab) -> None:
    thread = await new_thread(api, "Closed laptop")
    config = {"text": "while nobody looks", "steps": 300}
    session_id = await api.start("echo", config=config, conversation_id=thread)
    await api.done(await api.control(session_id, "pause"))
    async with new_tab(browser, tab.url) as talk:
        await tab.open(f"/sessions/{session_id}")
        await talk.open(f"/conversations/{thread}")
        await talk.find("#post").fill("half a thought")
        with stopped(await renderers(browser)):
            await api.control(session_id, "resume")
            await api.becomes(session_id, "done")
        await tab.has_steps(300)
        await tab.session_is("done")
        shown = await tab.iterations()
        assert shown == list(range(shown[0], 300))
        await same_messages(talk, api, thread)
        await expect(talk.find("#post")).to_have_value("half a thought")
        await talk.healthy()
