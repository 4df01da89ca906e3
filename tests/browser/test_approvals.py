"""The inbox: questions of every kind come, are answered by mouse and keyboard, and go; their words are never markup."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from store.agent_requests import agent_create
from store.ids import SessionId
from tests.browser.clerk import NASTY
from tests.browser.tab import Tab, barriers, new_tab, overhang
from tests.browser.test_asking import clerks
from tests.processes import QUICK, Dashboard, start_dashboard, stored
from tests.remote import Api
from tests.support import eventually

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]
NAMES = ("plan", "call", "form", "concern")


@dataclass
class Desk:
    """A dashboard, its API, and clerks who wait to be spoken to."""

    web: Dashboard
    api: Api

    async def ask(self, *names: str) -> None:
        """Have clerks ask their questions, in this order."""
        for name in names:
            await self.api.becomes(name, "waiting")
            await self.api.control(name, "input", text=f"ask the {name}")
            await eventually(partial(self._asks, name), 60, 0.05)

    async def ask_only(self, *names: str) -> None:
        """Have clerks ask their questions, in this order, and no others: whatever an earlier try left is rejected."""
        for name in NAMES:
            for one in await self._open(name):
                await self.api.post(f"/api/approvals/{one['approval_id']}", {"decision": "reject"}, expect=202)
            await eventually(partial(self._asks_nothing, name), 60, 0.05)
        await self.ask(*names)

    async def _open(self, name: str) -> list[dict[str, Any]]:
        return list((await self.api.get(f"/api/approvals?session_id={name}"))["items"])

    async def _asks(self, name: str) -> bool:
        return bool(await self._open(name))

    async def _asks_nothing(self, name: str) -> bool:
        return not await self._open(name)

    async def says(self, name: str, words: str) -> None:
        """Return once a clerk has said this."""

        async def so() -> bool:
            return words in [step["text"] for step in await self.api.steps(name)]

        await eventually(so, 60, 0.1)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def desk(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> AsyncIterator[Desk]:
    """Clerks at work."""
    folder = tmp_path_factory.mktemp("inbox")
    web, worker = await asyncio.gather(start_dashboard(folder, QUICK), clerks(folder))
    try:
        async with stored(folder) as db:
            for name in NAMES:
                spec = {"config": {"ledger": str(folder / name)}}
                await agent_create(db, moniker="clerk", session_id=SessionId(name), spec=spec)
        yield Desk(web, Api(web.url))
    finally:
        worker.end()
        web.end()


@pytest_asyncio.fixture(loop_scope="session")
async def inbox(browser: Browser, desk: Desk) -> AsyncIterator[Tab]:
    """A tab on the inbox."""
    async with new_tab(browser, desk.web.url) as fresh:
        await fresh.open("/approvals")
        yield fresh
        await fresh.healthy()


def card(kind: str) -> str:
    """The selector of a question's card."""
    return f'[data-kind="{kind}"]'


async def test_questions_come_and_are_answered_in_front_of_everybody(inbox: Tab, desk: Desk) -> None:
    await inbox.shows("[data-empty]", "Nobody waits for you")
    await desk.ask(*NAMES)
    await expect(inbox.find(".ask")).to_have_count(4)
    await expect(inbox.find('[data-badge="approvals"]')).to_have_text("4")
    kinds = await inbox.find(".ask").evaluate_all("(cards) => cards.map((card) => card.dataset.kind)")
    assert kinds == ["plan", "tool_call", "form", "concern"], "what was asked first is at the top"
    await expect(inbox.find(f"{card('concern')} .ask-question")).to_have_text(f"May this text be shown? {NASTY}")
    await expect(inbox.find(".ask img, .ask b")).to_have_count(0)
    for _ in range(2):  # as it came, and as the server draws it
        await expect(inbox.find(f"{card('tool_call')} .until")).to_contain_text("it is rejected")
        await inbox.page.reload()
        await inbox.is_live()

    plan = inbox.find(card("plan"))
    await plan.locator("input").nth(1).fill("Line the wall with brick")
    await expect(plan.locator('[data-decision="approve"]')).to_have_text("Approve with changes")
    await plan.get_by_role("button", name="Remove this part").nth(2).click()
    await plan.locator('[data-decision="approve"]').dblclick()
    await expect(plan).to_have_count(0)
    await expect(inbox.find('[data-badge="approvals"]')).to_have_text("3")

    form = inbox.find(card("form"))
    await form.locator('[data-decision="approve"]').click()
    await expect(form.locator(".field-error").first).to_have_text("Fill this in.")
    await form.get_by_label("How deep").fill("7.5")
    await form.get_by_label("Which stone").select_option("slate")
    await form.get_by_label("Other wishes").fill("two\nlines")
    await form.locator('[data-decision="approve"]').click()
    await expect(form).to_have_count(0)

    concern = inbox.find(card("concern"))
    await concern.locator(".ask-feedback").fill("say it kindly")
    await concern.locator('[data-decision="retry"]').click()
    await expect(concern).to_have_count(0)
    for name, words in {
        "plan": 'plan: edit ["Dig to the water", "Line the wall with brick"]',
        "form": 'form: approve {"depth": 7.5, "stone": "slate", "wishes": "two\\nlines"}',
        "concern": "concern: retry say it kindly",
    }.items():
        await desk.says(name, words)
    assert [action["kind"] for action in await desk.api.actions("plan")].count("approval") == 1


