"""Every page, in both themes and on a phone: no sideways scroll, no barrier, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.browser.tab import barriers, new_tab, overhang
from tests.processes import Dashboard
from tests.remote import Api

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

LONG = "Averylongwordwithoutanyblank" * 6


@dataclass(frozen=True)
class Content:
    """Pages with something on them, by what they show."""

    paths: dict[str, str]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def content(api: Api) -> AsyncIterator[Content]:
    """Sessions in every state, a thread, and a queue."""
    thread = (await api.post("/api/conversations", {"title": LONG, "tags": ["wells"], "created_by": "mia"}, 201))[
        "conversation_id"
    ]
    echo = {"text": f"{LONG} says a long thing", "wait_for_input": True}
    made = {
        "running": await api.start("joke", task=LONG, config={"interval_s": 0.5}, conversation_id=thread),
        "waiting": await api.start("echo", config=echo, agent_id=LONG[:100], conversation_id=thread),
        "paused": await api.start("echo", config=echo),
        "sleeping": await api.start("joke", task="naps", config={"interval_s": 3600}),
        "stopped": await api.start("echo", config={"text": "enough", "steps": 9}, max_steps=3),
        "done": await api.start("echo", config={"text": "That was it.", "steps": 3}),
        "error": await api.start("summarize", config={"path": f"{LONG}.txt"}),
    }
    for state in ("waiting", "stopped", "done", "error"):
        await api.becomes(made[state], state)
    await api.becomes(made["paused"], "waiting")
    await api.control(made["paused"], "pause")
    await api.becomes(made["paused"], "paused")
    await api.control(made["paused"], "input", text="later")
    await api.post(f"/api/conversations/{thread}/messages", {"text": LONG, "user_id": "mia"})
    await api.has_steps(made["running"], 2)
    paths = {state: f"/sessions/{session_id}" for state, session_id in made.items()}
    yield Content(paths | {"thread": f"/conversations/{thread}"} | LISTS)
    for state in ("running", "waiting", "paused", "sleeping"):
        await api.control(made[state], "destroy")


LISTS = {
    "sessions": "/sessions",
    "failed sessions": "/sessions?status=failed",
    "copilots": "/copilot",
    "conversations": "/conversations",
    "queue": "/queue",
    "budgets": "/budgets",
    "tools": "/tools",
    "memories": "/memories",
    "dead actions": "/queue?status=dead",
    "api": "/docs",
}


async def test_a_phone_scrolls_no_page_sideways(browser: Browser, dashboard: Dashboard, content: Content) -> None:
    async with new_tab(browser, dashboard.url, viewport={"width": 390, "height": 844}) as tab:
        too_wide = {}
        for name, path in content.paths.items():
            await tab.open(path)
            too_wide[name] = await overhang(tab)
            if name == "waiting":
                await tab.find(".step-row").first.click()
                await expect(tab.find(".detail h2").first).to_be_visible()
                too_wide["step"] = await overhang(tab)
            if name == "sessions":
                await tab.find("[data-start]").first.click()
                await expect(tab.find("[data-start-sheet]")).to_be_visible()
                too_wide["start"] = await overhang(tab)
        await tab.page.goto(f"{dashboard.url}/docs#post-api-agents")
        too_wide["operation"] = await overhang(tab)
        assert set(too_wide.values()) == {0}, too_wide
        await tab.healthy()


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_no_page_has_a_barrier(browser: Browser, dashboard: Dashboard, content: Content, theme: str) -> None:
    options = {"bypass_csp": True, "color_scheme": theme, "reduced_motion": "reduce"}
    async with new_tab(browser, dashboard.url, **options) as tab:
        found: dict[str, list[str]] = {}
        for name, path in content.paths.items():
            await tab.open(path)
            found[name] = await barriers(tab)
            if name == "waiting":
                await tab.find(".step-row").first.click()
                await expect(tab.find(".detail h2").first).to_be_visible()
                found["step"] = await barriers(tab)
            if name == "sessions":
                await tab.find("[data-start]").first.click()
                await expect(tab.find("[data-start-sheet]")).to_be_visible()
                found["start"] = await barriers(tab)
                await tab.page.keyboard.press("Escape")
                await tab.page.keyboard.press("?")
                await expect(tab.find("[data-shortcuts]")).to_be_visible()
                found["keys"] = await barriers(tab)
                await tab.page.keyboard.press("Escape")
                await tab.page.keyboard.press("Control+k")
                await expect(tab.find("dialog.palette")).to_be_visible()
                found["palette"] = await barriers(tab)
        await tab.page.goto(f"{dashboard.url}/sessions/nobody")
        found["not found"] = await barriers(tab)
        assert not {name: rules for name, rules in found.items() if rules}


async def test_every_page_needs_this_host_only(browser: Browser, dashboard: Dashboard, content: Content) -> None:
    async with new_tab(browser, dashboard.url) as tab:
        for path in content.paths.values():
            await tab.open(path)
            await tab.page.keyboard.press("Control+k")
            await expect(tab.find("dialog.palette [role=option]").first).to_be_visible()
            await tab.healthy()
        assert tab.requests > len(content.paths)


async def test_every_page_is_there_before_its_scripts(browser: Browser, dashboard: Dashboard, content: Content) -> None:
    async with new_tab(browser, dashboard.url, java_script_enabled=False) as tab:
        for path in content.paths.values():
            await tab.page.goto(dashboard.url + path)
            await expect(tab.find("main h1")).to_have_count(1)
        await tab.page.goto(dashboard.url + content.paths["done"])
        await expect(tab.find("[data-steps] .step")).to_have_count(3)
        await tab.page.goto(f"{dashboard.url}/sessions")
        assert await tab.find("[data-rows] > li").count() >= 7
