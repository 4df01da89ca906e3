"""The search page: found, marked as text, led to, and reached by the keyboard."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from tests.browser.tab import Tab, barriers, new_tab, overhang
from tests.processes import Dashboard
from tests.remote import Api
from tests.support import eventually

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


async def found(api: Api, question: str) -> int:
    """How many results there are now."""
    return len((await api.get(f"/api/search?q={question}"))["items"])


async def test_a_step_is_searched_for_and_opened(tab: Tab, api: Api) -> None:
    words = "A zanzibar <b>quince</b> & <script>window.hit = 1</script> grew."
    session_id = await api.start("echo", config={"text": words, "steps": 1})
    await api.becomes(session_id, "done")

    async def there() -> bool:
        return await found(api, "zanzibar") > 0

    await eventually(there)
    await tab.open("/sessions")
    await tab.page.keyboard.press("/")
    box = tab.find("[data-search]")
    await expect(box).to_be_visible()
    await tab.is_live()
    await tab.page.keyboard.press("/")
    await expect(box).to_be_focused()
    await tab.page.keyboard.type("ZANZIBAR quince")
    await tab.page.keyboard.press("Enter")
    await expect(tab.find(".hit mark").first).to_have_text("zanzibar")
    await expect(tab.find(".hit .snippet").first).to_contain_text("<b>quince</b> & <script>window.hit = 1</script>")
    assert await tab.page.evaluate("window.hit") is None
    assert "q=ZANZIBAR+quince" in tab.page.url
    await tab.is_live()
    await tab.find(".hit a.name").first.click()
    await expect(tab.find("[data-pill]")).to_be_visible()
    assert session_id in tab.page.url


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_it_has_no_barrier_and_fits_a_phone(browser: Browser, dashboard: Dashboard, api: Api, theme: str) -> None:
    session_id = await api.start("echo", config={"text": "quagga " + "longword" * 40, "steps": 1})
    await api.becomes(session_id, "done")

    async def there() -> bool:
        return await found(api, "quagga") > 0

    await eventually(there)
    options = {"bypass_csp": True, "color_scheme": theme, "reduced_motion": "reduce"}
    async with new_tab(browser, dashboard.url, viewport={"width": 390, "height": 844}, **options) as tab:
        for path in ("/search", "/search?q=quagga", "/search?q=nothingatall&kind=memories"):
            await tab.open(path)
            assert await overhang(tab) == 0
            assert await barriers(tab) == []
