"""Budgets as a person sees them: a session that is paused for one, the bars, and a raise that lets it go on."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from tests.browser.tab import Tab, barriers, new_tab, overhang
from tests.processes import Dashboard
from tests.remote import Api

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

BUSY = {"steps": 40, "wait_for_input": True}


async def test_a_spent_budget_is_raised_on_its_page(tab: Tab, api: Api) -> None:
    session = await api.start("echo", task="hello", config=BUSY, agent_id="thrifty", budget={"steps": 3})
    await api.becomes(session, "paused")
    await tab.open(f"/sessions/{session}")
    await tab.shows("[data-budget-fact]", "3 of 3 steps")
    await tab.shows("[data-questions]", "Budget spent: 3 of 3 steps of this session. May it spend more?")
    await expect(tab.find("[data-reason]")).to_be_hidden()
    await tab.find("[data-budget-fact] a").click()
    row = tab.find(f"[data-scope-id='session:{session}']")
    await expect(row.get_by_role("meter", name="Steps")).to_have_attribute("aria-valuetext", "3 of 3")
    await expect(row).to_contain_text("spent")
    await row.get_by_role("button", name="Raise").click()
    await expect(tab.find("#b-steps")).to_have_value("3")
    await tab.find("#b-steps").fill("none")
    await tab.find("[data-submit]").click()
    await expect(tab.find("[data-field=steps] [data-field-error]")).not_to_be_empty()
    await tab.find("#b-steps").fill("5")
    await tab.find("[data-submit]").click()
    await expect(row.get_by_role("meter", name="Steps")).to_have_attribute("aria-valuetext", "5 of 5")  # live
    tab.forgive("422")
    await tab.open(f"/sessions/{session}")
    await tab.find("[data-decision=approve]").click()
    await tab.has_steps(10)
    await tab.session_is("paused")
    await tab.find("[data-decision=reject]").click()
    await tab.session_is("stopped")
    await tab.shows("[data-reason]", "no more is allowed")


async def test_a_budget_for_all_is_set_and_removed_by_hand(browser: Browser, dashboard: Dashboard, api: Api) -> None:
    options = {"bypass_csp": True, "reduced_motion": "reduce"}
    async with new_tab(browser, dashboard.url, **options) as tab:
        await tab.open("/budgets")
        await tab.find(".page-head [data-create]").click()
        await tab.find("#b-kind").select_option("agent")
        await tab.find("#b-id").fill("somebody")
        await tab.find("#b-tokens").fill("1000000")
        await tab.find("#b-money").fill("2.50")
        assert await barriers(tab) == []
        await tab.find("[data-submit]").click()
        row = tab.find("[data-scope-id='agent:somebody']")
        await expect(row).to_contain_text("0 of 1,000,000")
        await expect(row).to_contain_text("0 of 2.50")
        assert (await api.get("/api/budgets/agent:somebody"))["limits"] == {"tokens": 1_000_000, "money": "2.50"}
        await row.get_by_role("button", name="Change").click()
        await tab.find("[data-remove]").click()
        await expect(row).to_have_count(0)
        await api.get("/api/budgets/agent:somebody", 404)
        tab.forgive("404")
        await tab.healthy()


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_the_bars_have_no_barrier_and_fit_a_phone(
    browser: Browser, dashboard: Dashboard, api: Api, theme: str
) -> None:
    session = await api.start("echo", task="x", config=BUSY, agent_id="long" * 20, budget={"steps": 2, "tokens": 9})
    await api.becomes(session, "paused")
    async with new_tab(browser, dashboard.url, bypass_csp=True, color_scheme=theme, reduced_motion="reduce") as tab:
        for path in ("/budgets", f"/sessions/{session}"):
            await tab.open(path)
            assert await barriers(tab) == []
    async with new_tab(browser, dashboard.url, viewport={"width": 390, "height": 844}) as tab:
        for path in ("/budgets", f"/sessions/{session}"):
            await tab.open(path)
            assert await overhang(tab) == 0
    await api.control(session, "destroy")
