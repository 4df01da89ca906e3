"""Memories as a person sees them: found, looked at, and deleted after a question; their words are never markup."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from store.clock import SystemClock
from store.ids import SessionId
from store.memories import Memory, MemoryKind, Wanted, delete_memories, list_memories, memories_of, memory_id_of
from tests.browser.tab import Tab, barriers, new_tab, overhang
from tests.processes import Dashboard, stored
from tests.remote import Api
from tests.store.rows import a_memory
from tests.support import eventually

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

NASTY = '<img src=x onerror="window.hit = 1"> <script>window.hit = 1</script> {{7*7}}'
LONG = "Averylongwordwithoutanyblank" * 8
ROWS = "[data-rows] > li"


async def keep(dashboard: Dashboard, *memories: Memory) -> None:
    """Have agents remember this."""
    async with stored(dashboard.folder) as db:
        await memories_of(db).insert_missing(memories)


@pytest_asyncio.fixture(loop_scope="session")
async def kept(dashboard: Dashboard, api: Api) -> AsyncIterator[str]:
    """A session that ended, and what it remembered: a hostile fact, a long one, and a term; the session's id."""
    session = await api.start("echo", config={"text": "I keep things.", "steps": 2})
    await api.becomes(session, "done")
    hostile = {"session_id": session, "user_id": "mia", "subject": "heron", "source": f"{LONG}.md", "author": "echo"}
    await keep(
        dashboard,
        a_memory(
            memory_id_of(SessionId(session), 1, "x"), f"The heron said {NASTY}", taint=[NASTY, f"{LONG}.md"], **hostile
        ),
        a_memory("long", f"A long tale. {'More of it. ' * 200} The end.", user_id="mia", session_id=session),
        a_memory("term", LONG, kind=MemoryKind.TERM, agent_id="a" * 90, conversation_id="c" * 90, session_id=session),
    )
    yield session
    async with stored(dashboard.folder) as db:
        left = (await list_memories(db, Wanted(None), limit=1000)).items
        await delete_memories(db, ids=[memory.memory_id for memory in left])


async def _went_to_memories(tab: Tab) -> bool:
    """Two keys that belong together only when a busy machine lets one follow the other quickly enough."""
    if not tab.page.url.endswith("/memories"):
        await tab.page.keyboard.press("g")
        await tab.page.keyboard.press("m")
    return tab.page.url.endswith("/memories")


async def test_they_are_found_and_lead_to_where_they_were_kept(tab: Tab, kept: str) -> None:
    await tab.open("/sessions")
    await eventually(lambda: _went_to_memories(tab), 30, 1.0)
    await tab.is_live()
    await expect(tab.find(ROWS)).to_have_count(3)
    row = tab.find(ROWS, has_text="The heron said")
    await expect(row.locator("[data-text]")).to_have_text(f"The heron said {NASTY}")
    await expect(row.locator(".tainted")).to_contain_text("<script>")
    await expect(row).to_contain_text("user mia")
    await expect(tab.find(ROWS, has_text="A long tale")).to_contain_text("clean")
    assert await tab.page.evaluate("window.hit") is None

    tale = tab.find(ROWS, has_text="A long tale")
    await expect(tale.locator("[data-text]")).not_to_contain_text("The end.")
    await tale.locator("[data-whole]").click()
    await expect(tale.locator("[data-text]")).to_contain_text("The end.")

    await tab.find("#m-q").fill("HERON")
    await tab.find("#m-user_id").fill("mia")
    await tab.page.keyboard.press("Enter")
    await expect(tab.find(ROWS)).to_have_count(1)
    assert "q=HERON" in tab.page.url
    await expect(tab.find("[data-forget-all]")).to_have_count(0)  # words are no scope
    await tab.is_live()
    await tab.find(f"{ROWS} a.name").click()
    await expect(tab.find("[data-pill]")).to_be_visible()
    assert tab.page.url.endswith(f"/sessions/{kept}#step-1")

    await tab.open("/memories?kind=term")
    await expect(tab.find(ROWS)).to_have_count(1)
    await tab.page.keyboard.press("Control+k")
    await tab.page.keyboard.type("memor")
    await expect(tab.find("dialog.palette [role=option]").first).to_contain_text("Memories")


async def test_one_is_deleted_after_a_question(tab: Tab, kept: str, api: Api) -> None:
    await tab.open("/memories")
    row = tab.find(ROWS, has_text="The heron said")
    await row.get_by_role("button", name="Delete this fact").click()
    dialog = tab.find("[data-forget-dialog]")
    await expect(dialog.locator("[data-what]")).to_have_text(f"The heron said {NASTY}")
    await expect(dialog.locator("[data-keep]")).to_be_focused()
    await tab.page.keyboard.press("Enter")  # a stray one keeps it
    await expect(dialog).to_be_hidden()
    await expect(row).to_be_visible()
    assert len((await api.get("/api/memories"))["items"]) == 3

    await row.locator("[data-forget]").click()
    await dialog.locator("[data-submit]").click()
    await expect(row).to_have_count(0)
    await expect(dialog).to_be_hidden()
    await expect(tab.find("[data-say]")).to_have_text("Deleted")
    assert {one["memory_id"] for one in (await api.get("/api/memories"))["items"]} == {"long", "term"}
    await tab.page.reload()
    await tab.is_live()
    await expect(tab.find(ROWS)).to_have_count(2)


