"""The whole story on the pages: what a person starts, sees, says and stops."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Browser, expect

from tests.browser.tab import Tab, new_tab
from tests.processes import Dashboard
from tests.remote import Api
from tests.support import eventually
from web.pages import PAGE_LIMIT

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


def id_in(tab: Tab) -> str:
    """The id of the session whose page is shown."""
    return tab.page.url.rsplit("/", 1)[-1].partition("#")[0]


async def test_an_agent_is_started_watched_guided_and_stopped(tab: Tab, api: Api) -> None:
    await tab.open("/sessions")
    await tab.find("[data-start]").first.click()
    await tab.find('input[name="moniker"][value="joke"]').check()
    await tab.find('textarea[name="task"]').fill("lanterns")
    await tab.find('input[name="interval_s"]').fill("0.3")
    await tab.find("[data-start-sheet] [data-submit]").click()
    await tab.page.wait_for_url(re.compile(r"/sessions/[^/?]+$"))
    await tab.is_live()
    session_id = id_in(tab)
    await tab.has_steps(3)
    await tab.session_is("running")
    await tab.shows(".task", "lanterns")
    assert "running" in await tab.page.title()

    await tab.find('[data-control="pause"]').click()
    await tab.session_is("paused")
    assert "paused" in await tab.page.title()
    at_rest = len(await api.steps(session_id))
    await tab.has_steps(at_rest)
    await expect(tab.find('[data-control="pause"]')).to_be_disabled()

    await tab.find("#say").fill("harbours")
    await tab.find('[data-control="interrupt"]').click()
    await expect(tab.find("#say")).to_have_value("")
    assert await tab.step_count() == at_rest
    await tab.find('[data-control="resume"]').click()
    await tab.session_is("running")
    await tab.has_steps(at_rest + 1)
    row = tab.find(f'[data-iteration="{at_rest}"]')
    await row.locator(".step-row").click()
    await expect(row.locator(".detail")).to_contain_text("harbours")

    await tab.find("#say").fill("rivers")
    await tab.find('[data-control="input"]').click()
    await expect(tab.find("#say")).to_have_value("")
    await _talks_about(api, session_id, "rivers")

    await tab.find('[data-control="destroy"]').click()
    await expect(tab.find("[data-undo]")).to_be_visible()
    await tab.find("[data-undo-back]").click()
    await expect(tab.find("[data-undo]")).to_be_hidden()
    await tab.has_steps(await tab.step_count() + 2)  # it goes on
    await tab.find('[data-control="destroy"]').click()
    await tab.find("[data-undo-now]").click()
    await tab.session_is("stopped")
    await expect(tab.find("#say")).to_be_disabled()

    steps = await api.steps(session_id)
    await tab.has_steps(len(steps))
    assert await tab.iterations() == list(range(len(steps)))
    assert {action["kind"]: action["status"] for action in await api.actions(session_id)} == {
        f"agent_{kind}": "done" for kind in ("create", "pause", "interrupt", "resume", "input", "destroy")
    }


async def _talks_about(api: Api, session_id: str, subject: str) -> None:
    async def so() -> bool:
        latest = await api.get(f"/api/agent-steps/latest?session_id={session_id}&limit=1")
        return bool(latest["items"]) and latest["items"][0]["data"]["subject"] == subject

    await eventually(so, 30, 0.1)


async def test_a_failed_step_is_tried_again_when_its_cause_is_gone(tab: Tab, api: Api, dashboard: Dashboard) -> None:
    session_id = await api.start("summarize", config={"path": str(dashboard.folder / "later.txt")})
    await tab.open(f"/sessions/{session_id}")
    await tab.session_is("error")
    await tab.shows("[data-error-line]", "later.txt")
    (dashboard.folder / "later.txt").write_text("A stepwell has stairs. The water is cool.")
    await tab.find('[data-control="resume"]').click()
    await tab.session_is("done")
    await expect(tab.find("[data-error]")).to_be_hidden()
    await tab.shows("[data-result-line]", "stairs")


async def test_the_undo_bar_stops_by_itself(tab: Tab, api: Api) -> None:
    session_id = await api.start("echo", config={"text": "idle", "wait_for_input": True})
    await api.becomes(session_id, "waiting")
    await tab.open(f"/sessions/{session_id}")
    await tab.find('[data-control="destroy"]').click()
    await tab.shows("[data-undo-text]", "Stopping")
    await tab.session_is("stopped")
    await expect(tab.find("[data-undo]")).to_be_hidden()


async def test_leaving_the_page_does_what_the_undo_bar_holds(tab: Tab, api: Api) -> None:
    session_id = await api.start("echo", config={"text": "idle", "wait_for_input": True})
    await api.becomes(session_id, "waiting")
    await tab.open(f"/sessions/{session_id}")
    await tab.find('[data-control="destroy"]').click()
    await expect(tab.find("[data-undo]")).to_be_visible()
    await tab.open("/queue")
    await api.becomes(session_id, "stopped")


async def test_people_and_agents_share_a_thread(tab: Tab, api: Api, browser: Browser) -> None:
    await tab.open("/conversations")
    await tab.find("[data-create]").first.click()
    await tab.find("#c-title").fill("Well watchers")
    await tab.find("#c-by").fill("mia")
    await tab.find("[data-create-sheet] [data-submit]").click()
    await tab.page.wait_for_url(re.compile(r"/conversations/[^/?]+$"))
    await tab.is_live()
    thread = id_in(tab)
    await tab.find("[data-start-here]").click()
    await tab.find('input[name="moniker"][value="echo"]').check()
    await tab.find('textarea[name="task"]').fill("on duty")
    await tab.find('select[name="wait_for_input"]').select_option("yes")
    await tab.find('input[name="agent_id"]').fill("east")
    await expect(tab.find('input[name="conversation_id"]')).to_have_value(thread)
    await tab.find("[data-start-sheet] [data-submit]").click()
    await tab.session_is("waiting")
    await tab.find(".facts a").click()
    await tab.is_live()
    config = {"text": "on duty", "wait_for_input": True}
    for name in ("north", "south"):
        session_id = await api.start("echo", agent_id=name, config=config, conversation_id=thread)
        await api.becomes(session_id, "waiting")
        await tab.find("#add-id").fill(session_id)
        await tab.find("[data-add] [data-submit]").click()
        await expect(tab.find(f'[data-people] [data-session-id="{session_id}"]')).to_be_visible()
        await expect(tab.find("[data-add] [data-submit]")).to_be_enabled()

    async with new_tab(browser, tab.url) as other:
        await other.open(f"/conversations/{thread}")
        await tab.find("#post").fill("Who is there?")
        await tab.find("[data-post]").click()
        for page in (tab, other):
            await expect(page.find(".message .text", has_text="Who is there?")).to_have_count(4)
            await expect(page.find(".message.from-agent")).to_have_count(6)
            await expect(page.find(".message.pending")).to_have_count(0)
        await other.healthy()
    await tab.find(".message.from-agent a").first.click()
    await tab.is_live()
    await expect(tab.find(".step.ringed")).to_be_visible()


async def test_a_failed_action_is_shown_and_put_back(tab: Tab, api: Api) -> None:
    await tab.open("/queue")
    action_id = await failed_input(api)
    row = tab.find(f'[data-action-id="{action_id}"]')
    await expect(row).to_have_attribute("data-status", "failed")
    await expect(row.locator(".line")).not_to_be_empty()
    await row.locator(".kind").click()
    await expect(row.locator(".detail")).to_contain_text("too late")
    before = (await api.get(f"/api/queue/{action_id}"))["processed_at"]
    await row.locator("[data-requeue]").click()

    async def tried_again() -> bool:
        found = await api.get(f"/api/queue/{action_id}")
        return bool(found["status"] == "failed" and found["processed_at"] > before)

    await eventually(tried_again, 30, 0.1)
    await expect(row).to_have_attribute("data-status", "failed")
    counts = (await api.get("/api/queue?limit=1"))["counts"]
    await tab.shows('[data-tab="failed"] [data-count]', str(counts["failed"]))
    await tab.shows('[data-tab="done"] [data-count]', str(counts["done"]))


async def failed_input(api: Api) -> str:
    """An input that failed because its session ended first."""
    session_id = await api.start("echo", config={"text": "one", "wait_for_input": True})
    await api.becomes(session_id, "waiting")
    await api.done(await api.control(session_id, "pause"))
    action_id = await api.control(session_id, "input", text="too late")
    await api.control(session_id, "destroy")
    await api.becomes(session_id, "stopped")

    async def failed() -> bool:
        return bool((await api.get(f"/api/queue/{action_id}"))["status"] == "failed")

    await eventually(failed, 30, 0.1)
    return action_id


async def test_a_double_click_is_one_action(tab: Tab, api: Api, dashboard: Dashboard) -> None:
    before = await _count(api, "/api/sessions")
    await tab.open("/sessions")
    await tab.find("[data-start]").first.click()
    await tab.find('input[name="moniker"][value="echo"]').check()
    await tab.find('textarea[name="task"]').fill("only once")
    await tab.find("[data-start-sheet] [data-submit]").dblclick()
    await tab.page.wait_for_url(re.compile(r"/sessions/[^/?]+$"))
    await tab.session_is("done")
    assert await _count(api, "/api/sessions") == before + 1

    thread = (await api.post("/api/conversations", {"title": "Twice"}, expect=201))["conversation_id"]
    await tab.open(f"/conversations/{thread}")
    await tab.find("#post").fill("said once")
    await tab.find("[data-post]").dblclick()
    await expect(tab.find(".message")).to_have_count(1)
    await expect(tab.find(".message.pending")).to_have_count(0)
    assert len((await api.get(f"/api/conversations/{thread}/messages"))["items"]) == 1


async def _count(api: Api, path: str) -> int:
    return sum((await api.get(f"{path}?limit=1"))["counts"].values())


async def test_a_second_tab_and_a_reload_show_the_same_list(tab: Tab, api: Api, browser: Browser) -> None:
    await tab.open("/sessions")
    async with new_tab(browser, tab.url) as other:
        await other.open("/sessions")
        made = [await api.start("echo", config={"text": f"list {number}", "steps": 3}) for number in range(3)]
        for session_id in made:
            await api.becomes(session_id, "done")
            for page in (tab, other):
                row = page.find(f'[data-rows] [data-session-id="{session_id}"]')
                await expect(row).to_have_attribute("data-status", "done")
                await expect(row.locator(".steps")).to_have_text("3 steps")
        live = await _rows(tab)
        assert await _rows(other) == live
        await tab.page.reload()
        await tab.is_live()
        again = await _rows(tab)
        assert again == live[: len(again)]
        assert len(again) == min(len(live), PAGE_LIMIT)
        counts = (await api.get("/api/sessions?limit=1"))["counts"]
        await tab.shows('[data-tab="done"] [data-count]', str(counts["done"] + counts["stopped"]))
        await other.healthy()


async def test_the_list_shows_what_a_session_said_last(tab: Tab, api: Api) -> None:
    await tab.open("/sessions")
    session_id = await api.start("echo", config={"text": "ready", "wait_for_input": True})
    line = tab.find(f'[data-session-id="{session_id}"] .line')
    await expect(line).to_have_text("ready")
    await api.becomes(session_id, "waiting")
    await api.control(session_id, "input", text="and now this")
    await expect(line).to_have_text("and now this")
    await api.control(session_id, "destroy")
    await expect(tab.find(f'[data-session-id="{session_id}"]')).to_have_attribute("data-status", "stopped")
    await expect(line).to_have_text("and now this")


async def _rows(tab: Tab) -> list[list[str]]:
    """What the list says of each session, but for the clocks that tick."""
    rows: list[list[str]] = await tab.page.evaluate(
        "[...document.querySelectorAll('[data-rows] > li')].map((row) =>"
        " ['.word', '.name', '.line', '.who', '.steps'].map((part) => row.querySelector(part).textContent.trim()))"
    )
    return rows