async def test_the_inbox_needs_no_mouse(inbox: Tab, desk: Desk) -> None:
    await desk.ask_only("call", "plan")
    await expect(inbox.find(".ask")).to_have_count(2)
    keyboard = inbox.page.keyboard
    await keyboard.press("a")  # nothing has the focus: nothing is approved, the first one is shown
    await expect(inbox.find(f"{card('tool_call')} .name")).to_be_focused()
    await expect(inbox.find(".ask")).to_have_count(2)
    await keyboard.press("r")
    await expect(inbox.find(card("tool_call"))).to_have_count(0)
    await expect(inbox.find(f"{card('plan')} .name")).to_be_focused()
    await keyboard.press("E")
    await keyboard.type("Carefully: ")
    await expect(inbox.find('[data-decision="approve"]')).to_have_text("Approve with changes")
    await keyboard.press("Escape")
    await keyboard.press("k")
    await expect(inbox.find(f"{card('plan')} .name")).to_be_focused()
    await expect(inbox.find('[data-decision="approve"]')).to_be_enabled()
    await keyboard.press("a")
    await expect(inbox.find("[data-empty]")).to_be_visible()
    await expect(inbox.find('[data-badge="approvals"]')).to_be_hidden()
    await desk.says("call", "call: reject")


async def test_a_question_is_answered_on_the_page_of_its_session(browser: Browser, desk: Desk) -> None:
    await desk.ask("form")
    async with new_tab(browser, desk.web.url) as tab:
        await tab.open("/sessions/form")
        ask = tab.find("[data-questions] .ask")
        await expect(ask.locator(".ask-question")).to_contain_text("A few facts")
        await expect(tab.find("[data-reason]")).to_be_hidden()
        await ask.locator('[data-decision="reject"]').click()
        await expect(tab.find(".step .said", has_text="form: reject")).to_be_visible()
        await expect(tab.find("[data-questions]")).to_be_hidden()
        await tab.healthy()


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_the_inbox_has_no_barrier_and_fits_a_phone(browser: Browser, desk: Desk, theme: str) -> None:
    open_now = {one["session_id"] for one in (await desk.api.get("/api/approvals"))["items"]}
    await desk.ask(*(name for name in NAMES if name not in open_now))
    found: dict[str, list[str]] = {}
    phone = {"viewport": {"width": 390, "height": 844}}
    options = {"bypass_csp": True, "color_scheme": theme, "reduced_motion": "reduce"}
    for size, more in {"wide": {}, "phone": phone}.items():
        async with new_tab(browser, desk.web.url, **options, **more) as tab:
            for path in ("/approvals", "/sessions/plan"):
                await tab.open(path)
                await expect(tab.find('[data-decision="approve"]').first).to_be_visible()
                found[f"{path}, {size}"] = await barriers(tab)
                assert await overhang(tab) == 0, (path, size)
    assert not {name: rules for name, rules in found.items() if rules}