async def test_all_of_a_user_are_deleted_after_a_question(tab: Tab, kept: str, api: Api, dashboard: Dashboard) -> None:
    await tab.open("/memories?user_id=mia")
    await expect(tab.find(ROWS)).to_have_count(2)
    await tab.find("[data-forget-all]").click()
    dialog = tab.find("[data-forget-dialog]")
    await expect(dialog).to_contain_text("Every memory of user mia")
    await keep(dashboard, a_memory("late", "It came while somebody asked.", user_id="mia"))
    await dialog.locator("[data-submit]").click()
    await expect(tab.find("[data-empty]")).to_be_visible()
    await expect(tab.find("[data-say]")).to_have_text("3 deleted")
    await expect(tab.find("[data-forget-all]")).to_have_count(0)
    assert [one["memory_id"] for one in (await api.get("/api/memories"))["items"]] == ["term"]


async def test_the_page_follows_what_is_kept_and_deleted_elsewhere(
    tab: Tab, kept: str, api: Api, dashboard: Dashboard
) -> None:
    await tab.open("/memories")
    await tab.page.mouse.move(0, 0)
    await keep(dashboard, a_memory("new", "Freshly kept.", created_at=SystemClock().now()))
    async with stored(dashboard.folder) as db:
        await delete_memories(db, ids=["term"])
    await api.start("echo", config={"text": "Something happens.", "steps": 1})
    await expect(tab.find(ROWS).first).to_contain_text("Freshly kept.")
    await expect(tab.find('[data-memory-id="term"]')).to_have_count(0)

    await tab.find(ROWS).first.hover()  # nothing moves under the pointer
    await keep(dashboard, a_memory("newer", "Kept later.", created_at=SystemClock().now()))
    await api.start("echo", config={"text": "Something happens.", "steps": 1})
    await expect(tab.find("[data-new]")).to_have_text("1 new ↑")
    await expect(tab.find(ROWS).first).to_contain_text("Freshly kept.")
    await tab.find("[data-new]").click()
    await expect(tab.find(ROWS).first).to_contain_text("Kept later.")
    async with stored(dashboard.folder) as db:
        await delete_memories(db, ids=["newer"])
    await tab.find(ROWS).first.locator("[data-forget]").click()
    await tab.find("[data-forget-dialog] [data-submit]").click()
    await expect(tab.find('[data-memory-id="newer"]')).to_have_count(0)  # somebody else was first
    tab.forgive("404")


async def test_older_ones_are_shown_when_asked_for(tab: Tab, kept: str, dashboard: Dashboard) -> None:
    await keep(dashboard, *(a_memory(f"many{n:02}", f"One of many, {n}.", agent_id="many") for n in range(70)))
    await tab.open("/memories?agent_id=many")
    await expect(tab.find(ROWS)).to_have_count(50)
    await tab.find("[data-more]").click()
    await expect(tab.find(ROWS)).to_have_count(70)
    await expect(tab.find("[data-more]")).to_have_count(0)
    await tab.find(ROWS).last.locator("[data-forget]").click()
    await tab.find("[data-forget-dialog] [data-submit]").click()
    await expect(tab.find(ROWS)).to_have_count(69)


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_it_has_no_barrier_and_fits_a_phone(
    browser: Browser, dashboard: Dashboard, kept: str, theme: str
) -> None:
    found: dict[str, list[str]] = {}
    phone = {"viewport": {"width": 390, "height": 844}}
    options = {"bypass_csp": True, "color_scheme": theme, "reduced_motion": "reduce"}
    for size, more in {"wide": {}, "phone": phone}.items():
        async with new_tab(browser, dashboard.url, **options, **more) as tab:
            for path in ("/memories", "/memories?user_id=mia", "/memories?q=nothing", f"/memories?subject={LONG}"):
                await tab.open(path)
                found[f"{path}, {size}"] = await barriers(tab)
                assert await overhang(tab) == 0, (path, size)
            await tab.open("/memories?user_id=mia")
            await tab.find("[data-forget]").first.click()
            await expect(tab.find("[data-forget-dialog]")).to_be_visible()
            found[f"question, {size}"] = await barriers(tab)
            assert await overhang(tab) == 0, size
    assert not {name: rules for name, rules in found.items() if rules}


async def test_it_is_there_before_its_script(browser: Browser, dashboard: Dashboard, kept: str) -> None:
    async with new_tab(browser, dashboard.url, java_script_enabled=False) as tab:
        await tab.page.goto(f"{dashboard.url}/memories?user_id=mia")
        await expect(tab.find(ROWS)).to_have_count(2)
