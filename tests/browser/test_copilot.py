"""A copilot at work as a person sees it: what is said, its insights as they come and go, its board, its turns.

The rows are written as the moniker writes them (tests/web/copilotkit.py), so that each moment can be looked at.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, expect

from store import AgentStep, SessionStatus, append_agent_step, upsert_agent_state
from tests.browser.tab import Tab, barriers, new_tab, overhang
from tests.processes import QUICK, Dashboard, start_dashboard, stored
from tests.remote import Api
from tests.web.copilotkit import Json, copilot_state, insight, run_of, segment, store_copilot, tell_early, turn_step

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

EVIL = "<img src=x onerror=alert(1)>"
LONG = "Averylongwordwithoutanyblank" * 6
MOST_NODES = 2_500
MINUTE_MS = 60_000


@dataclass
class Stage:
    """A dashboard without a worker, and one copilot of which the test writes the rows itself."""

    web: Dashboard
    api: Api
    session_id: str
    thread: str
    next: int = 0

    async def turn(self, **given: Any) -> int:
        """Store one more turn, now; its iteration."""
        iteration, self.next = self.next, self.next + 1
        step = turn_step(self.session_id, iteration, created_at=datetime.now(UTC), **given)
        async with stored(self.web.folder) as db:
            await append_agent_step(db, step)
        return iteration

    async def finds(self, content: str, **given: Any) -> Json:
        """A turn with one insight is stored; the insight."""
        told = insight(self.session_id, self.next, content, **given)
        await self.turn(insights=[told], ran=[run_of("objection_coach", insights=[told["insight_id"]])])
        return told

    async def tells(self, content: str, **given: Any) -> Json:
        """An agent has found an insight; the step that it belongs to is not stored."""
        told = insight(self.session_id, self.next, content, **given)
        async with stored(self.web.folder) as db:
            await tell_early(db, self.session_id, self.next, told, datetime.now(UTC))
        return told

    async def is_in(self, status: SessionStatus, **given: Any) -> None:
        """The session's row says this now."""
        row = copilot_state(self.session_id, self.next - 1, status=status, conversation_id=self.thread, **given)
        async with stored(self.web.folder) as db:
            await upsert_agent_state(db, [row])


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def web(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> AsyncIterator[Dashboard]:
    """One for all tests of this file."""
    running = await start_dashboard(tmp_path_factory.mktemp("copilot"), QUICK)
    yield running
    running.end()


@pytest_asyncio.fixture(loop_scope="session")
async def stage(web: Dashboard, request: pytest.FixtureRequest) -> Stage:
    """A session of its own for each test."""
    name = request.node.name.removeprefix("test_")[:60].replace("[", "-").replace("]", "")
    now = datetime.now(UTC)
    async with stored(web.folder) as db:
        await store_copilot(db, name, title=f"About {name}", created_at=now, updated_at=now)
    return Stage(web, Api(web.url), name, f"thread-of-{name}")


@pytest_asyncio.fixture(loop_scope="session")
async def tab(browser: Browser, stage: Stage) -> AsyncIterator[Tab]:
    """A tab that is not on the page yet."""
    async with new_tab(browser, stage.web.url) as fresh:
        yield fresh
        await fresh.healthy()


async def look(tab: Tab, stage: Stage) -> Tab:
    """Go to the copilot's page."""
    return await tab.open(f"/copilot/{stage.session_id}")


def card(tab: Tab, told: Json) -> Locator:
    """The card of an insight."""
    return tab.find(f"[data-insight-id='{told['insight_id']}']")


def cards(tab: Tab, zone: str) -> Locator:
    """What the cards of a zone say, from top to bottom."""
    return tab.find(f"[data-zone={zone}] .insight-text")


def said(tab: Tab) -> Locator:
    """What was said, from top to bottom."""
    return tab.find("[data-said] .text")


# --- the pages -------------------------------------------------------------------------------------------------------


async def test_the_server_draws_what_the_scripts_draw(tab: Tab, stage: Stage, browser: Browser) -> None:
    told = insight(
        stage.session_id,
        1,
        "Ask for the reason.",
        zone="A",
        suggested_response="Compared with what?",
        expiry=9_000,
        action_label="Ask",
    )
    held = insight(stage.session_id, 1, "Offer a pilot.", number=2, status="held", color="red", zone="b")
    board = {
        "variables": {
            "stage": "price",
            "sys.turn": 1,
            "known": False,
            "rate": 0.5,
            "none": None,
            "customer": {"drivers": 38},
        },
        "queues": {"objections": ["too much", "too late"], "empty": []},
        "facts": [{"type": "budget", "key": "year", "value": "10k", "confidence": 0.6}],
        "memory": {"coach": {"asked": 2}},
    }
    runs = [
        run_of("coach", insights=[told["insight_id"]], variables={"stage": "price"}, events=["asked"]),
        run_of("slow", failed=True),
    ]
    skipped = [{"agent_id": "closer", "reason": "conditions_not_met"}]
    await look(tab, stage)
    await stage.turn(said=segment("REP", "What do you think?", 3.0))
    await stage.turn(
        said=segment("CUSTOMER", "Too expensive.", 65.0),
        ran=runs,
        insights=[told, held],
        board=board,
        skipped=skipped,
        trigger="keyword",
        metadata={"keyword": "expensive"},
    )
    await expect(tab.find(".turn")).to_have_count(2)
    parts = (
        "[data-said]",
        "[data-zone=A] [data-cards]",
        "[data-zone=B] [data-cards]",
        "[data-sections]",
        "[data-turn-rows]",
    )
    async with new_tab(browser, stage.web.url, java_script_enabled=False) as plain:
        await plain.page.goto(f"{stage.web.url}/copilot/{stage.session_id}")
        for part in parts:
            with_scripts = [line.strip() for line in (await tab.find(part).inner_text()).splitlines() if line.strip()]
            without = [line.strip() for line in (await plain.find(part).inner_text()).splitlines() if line.strip()]
            assert [_timeless(line) for line in without] == [_timeless(line) for line in with_scripts], part
            links = "(parts) => [...parts[0].querySelectorAll('a')].map((link) => link.search + link.hash)"
            assert await plain.find(part).evaluate_all(links) == await tab.find(part).evaluate_all(links), part
    await expect(tab.find("[data-part=variables] .entry.changed")).to_have_attribute("data-name", "stage")


def _timeless(line: str) -> str:
    """A line without the age that it tells."""
    words = line.split()
    return "age" if words[1:] in (["s"], ["min"]) and words[0].isdigit() else line


async def test_the_list_is_live_and_starts_a_copilot(tab: Tab, stage: Stage) -> None:
    await tab.open("/copilot")
    row = tab.find(f"[data-session-id='{stage.session_id}']")
    await expect(row).to_contain_text("listening")
    await stage.turn()
    await stage.is_in(SessionStatus.PAUSED, updated_at=datetime.now(UTC))
    await expect(row).to_contain_text("paused")
    await expect(row.locator(".steps")).to_have_text("1")
    await tab.find("[data-start]").first.click()
    await expect(tab.find("[data-sets] .choice")).to_have_count(6)
    await expect(tab.find("[data-sets]")).to_contain_text("Keeps a meeting on its agenda")
    await tab.find("[data-sets] input[value=meeting]").check()
    await tab.find("#c-title").fill("Monday")
    await tab.page.keyboard.press("Enter")
    await tab.page.wait_for_url(re.compile(r"/copilot/[0-9A-Z]{26}"))
    await tab.is_live()
    await expect(tab.find("h1")).to_have_text("Monday")
    await tab.shows(".record .facts", "Meeting")
    await tab.session_is("created")  # nobody works here
    await tab.open("/copilot")
    await expect(tab.find("[data-rows]")).not_to_contain_text("Monday")  # as long as it waits in the queue


async def test_the_page_is_found_by_key(tab: Tab) -> None:
    await tab.open("/sessions")
    await tab.page.keyboard.press("g")
    await tab.page.keyboard.press("l")
    await tab.page.wait_for_url("**/copilot")
    await tab.is_live()


# --- what is said ----------------------------------------------------------------------------------------------------


async def test_what_is_said_comes_live_and_the_unfinished_makes_way(tab: Tab, stage: Stage) -> None:
    await stage.turn(said=segment("REP", "Hello.", 1.0))
    await look(tab, stage)
    await expect(said(tab)).to_have_text(["Hello."])
    await stage.turn(said=segment("CUSTOMER", "I wo", 4.0, is_final=False))
    await expect(tab.find(".said-row.unfinished")).to_have_text(["CUSTOMER0:04I wo"], use_inner_text=False)
    await stage.turn(said=segment("REP", "Yes?", 5.0))
    await stage.turn(said=segment("CUSTOMER", "I would like two.", 4.0))
    await expect(said(tab)).to_have_text(["Hello.", "I would like two.", "Yes?"])
    await expect(tab.find(".said-row.unfinished")).to_have_count(0)
    voices = await tab.find(".said-row").evaluate_all(
        "(rows) => rows.map((row) => row.className.match(/voice-\\d/)[0])"
    )
    assert voices == ["voice-1", "voice-2", "voice-1"]


async def test_a_post_that_was_outdated_before_it_was_heard_does_not_come_back(tab: Tab, stage: Stage) -> None:
    await look(tab, stage)
    posts = []
    for text, is_final in (("All ri", False), ("All right.", True)):
        body = {"text": text, "speaker": "ANN", "is_final": is_final}
        posts.append((await stage.api.post(f"/api/conversations/{stage.thread}/messages", body))["message_id"])
    await expect(said(tab)).to_have_text(["All right."])
    for message_id, (text, is_final) in zip(posts, (("All ri", False), ("All right.", True)), strict=True):
        read = {"inputs": [{"text": text, "message_id": message_id}]}
        await stage.turn(said=segment("ANN", text, 2.0, is_final=is_final), guidance=read)
    await expect(tab.find(".turn")).to_have_count(2)
    await expect(said(tab)).to_have_text(["All right."])
    await expect(tab.find(".said-row.unheard")).to_have_count(0)


async def test_a_speaker_is_chosen_and_says_something_by_keyboard(tab: Tab, stage: Stage) -> None:
    await stage.turn(said=segment("REP", "Hello."))
    await stage.turn(said=segment("CUSTOMER", "Hi."))
    await look(tab, stage)
    await tab.page.keyboard.press("i")
    await expect(tab.find("#say")).to_be_focused()
    await tab.page.keyboard.type("Too expensive")
    await tab.page.keyboard.press("Alt+ArrowDown")
    await expect(tab.find("#speaker")).to_have_value("CUSTOMER")
    await tab.page.keyboard.press("Enter")
    await expect(said(tab)).to_have_text(["Hello.", "Hi.", "Too expensive"])
    await expect(tab.find(".said-row.unheard")).to_have_count(1)
    await expect(tab.find("#say")).to_have_value("")
    message = (await stage.api.get(f"/api/conversations/{stage.thread}/messages"))["items"][-1]
    assert (message["text"], message["data"]["segment"]["speaker"]) == ("Too expensive", "CUSTOMER")
    heard = {"inputs": [{"text": "Too expensive", "message_id": message["message_id"]}]}
    await stage.turn(said=segment("CUSTOMER", "Too expensive", 7.0), guidance=heard)
    await expect(tab.find(".said-row.unheard")).to_have_count(0)
    await expect(said(tab)).to_have_text(["Hello.", "Hi.", "Too expensive"])
    await tab.page.reload()
    await tab.is_live()
    await expect(said(tab)).to_have_text(["Hello.", "Hi.", "Too expensive"])
    await expect(tab.find("#speaker")).to_have_value("CUSTOMER")


async def test_a_reader_is_not_moved_and_finds_the_newest(tab: Tab, stage: Stage) -> None:
    steps: list[AgentStep] = []
    async with stored(stage.web.folder) as db:
        for number in range(260):
            words = f"Sentence number {number} of a long conversation."
            insights = [insight(stage.session_id, number, f"Advice {number}", zone="ABC"[number % 3], expiry=9_000)]
            steps.append(
                turn_step(
                    stage.session_id,
                    number,
                    said=segment(f"S{number % 8}", words, number),
                    insights=insights,
                    ran=[run_of(f"agent_{n}") for n in range(8)],
                )
            )
        await asyncio.gather(*[append_agent_step(db, step) for step in steps])
    stage.next = 260
    await look(tab, stage)
    await expect(said(tab).last).to_have_text("Sentence number 259 of a long conversation.")
    await expect(said(tab).last).to_be_in_viewport()
    place = "document.querySelector('[data-scroll]').scrollTop"
    for _ in range(3):
        await tab.page.evaluate(f"{place} = 0")
        first = await said(tab).first.inner_text()
        await tab.find("[data-earlier]").click()
        await expect(said(tab).first).not_to_have_text(first)
        assert await tab.nodes() <= MOST_NODES
    await expect(said(tab).first).to_have_text("Sentence number 0 of a long conversation.")
    await expect(tab.find("[data-earlier]")).to_be_hidden()
    before = await tab.page.evaluate(place)
    await stage.turn(said=segment("S1", "Said below"))
    await expect(tab.find("[data-follow]")).to_have_text("1 new ↓")
    assert await tab.page.evaluate(place) == before
    await tab.find("[data-follow]").click()
    await expect(said(tab).last).to_have_text("Said below")
    await expect(said(tab).last).to_be_in_viewport()
    await expect(tab.find("[data-follow]")).to_be_hidden()
    assert await tab.nodes() <= MOST_NODES


# --- insights --------------------------------------------------------------------------------------------------------


async def test_an_insight_comes_is_replaced_and_the_void_goes(tab: Tab, stage: Stage) -> None:
    await look(tab, stage)
    told = await stage.tells("Ask what they compare it with.", zone="A", color="red", expiry=600)
    await expect(card(tab, told)).to_have_attribute("data-stored", "false")
    await expect(card(tab, told).locator("[data-mark]")).to_have_text("not stored yet")
    await expect(tab.find("[data-say-now]")).to_have_text("Ask what they compare it with.")
    void = await stage.tells("A step that never was.", zone="B", number=2)
    await expect(card(tab, void)).to_be_visible()
    await tab.page.reload()
    await tab.is_live()
    await expect(card(tab, told).locator("[data-mark]")).to_have_text("not stored yet")
    await tab.find("[data-zone=A] [data-keep]").focus()
    await stage.turn(insights=[{**told, "content": "Ask what they compare it with!"}], ran=[run_of("objection_coach")])
    await expect(card(tab, told)).to_have_attribute("data-stored", "true")
    await expect(cards(tab, "A")).to_have_text(["Ask what they compare it with!"])
    await expect(card(tab, told).locator("[data-keep]")).to_be_focused()
    await expect(card(tab, void)).to_have_count(0)
    await expect(card(tab, told).locator(".evidence")).to_have_attribute("href", f"/sessions/{stage.session_id}#step-0")
    await stage.finds("Newer", zone="A", expiry=600)
    await expect(cards(tab, "A")).to_have_text(["Newer", "Ask what they compare it with!"])


async def test_an_insight_fades_in_its_place_and_what_is_kept_stays(tab: Tab, stage: Stage) -> None:
    await tab.page.clock.install()
    kept = await stage.finds("Keep me.", zone="A", expiry=120)
    fades = await stage.finds("Fade.", zone="A", expiry=30)
    later = await stage.finds("Later.", zone="C", expiry=9_000)
    await look(tab, stage)
    await expect(tab.find("[data-zone=A] [data-count]")).to_have_text("2")
    await card(tab, kept).locator("[data-keep]").click()
    await expect(cards(tab, "A")).to_have_text(["Keep me.", "Fade."])
    await tab.page.clock.fast_forward(MINUTE_MS)
    await expect(card(tab, fades).locator("[data-mark]")).to_have_text("expired")
    await expect(card(tab, fades)).to_be_visible()
    await tab.page.clock.fast_forward(5 * MINUTE_MS)
    await expect(card(tab, kept).locator("[data-mark]")).to_have_text("kept")
    await expect(card(tab, later).locator("[data-mark]")).to_have_text("")
    await card(tab, later).locator("[data-dismiss]").click()
    await expect(card(tab, later)).to_have_count(0)
    for number in range(14):
        await stage.finds(f"More {number}", zone="A", expiry=9_000)
    await expect(card(tab, fades)).to_have_count(0)  # a zone holds its newest
    await tab.page.reload()
    await tab.is_live()
    await expect(cards(tab, "A").first).to_have_text("Keep me.")
    await expect(card(tab, kept).locator("[data-keep]")).to_have_attribute("aria-pressed", "true")
    await expect(card(tab, later)).to_have_count(0)


async def test_a_held_insight_is_decided_about_once(tab: Tab, stage: Stage) -> None:
    await look(tab, stage)
    told = await stage.finds("Offer the free pilot.", zone="A", status="held")
    await expect(card(tab, told).locator("[data-mark]")).to_have_text("waits for you")
    await card(tab, told).locator("[data-decide=true]").dblclick()
    await expect(card(tab, told).locator("[data-mark]")).to_have_text("will be shown")
    await expect(card(tab, told).locator("[data-decide=false]")).to_be_disabled()
    (asked,) = await stage.api.actions(stage.session_id)
    assert asked["payload"]["data"] == {"decide": {"insight_id": told["insight_id"], "agreed": True}}
    await expect(said(tab)).to_have_count(0)  # a decision is nothing that somebody said
    await stage.turn(insights=[{**told, "status": "shown", "expiry": 600}])
    await expect(card(tab, told)).to_have_attribute("data-status", "shown")
    await expect(card(tab, told).locator("[data-decide]")).to_have_count(0)
    await expect(tab.find(".turn .why").first).to_have_text("somebody spoke")
    other = await stage.finds("Name the price.", zone="A", status="held", number=2)
    await card(tab, other).locator("[data-keep]").focus()
    await tab.page.keyboard.press("r")
    await expect(card(tab, other).locator("[data-mark]")).to_have_text("will be dropped")
    await stage.turn(insights=[{**other, "status": "refused"}])
    await expect(card(tab, other).locator("[data-mark]")).to_have_text("dropped")


async def test_a_line_is_copied(browser: Browser, stage: Stage) -> None:
    told = await stage.finds("Say it.", suggested_response="Compared with what?", expiry=600)
    async with new_tab(browser, stage.web.url, permissions=["clipboard-read", "clipboard-write"]) as tab:
        await look(tab, stage)
        await card(tab, told).locator("[data-copy-line]").click()
        await expect(tab.find("[data-say]")).to_have_text("Copied")
        assert await tab.page.evaluate("navigator.clipboard.readText()") == "Compared with what?"
        await tab.healthy()


# --- the board and the turns -----------------------------------------------------------------------------------------


async def test_the_board_changes_and_is_looked_back_at(tab: Tab, stage: Stage) -> None:
    for number, name in enumerate(["intro", "price"]):
        writes = {"stage": name}
        await stage.turn(
            ran=[run_of("call_state", variables=writes)],
            board={"variables": {**writes, "drivers": 38}},
            said=segment("A", str(number)),
        )
    await look(tab, stage)
    entry = tab.find("[data-name=stage]")
    await expect(entry).to_contain_text("price")
    await expect(entry).to_contain_text("written by Call State · turn 2")
    await stage.turn(
        ran=[run_of("deal_facts", variables={"drivers": 40})],
        board={"variables": {"stage": "price", "drivers": 40}},
        said=segment("A", "2"),
    )
    await expect(tab.find("[data-name=drivers]")).to_contain_text("40")
    await expect(tab.find(".entry.changed")).to_have_count(1)
    await expect(tab.find("[data-name=drivers].flash")).to_have_count(1)
    await tab.find("#lookback").focus()
    await tab.page.keyboard.press("Home")
    await expect(tab.find("[data-board-turn]")).to_have_text("after turn 1 · 1 change")
    await expect(entry).to_contain_text("intro")
    await expect(entry).to_contain_text("turn 1")
    await expect(tab.find("[data-name=drivers]")).to_contain_text("38")
    await stage.turn(
        ran=[run_of("call_state", variables={"stage": "closing"})],
        board={"variables": {"stage": "closing"}},
        said=segment("A", "3"),
    )
    await expect(tab.find(".turn")).to_have_count(4)
    await expect(entry).to_contain_text("intro")  # who looks back is left there
    await tab.find("[data-board-newest]").click()
    await expect(entry).to_contain_text("closing")
    await expect(tab.find("[data-board-turn]")).to_have_text("after turn 4")


async def test_a_turn_says_who_ran_and_who_did_not(tab: Tab, stage: Stage) -> None:
    await look(tab, stage)
    await expect(tab.find("[data-turns-empty]")).to_be_visible()
    phases = [
        {
            "phase": 1,
            "events": [],
            "ran": [run_of("listener", events=["question_detected"])],
            "skipped": [{"agent_id": "price_guard", "reason": "cooldown"}],
        },
        {"phase": 2, "events": ["question_detected"], "ran": [run_of("answerer", failed=True)], "skipped": []},
    ]
    await stage.turn(phases=phases, said=segment("A", "How much?"), trigger="keyword", metadata={"keyword": "how much"})
    turn = tab.find(".turn")
    await expect(turn.locator(".why")).to_have_text("a word was said: how much")
    await expect(turn.locator(".ran")).to_have_text("2 ran, 1 failed")
    await expect(turn.locator(".run").nth(0)).to_contain_text("emitted question_detected")
    await expect(turn.locator(".run").nth(1)).to_contain_text("rests after its last run")
    await expect(turn.locator(".phase").nth(1)).to_have_text("Phase 2, woken by question_detected")
    await expect(turn.locator(".facts-line")).to_contain_text("980 tokens · cost 0.0021")
    await turn.locator(".turn-row").click()
    await expect(turn.locator(".turn-detail")).to_have_count(0)
    await turn.locator(".turn-row").click()
    await turn.get_by_role("link", name="Waterfall").click()
    await tab.page.wait_for_url(f"**/sessions/{stage.session_id}#trace*")
    await expect(tab.find("[data-trace]")).to_be_visible()


# --- with a worker ---------------------------------------------------------------------------------------------------


async def test_a_real_copilot_is_told_something_and_advises(browser: Browser, dashboard: Dashboard, api: Api) -> None:
    thread = (await api.post("/api/conversations", {"title": "A sales call"}, 201))["conversation_id"]
    config = {"agent_set": "sales_call"}
    session_id = await api.start("copilot", config=config, conversation_id=thread)
    await api.becomes(session_id, "waiting")
    async with new_tab(browser, dashboard.url) as tab:
        await tab.open(f"/copilot/{session_id}")
        await tab.session_is("listening")
        await tab.find("#speaker").fill("CUSTOMER")
        await tab.find("#say").fill("Honestly it is too expensive for us. What does it cost?")
        await tab.page.keyboard.press("Enter")
        await expect(tab.find(".insight[data-stored=true]").first).to_be_visible()
        await expect(tab.find(".said-row:not(.unheard)")).to_have_count(1)
        await expect(tab.find(".turn")).not_to_have_count(0)
        await expect(tab.find("[data-sections] .entry.changed").first).to_be_visible()
        await tab.session_is("listening")
        await tab.find('[data-control="destroy"]').click()
        await tab.find("[data-undo-now]").click()
        await tab.session_is("stopped")
        await expect(tab.find("#say")).to_be_disabled()
        shown = await tab.find("[data-said]").inner_text()
        cards_shown = await tab.find(".insight").count()
        await tab.page.reload()
        await tab.is_live()
        assert await tab.find("[data-said]").inner_text() == shown
        assert await tab.find(".insight").count() == cards_shown
        await tab.healthy()


# --- strangers, small screens, outages -------------------------------------------------------------------------------


async def test_nothing_that_was_said_becomes_markup(tab: Tab, stage: Stage) -> None:
    await look(tab, stage)
    told = insight(
        stage.session_id,
        0,
        EVIL,
        agent_id=EVIL,
        agent_name=EVIL,
        type=EVIL,
        zone="A",
        color=EVIL,
        suggested_response=EVIL,
        action_label=EVIL,
        expiry=600,
    )
    board = {
        "variables": {EVIL: EVIL},
        "queues": {EVIL: [EVIL]},
        "facts": [{"type": EVIL, "key": EVIL, "value": {EVIL: [EVIL]}}],
        "memory": {EVIL: {EVIL: EVIL}},
    }
    ran = run_of(EVIL, insights=[told["insight_id"]], variables={EVIL: EVIL}, events=[EVIL])
    await stage.turn(
        said=segment(EVIL, EVIL),
        ran=[ran],
        insights=[told],
        board=board,
        trigger=EVIL,
        skipped=[{"agent_id": EVIL, "reason": EVIL}],
    )
    for _ in range(2):  # as scripts draw it, then as the server does
        await expect(said(tab)).to_have_text([EVIL])
        await expect(cards(tab, "A")).to_have_text([EVIL])
        await expect(tab.find("[data-part=variables] .value")).to_have_text([EVIL])
        await expect(tab.find("main img, main b, main script")).to_have_count(0)
        link = await tab.find("[data-zone=A] .agent").get_attribute("href")
        assert link is not None
        assert link.startswith("/copilot/studio?")
        await tab.page.reload()
        await tab.is_live()


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_no_barrier_and_no_sideways_scroll(browser: Browser, stage: Stage, theme: str) -> None:
    held = insight(stage.session_id, 0, LONG, status="held", zone="B", number=2)
    told = insight(
        stage.session_id, 0, LONG, agent_name=LONG, zone="A", suggested_response=LONG, action_label=LONG, expiry=600
    )
    old = insight(stage.session_id, 0, "Is over.", zone="C", expiry=0, number=3)
    board = {"variables": {LONG: LONG, "many": {LONG: 1}}, "facts": [{"type": LONG, "key": None, "value": LONG}]}
    await stage.turn(
        said=segment(LONG, LONG), ran=[run_of(LONG, variables={LONG: LONG})], insights=[told, held, old], board=board
    )
    options = {"bypass_csp": True, "color_scheme": theme, "reduced_motion": "reduce"}
    found: dict[str, list[str]] = {}
    sizes = {"wide": (1400, 900), "middle": (1000, 800), "phone": (390, 844)}
    for size, (width, height) in sizes.items():
        async with new_tab(browser, stage.web.url, viewport={"width": width, "height": height}, **options) as tab:
            await look(tab, stage)
            for panel in await tab.find("[data-panel]:visible").evaluate_all(
                "links => links.map((a) => a.dataset.panel)"
            ):
                await tab.find(f"[data-panel={panel}]").click()
                await expect(tab.find(f"#{panel}")).to_be_visible()
                found[f"{size} {panel}"] = await barriers(tab)
                assert await overhang(tab) == 0, (size, panel)
            if size == "wide":
                found[size] = await barriers(tab)
                assert await overhang(tab) == 0
                for part in ("#talk", "#insights", "#board", "#turns"):
                    await expect(tab.find(part)).to_be_visible()
            await tab.healthy()
    assert not {place: rules for place, rules in found.items() if rules}


async def test_after_an_outage_everything_is_there_once(tab: Tab, stage: Stage) -> None:
    await stage.turn(said=segment("A", "Before"))
    await look(tab, stage)
    await tab.page.context.set_offline(True)
    await expect(tab.find('[data-banner="lost"]')).to_be_visible()
    await expect(tab.find("[data-say-it]")).to_be_disabled()
    told = await stage.finds("While you were away.", zone="A", expiry=600)
    await stage.turn(
        said=segment("B", "During"),
        ran=[run_of("x", variables={"stage": "later"})],
        board={"variables": {"stage": "later"}},
    )
    await stage.api.post(
        f"/api/conversations/{stage.thread}/messages", {"text": "Posted", "data": {"segment": {"speaker": "B"}}}
    )
    await stage.is_in(SessionStatus.PAUSED, reason="by hand", updated_at=datetime.now(UTC))
    await tab.page.context.set_offline(False)
    await expect(card(tab, told)).to_have_count(1)
    await expect(said(tab)).to_have_text(["Before", "During", "Posted"])
    await expect(tab.find(".turn")).to_have_count(3)
    await expect(tab.find("[data-name=stage]")).to_contain_text("later")
    await tab.session_is("paused")
    await expect(tab.find("[data-say-it]")).to_be_enabled()
    tab.forgive("ERR_INTERNET_DISCONNECTED")
    shown = await tab.page.evaluate("document.querySelector('[data-said]').innerText")
    await tab.page.reload()
    await tab.is_live()
    assert json.dumps(await tab.page.evaluate("document.querySelector('[data-said]').innerText")) == json.dumps(shown)
