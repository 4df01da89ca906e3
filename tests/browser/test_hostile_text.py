"""Whatever strangers and models write is shown as they wrote it, on every page that shows it."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from tests.browser.tab import Tab
from tests.remote import Api

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

TEXTS = {
    "script": "<script>alert('script')</script>",
    "closing": "</script><script>alert('closing')</script>",
    "image": '<img src=x onerror="alert(1)">',
    "drawing": "<svg onload=alert(2)><script>alert(3)</script></svg>",
    "link": "[go](javascript:alert(4)) javascript:alert(5)",
    "template": "{{7*7}} {% print(7*7) %} ${7*7} #{7*7}",
    "attribute": "\" onmouseover=alert(6) autofocus onfocus=alert(7) x='",
    "entity": "&lt;b&gt; &#60;script&#62;alert(8) \u202e\u2028<!--",
}
# An id has no slashes.
NAMES = {name: text.replace("/", "").replace("\u202e", "").replace("\u2028", "") for name, text in TEXTS.items()}


@pytest.mark.parametrize("kind", TEXTS)
async def test_a_text_is_shown_as_it_is(tab: Tab, api: Api, kind: str) -> None:
    text, name = TEXTS[kind], NAMES[kind]
    opened = {"title": text, "tags": [text], "created_by": name, "conversation_id": f"thread {name}"}
    await api.post("/api/conversations", opened, expect=201)
    thread = f"/conversations/{_quoted(f'thread {name}')}"
    session_id = await api.start(
        "echo",
        task=text,
        config={"text": text, "wait_for_input": True},
        agent_id=name,
        session_id=f"session {name}",
        conversation_id=f"thread {name}",
    )
    path = f"/sessions/{_quoted(session_id)}"
    await api.becomes(_quoted(session_id), "waiting")

    await tab.open(path)
    await expect(tab.find(".task")).to_contain_text(text)
    await expect(tab.find("[data-agent]")).to_have_text(name)
    await expect(tab.find("#step-0 .line")).to_have_text(text.strip())
    await tab.find("#say").fill(text)
    await tab.find('[data-control="input"]').click()
    await tab.has_steps(2)
    await tab.find("#say").fill(text)
    await tab.find('[data-control="interrupt"]').click()
    await expect(tab.find("#say")).to_have_value("")
    row = tab.find("#step-1")
    await row.locator(".step-row").click()
    await expect(row.locator(".detail p.text")).to_have_text(text.strip())

    await tab.open(thread)
    await expect(tab.find("h1")).to_have_text(text.strip())
    assert text in await tab.page.title()
    await expect(tab.find("main .tag")).to_have_text(text.strip())
    await tab.find("#post").fill(text)
    await tab.find("[data-post]").click()
    await expect(tab.find(".message.from-user .text")).to_have_text(text.strip())
    await expect(tab.find(".message.pending")).to_have_count(0)
    await expect(tab.find(".message.from-agent .text").first).to_have_text(text.strip())

    for page, selector in {"/sessions": ".line", "/conversations": ".name"}.items():
        await tab.open(page)
        await expect(tab.find(f"[data-rows] {selector}", has_text=text.strip()).first).to_be_visible()
    await tab.open("/queue")
    row = tab.find("[data-rows] > li", has=tab.find(".kind", has_text="agent_create")).first
    await row.locator(".kind").click()
    await expect(row.locator(".detail pre").first).to_be_visible()
    await api.post(f"/api{path}/destroy")


def _quoted(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


async def test_the_forms_take_any_text(tab: Tab, api: Api) -> None:
    text = TEXTS["closing"]
    await tab.open("/sessions")
    await tab.find("[data-start]").first.click()
    await tab.find('input[name="moniker"][value="echo"]').check()
    await tab.find('textarea[name="task"]').fill(text)
    await tab.find(".more-fields summary").click()
    await tab.find('input[name="agent_id"]').fill("a/b")
    await tab.find("[data-start-sheet] [data-submit]").click()
    await expect(tab.find('[data-field="agent_id"] .field-error')).not_to_be_empty()
    tab.complaints.clear()  # the browser reports the refusal
    await tab.find('input[name="agent_id"]').fill(NAMES["image"])
    await tab.find("[data-start-sheet] [data-submit]").click()
    await tab.page.wait_for_url(re.compile(r"/sessions/[^/?]+$"))
    await tab.session_is("done")
    await expect(tab.find("#step-0 .line")).to_have_text(text)
    await expect(tab.find("[data-agent]")).to_have_text(NAMES["image"])


async def test_an_error_shows_the_text_that_caused_it(tab: Tab, api: Api) -> None:
    text = NAMES["drawing"]
    session_id = await api.start("summarize", config={"path": text})
    await tab.open(f"/sessions/{session_id}")
    await tab.session_is("error")
    await expect(tab.find("[data-error-line]")).to_contain_text("<svg onload=alert(2)>")
    await tab.open("/sessions?status=failed")
    await expect(tab.find("[data-rows] .line").first).to_contain_text("<svg onload=alert(2)>")
