"""Fork from here: from an opened step to a session of its own."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from tests.browser.tab import Tab
from tests.remote import Api

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


async def test_a_session_is_forked_from_a_step_that_is_read(tab: Tab, api: Api) -> None:
    session_id = await api.start("echo", task="hello", config={"steps": 4})
    await tab.open(f"/sessions/{session_id}")
    await tab.is_live()
    await tab.has_steps(4)
    row = tab.find('[data-iteration="1"]')
    await row.locator(".step-row").click()
    await row.get_by_role("button", name="Fork from here").click()
    await tab.page.wait_for_url(re.compile(rf"/sessions/(?!{session_id})[^/?]+$"))
    await tab.is_live()
    await tab.has_steps(3)
    await expect(tab.find(".facts")).to_contain_text("Forked from")
    fork_id = tab.page.url.rsplit("/", 1)[-1]
    steps, source = await api.steps(fork_id), await api.steps(session_id)
    assert steps[0]["state"] == source[1]["state"]
    await tab.find(".facts a[href*='#step-1']").click()
    await tab.page.wait_for_url(re.compile(rf"/sessions/{session_id}#step-1$"))
    await expect(tab.find('[data-iteration="1"] .detail')).to_contain_text("Step 1")
