"""The waterfall of a turn: by keyboard, live, with hostile names, with 500 spans, and read by axe in both themes."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from store.clock import SystemClock
from store.ids import SessionId
from store.traces import save_traces
from store.tracing import Told, Trace, TraceKind, TraceStatus, trace_of
from tests.browser.tab import Tab, barriers, new_tab, overhang
from tests.processes import Dashboard, stored
from tests.remote import Api

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

HOSTILE = "<img src=x onerror=alert(1)>"


def a_trace(session_id: str, spans: int) -> Trace:
    """One that began after everything else, with so many calls and hostile words in every place."""
    now = SystemClock().now()
    empty = trace_of(Told("hostile", TraceKind.TURN, SessionId(session_id), None), now, str)
    facts = {"input_tokens": 1200, "output_tokens": 30, "cost": 0.0021, "purpose": HOSTILE, "verdict": HOSTILE}
    kinds = ("step", "model", "tool", "gate", "recall", "sandbox", "question")
    calls = [
        {
            "id": f"c{number}",
            "parent": "turn" if number % 7 == 0 else f"c{number - number % 7}",
            "kind": kinds[number % 7],
            "name": HOSTILE if number % 9 == 0 else f"call {number}",
            "start_ms": number * 10.0,
            "ms": 70.0 if number % 7 == 0 else 10.0,
            "status": "error" if number % 11 == 10 else "ok",
            "error": HOSTILE if number % 11 == 10 else None,
            "facts": facts if number % 7 == 1 else {},
        }
        for number in range(spans)
    ]
    root = {**empty.spans[0], "ms": spans * 10.0, "status": "error", "error": HOSTILE, "name": HOSTILE}
    return replace(
        empty,
        status=TraceStatus.FAILED,
        spans=[root, *calls],
        started_at=now + timedelta(hours=1),
        ended_at=now + timedelta(hours=2),
        duration_ms=spans * 10.0,
        cost=0.3,
        calls=spans // 7,
        input_tokens=12_345,
    )


async def test_a_turn_is_read_by_keyboard_and_grows_while_it_runs(tab: Tab, api: Api) -> None:
    session = await api.start("joke", task="wells", config={"interval_s": 1})
    await tab.open(f"/sessions/{session}")
    await tab.find("[data-trace-toggle]").focus()
    await tab.page.keyboard.press("Enter")
    await expect(tab.find("[data-trace-toggle]")).to_have_attribute("aria-pressed", "true")
    await expect(tab.find("[data-timeline]")).to_be_hidden()
    await expect(tab.find("[data-trace-spans] tr").nth(1)).to_contain_text("step")
    seen = await tab.find("[data-trace-spans] tr").count()
    await expect(tab.find("[data-trace-spans] tr").nth(seen)).to_be_attached()
    await tab.page.keyboard.press("Enter")
    await expect(tab.find("[data-timeline]")).to_be_visible()
    await api.control(session, "destroy")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_500_spans_with_hostile_words(browser: Browser, dashboard: Dashboard, api: Api, scheme: str) -> None:
    session = await api.start("echo", config={"text": "hello", "steps": 2})
    await api.becomes(session, "done")
    async with stored(dashboard.folder) as db:
        await save_traces(db, [a_trace(session, 500)], epoch=0)
    async with new_tab(browser, dashboard.url, color_scheme=scheme, bypass_csp=True) as tab:
        await tab.open(f"/sessions/{session}#trace")
        await expect(tab.find("[data-trace-spans] tr")).to_have_count(500)
        assert HOSTILE in await tab.find("[data-trace-spans]").inner_text()
        assert await tab.find("[data-trace-spans] img").count() == 0
        took = await tab.page.evaluate(
            "(() => { const began = performance.now(); document.body.offsetHeight;"
            " document.querySelector('[data-trace-scroll]').scrollTop = 5000; document.body.offsetHeight;"
            " return performance.now() - began; })()"
        )
        assert took < 200, took
        await tab.find("[data-trace-scroll]").evaluate("place => { place.scrollTop = 0; }")
        await tab.find("[data-trace-all]").click()
        await expect(tab.find("[data-trace-spans] tr")).to_have_count(501)
        await tab.find("[data-trace-scroll]").evaluate("place => { place.scrollTop = 0; }")
        await tab.page.mouse.move(5, 5)
        if folder := os.environ.get("STEPWELL_SCREENSHOTS"):
            await tab.page.screenshot(path=str(Path(folder) / f"trace-{scheme}.png"))
        assert await barriers(tab) == []
        assert await overhang(tab) <= 0
        await tab.page.set_viewport_size({"width": 390, "height": 844})
        assert await overhang(tab) <= 0
        await tab.healthy()
