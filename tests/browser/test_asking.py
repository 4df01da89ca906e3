"""What is asked, taken back, cancelled and sent to somebody who is busy: by mouse, by keyboard, and read by axe."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from store.agent_requests import agent_create
from store.ids import ConversationId, SessionId
from tests.browser.tab import Tab, barriers, new_tab, overhang
from tests.processes import QUICK, Dashboard, Program, start, start_dashboard, stored
from tests.remote import Api
from tests.support import eventually

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]
PAYERS = ("keyboard", "mouse", "looked-at")
QUESTION = "may have been made"


@dataclass
class Office:
    """A dashboard with clerks: three payers whose worker died while they paid, and a talker, in one thread."""

    web: Dashboard
    worker: Program
    api: Api
    thread: str

    def ledger(self, session_id: str) -> Path:
        """What a payer wrote down."""
        return self.web.folder / f"{session_id}.ledger"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def office(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> AsyncIterator[Office]:
    """Clerks at work; each payer waits for an answer of a person."""
    folder = tmp_path_factory.mktemp("office")
    web, worker = await asyncio.gather(start_dashboard(folder, QUICK), clerks(folder))
    api = Api(web.url)
    thread = (await api.post("/api/conversations", {"title": "Well watchers"}, 201))["conversation_id"]
    made = Office(web, worker, api, thread)
    try:
        await hired(made)
        await api.becomes("talker", "waiting")
        for payer in PAYERS:
            await api.becomes(payer, "waiting")
            await api.control(payer, "input", text="pay the mason")
        await eventually(lambda: all(made.ledger(payer).exists() for payer in PAYERS), 60, 0.05)
        await made.worker.kill()
        made.worker = await clerks(folder)
        await eventually(lambda: asked(made), 60, 0.1)
        yield made
    finally:
        made.worker.end()
        made.web.end()


async def clerks(folder: Path) -> Program:
    """A worker that knows clerks."""
    program = start(folder, "-m", "tests.browser.clerk", **QUICK)
    await program.says("worker ready")
    return program


async def hired(office: Office) -> None:
    """The sessions; the dashboard offers no such moniker, so they are asked for in the store."""
    async with stored(office.web.folder) as db:
        for name in (*PAYERS, "talker"):
            spec = {"task": name, "config": {"ledger": str(office.ledger(name))}}
            thread = ConversationId(office.thread)
            await agent_create(db, moniker="clerk", session_id=SessionId(name), conversation_id=thread, spec=spec)


async def asked(office: Office) -> bool:
    """Whether every payer has asked its question."""
    return len((await office.api.get("/api/approvals"))["items"]) == len(PAYERS)


@pytest_asyncio.fixture(loop_scope="session")
async def desk(browser: Browser, office: Office) -> AsyncIterator[Tab]:
    """A tab on the office."""
    async with new_tab(browser, office.web.url) as fresh:
        yield fresh
        await fresh.healthy()


async def test_a_question_is_answered_with_the_keyboard(desk: Tab, office: Office) -> None:
    await desk.open("/sessions/keyboard")
    await desk.shows("[data-questions] .panel-line", QUESTION)
    await expect(desk.find("[data-reason]")).to_be_hidden()
    await expect(desk.find(".step .said").last).to_contain_text(QUESTION)
    await desk.find("[data-questions] input").focus()
    await desk.page.keyboard.type("in cash")
    await office.api.control("keyboard", "interrupt", guidance="nothing to see")  # the session's row changes meanwhile
    await desk.page.keyboard.press("Tab")
    await desk.page.keyboard.press("Tab")
    await expect(desk.find('[data-decision="done"]')).to_be_focused()
    await expect(desk.find("[data-questions] input")).to_have_value("in cash")
    await desk.page.keyboard.press("Enter")
    await expect(desk.find(".step .said", has_text="Settled: in cash")).to_be_visible()
    await expect(desk.find("[data-questions]")).to_be_hidden()
    assert office.ledger("keyboard").read_text() == "paid\n"


async def test_a_question_is_answered_once_and_not_while_the_connection_is_lost(desk: Tab, office: Office) -> None:
    await desk.open("/sessions/mouse")
    repeat = desk.find('[data-decision="repeat"]')
    await expect(repeat).to_be_enabled()
    await desk.page.context.set_offline(True)
    await expect(repeat).to_be_disabled()
    await desk.page.context.set_offline(False)
    await expect(repeat).to_be_enabled()
    desk.forgive("ERR_INTERNET_DISCONNECTED")
    await repeat.dblclick()
    await expect(desk.find(".step .said", has_text="Settled: paid")).to_be_visible()
    await expect(desk.find("[data-questions]")).to_be_hidden()
    assert office.ledger("mouse").read_text() == "paid\npaid\n"
    kinds = [action["kind"] for action in await office.api.actions("mouse")]
    assert kinds.count("approval") == 1, kinds


async def test_a_turn_is_taken_back_in_front_of_everybody(desk: Tab, office: Office, browser: Browser) -> None:
    api = office.api
    await desk.open("/sessions/talker")
    before = await desk.step_count()
    await api.control("talker", "input", text="slow news")
    await desk.has_steps(before + 1)
    async with new_tab(browser, office.web.url) as other:
        await other.open(f"/conversations/{office.thread}")
        await desk.find("[data-when-busy]").select_option("reject")
        await desk.find("#say").fill("what time is it?")
        await desk.find('[data-control="input"]').click()
        await desk.shows("[data-dock-error]", "busy")
        await expect(desk.find("#say")).to_have_value("what time is it?")
        await desk.find("[data-when-busy]").select_option("rollback")
        await expect(desk.find('[data-control="input"]')).to_be_enabled()
        await desk.find("#say").press("Control+Enter")
        await expect(desk.find(".step .said", has_text="Heard: what time is it?")).to_be_visible()
        for _ in range(2):  # as it happens, and as the server draws it
            gone = desk.find(f'[data-iteration="{before}"]')
            await expect(gone.locator(".line")).to_have_text("Taken back: Let me see about slow news")
            await expect(desk.find(".step .said", has_text=f"Took back step {before}")).to_be_visible()
            message = other.find(".message.taken-back")
            await expect(message).to_have_count(1)
            await expect(message.locator(".tag")).to_have_text("taken back")
            await expect(other.find(".message .text", has_text="Heard: what time is it?")).to_have_count(1)
            for page in (desk, other):
                await page.page.reload()
                await page.is_live()
        await other.healthy()
    desk.forgive("409")  # the refusal that was asked for


async def test_a_pending_action_is_cancelled_where_its_moment_is_told(desk: Tab, office: Office) -> None:
    await desk.open("/queue")
    made = await office.api.post(
        "/api/agents", {"moniker": "echo", "config": {"text": "later"}, "not_before": "2999-01-01T08:00:00Z"}
    )
    row = desk.find(f'[data-action-id="{made["action_id"]}"]')
    await expect(row.locator(".moment")).to_contain_text("not before 29")
    live = await row.locator(".moment").inner_text()
    await desk.page.reload()
    await desk.is_live()
    await expect(row.locator(".moment")).to_have_text(live)
    await expect(row.locator(".error")).to_be_empty()
    await row.locator("[data-cancel]").focus()
    await desk.page.keyboard.press("Enter")
    await expect(row).to_have_attribute("data-status", "failed")
    await expect(row.locator(".error")).to_contain_text("cancel")
    await expect(row.locator("[data-cancel]")).to_have_count(0)


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_these_pages_have_no_barrier_and_fit_a_phone(browser: Browser, office: Office, theme: str) -> None:
    paths = {
        "question": "/sessions/looked-at",
        "taken back": "/sessions/talker",
        "thread": f"/conversations/{office.thread}",
        "queue": "/queue",
    }
    found: dict[str, list[str]] = {}
    phone = {"viewport": {"width": 390, "height": 844}}
    options = {"bypass_csp": True, "color_scheme": theme, "reduced_motion": "reduce"}
    for size, more in {"wide": {}, "phone": phone}.items():
        async with new_tab(browser, office.web.url, **options, **more) as tab:
            for name, path in paths.items():
                await tab.open(path)
                if name == "question":
                    await expect(tab.find("[data-decision]").last).to_be_visible()
                if name == "taken back":
                    await tab.find(".step-row").first.click()
                    await expect(tab.find("[data-fork]")).to_be_visible()
                found[f"{name}, {size}"] = await barriers(tab)
                assert await overhang(tab) == 0, (name, size)
    assert not {name: rules for name, rules in found.items() if rules}
