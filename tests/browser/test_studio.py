"""The studio as an author uses it: mistakes while typing, the prompt on a live board, a try, a version, its use."""

from __future__ import annotations

import json
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, expect

from tests.browser.tab import Tab, barriers, new_tab, overhang
from tests.processes import Dashboard
from tests.remote import Api
from tests.support import eventually

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

NASTY = "<img src=x onerror=alert(1)> <b>bold</b> {{ 7*7 }} </textarea></script>"
COACH: dict[str, Any] = {
    "id": "coach",
    "name": "Coach",
    "text": "Report the event `price_asked`.\nThe seller is advised.",
    "output_format": "default",
}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def call(api: Api) -> str:
    """A copilot session in which a customer has asked something."""
    made = await api.post("/api/copilot/sessions", {"agent_set": "negotiation", "title": "Call with Bo"})
    said = {"text": "What does it cost per month?", "speaker": "CUSTOMER"}
    await api.post(f"/api/conversations/{made['conversation_id']}/messages", said)
    session = str(made["session_id"])
    await eventually(lambda: has_steps(api, session, 2), 60, 0.05)
    return session


async def has_steps(api: Api, session: str, count: int) -> bool:
    return len((await api.get(f"/api/agent-steps?session_id={session}&limit=100"))["items"]) >= count


async def saved(api: Api, agent_id: str, based_on: int = 0, **changes: Any) -> Any:
    """A version that somebody else has saved."""
    definition = {**COACH, "id": agent_id, **changes}
    body = {"agent_set": "negotiation", "definition": definition, "based_on": based_on, "saved_by": "bo"}
    return await api.post(f"/api/copilot/agents/{agent_id}/versions", {**body, "note": f"on {based_on}"}, 201)


def address(agent_id: str, session: str = "") -> str:
    return f"/copilot/studio?agent_set=negotiation&agent_id={agent_id}&session_id={session}"


def editor(tab: Tab) -> Locator:
    return tab.find("[data-editor]")


async def definition_in(tab: Tab) -> Any:
    return json.loads(await editor(tab).input_value())


async def type_definition(tab: Tab, **changes: Any) -> None:
    """Write some fields anew."""
    await editor(tab).fill(json.dumps({**await definition_in(tab), **changes}, indent=2))


async def selected_line(tab: Tab, selector: str) -> str:
    """What is marked in an editor."""
    area = "const a = document.querySelector(selector); return a.value.slice(a.selectionStart, a.selectionEnd)"
    return str(await tab.page.evaluate(f"(selector) => {{ {area} }}", selector))


async def verdict(tab: Tab, words: str) -> None:
    await expect(tab.find("[data-verdict]")).to_have_text(words)


async def test_an_agent_is_written_tried_saved_and_used(tab: Tab, api: Api, call: str) -> None:
    await saved(api, "story")
    await tab.open(address("story", call))
    await expect(tab.find("#session")).to_have_value(call)
    await verdict(tab, "No mistakes")
    await expect(tab.find("[data-prompt]")).to_contain_text("CUSTOMER: What does it cost per month?")
    await expect(tab.find("[data-prompt-line]")).to_contain_text("characters on the board of the session")
    await expect(tab.find("[data-submit]")).to_be_disabled()

    # When it is written wrong, each mistake leads to its line
    await type_definition(tab, trigger_config={"mode": "sometimes"}, prioirty=3)
    await verdict(tab, "2 mistakes")
    await expect(tab.find("[data-submit]")).to_be_disabled()
    await expect(tab.find("[data-dry]")).to_be_disabled()
    await tab.find("[data-mistakes]").get_by_role("button", name="trigger_config.mode").click()
    assert await selected_line(tab, "[data-editor]") == '    "mode": "sometimes"'
    await expect(tab.find(".gutter .wrong")).to_have_count(2)
    await editor(tab).fill('{\n  "id": "story",\n  "name" "x"\n}')
    await verdict(tab, "This is not JSON yet")
    await expect(tab.find("[data-mistakes]")).to_contain_text("line 3 a colon is due")

    # What can run and is hardly meant is said, and keeps nobody from saving
    deaf = {**COACH, "id": "story", "trigger_config": {"mode": "keyword"}}
    await editor(tab).fill(json.dumps(deaf, indent=2))
    await verdict(tab, "No mistakes, 1 warning")
    await expect(tab.find("[data-mistakes]")).to_contain_text("has the mode keyword and no keywords")
    await expect(tab.find("[data-submit]")).to_be_enabled()

    # When it is right again, it is tried on a copy of the session
    await editor(tab).fill(json.dumps({**COACH, "id": "story"}, indent=2))
    await type_definition(tab, text="Report the event `price_asked`. Push it to the queue `asked`.")
    await verdict(tab, "No mistakes")
    await tab.find("#tab-dry").click()
    await tab.find("[data-dry]").click()
    await expect(tab.find(".dry-outcome")).to_contain_text("Ran in")
    await expect(tab.find(".dry-outcome")).to_contain_text("tokens in")
    result = tab.find("[data-dry-result]")
    await expect(result.locator(".dry-insight .said")).to_contain_text("[offline model]")
    await expect(result).to_contain_text("price_asked")
    await expect(result.get_by_label("Queues")).to_contain_text('"asked"')
    await expect(result.get_by_label("What the model answered")).to_contain_text('"has_insight": true')
    await result.get_by_text("What the model was asked").click()
    await expect(result.get_by_label("Transcript, data")).to_contain_text("What does it cost per month?")
    steps = (await api.get(f"/api/agent-steps?session_id={call}&limit=100"))["items"]
    assert all(step["data"]["trigger"] != "force" for step in steps if step["data"]), "the session heard of it"

    # When it is saved, the session can use it
    await tab.find("[data-name]").fill("ann")
    await tab.find("#note").fill("a queue")
    await tab.find("[data-submit]").click()
    await expect(tab.find("[data-version] option:checked")).to_have_text("Version 2 by ann: a queue")
    await expect(tab.find("[data-unsaved]")).to_be_hidden()
    await expect(tab.find('[data-agent="negotiation/story"] .tag')).to_have_text("v2")
    await tab.find("[data-use]").click()
    await expect(tab.find(".running")).to_contain_text("uses version 2 from its next turn on")

    async def uses_it() -> bool:
        agents = ((await api.session(call))["context"].get("agents") or {}).get("story", {})
        return "asked" in agents.get("text", "")

    await eventually(uses_it, 60, 0.05)
    await tab.open(address("story", call))
    await expect(tab.find(".running")).to_have_text("“Call with Bo” uses version 2.")


async def test_who_was_first_is_shown_and_nothing_typed_is_lost(tab: Tab, api: Api) -> None:
    await saved(api, "raced")
    await tab.open(address("raced"))
    await type_definition(tab, priority=7)
    await verdict(tab, "No mistakes")
    await saved(api, "raced", 1, name="Theirs")
    await tab.find("[data-submit]").click()
    conflict = tab.find("[data-conflict]")
    await expect(conflict).to_contain_text("Version 2 was saved meanwhile by bo: on 1")
    await expect(conflict.locator("ins")).to_contain_text('"name": "Theirs"')
    assert (await definition_in(tab))["priority"] == 7
    await conflict.get_by_role("button", name="Load version 2").click()
    assert (await definition_in(tab))["name"] == "Theirs"
    await conflict.get_by_role("button", name="Put mine back").click()
    assert (await definition_in(tab))["priority"] == 7
    await conflict.get_by_role("button", name="Keep mine: save it as version 3").click()
    await expect(tab.find("[data-submit]")).to_be_enabled()
    await tab.find("[data-submit]").click()
    await expect(tab.find("[data-version]")).to_have_value("3")
    versions = (await api.get("/api/copilot/agents/raced/versions?agent_set=negotiation"))["items"]
    assert [(one["version"], one["definition"].get("priority")) for one in versions] == [(3, 7), (2, None), (1, None)]
    tab.forgive("409")


async def test_unsaved_work_survives_a_reload_and_another_agent(tab: Tab, api: Api) -> None:
    await saved(api, "kept")
    await tab.open(address("kept"))
    await type_definition(tab, priority=5)
    await expect(tab.find("[data-unsaved]")).to_be_visible()
    await tab.page.reload()
    await tab.shows("[data-restored]:not([hidden])", "Your unsaved work is back.")
    assert (await definition_in(tab))["priority"] == 5
    await tab.open("/copilot/studio?agent_set=negotiation")
    await expect(tab.find('[data-agent="negotiation/kept"] [data-draft]')).to_be_visible()
    await tab.find('[data-agent="negotiation/kept"]').click()
    await tab.is_live()
    await expect(tab.find("[data-restored]")).to_be_visible()
    await tab.find("[data-discard]").click()
    assert "priority" not in await definition_in(tab)
    await tab.page.reload()
    await tab.is_live()
    await expect(tab.find("[data-restored]")).to_be_hidden()


async def test_an_older_version_is_looked_at_and_saved_again(tab: Tab, api: Api) -> None:
    await saved(api, "older", name="First")
    await saved(api, "older", 1, name="Second")
    await tab.open(address("older"))
    await type_definition(tab, priority=9)
    await tab.find("[data-version]").select_option("1")
    assert (await definition_in(tab))["name"] == "First"
    await tab.find("[data-restored]").get_by_role("button", name="Put it back").click()
    assert (await definition_in(tab))["priority"] == 9
    await tab.find("[data-version]").select_option("2")
    await tab.find("[data-version]").select_option("1")
    await verdict(tab, "No mistakes")
    await tab.find("[data-submit]").click()
    await expect(tab.find("[data-version]")).to_have_value("3")
    versions = (await api.get("/api/copilot/agents/older/versions?agent_set=negotiation"))["items"]
    assert [one["definition"]["name"] for one in versions] == ["First", "Second", "First"]


async def test_the_prompt_text_is_edited_on_its_own(tab: Tab, api: Api) -> None:
    await saved(api, "prose")
    await tab.open(address("prose"))
    await tab.find("#tab-json").focus()
    await tab.page.keyboard.press("ArrowRight")
    await expect(tab.find("#tab-text")).to_be_focused()
    prose = tab.find("[data-prose]")
    await expect(prose).to_have_value(COACH["text"])
    await prose.fill("One.\n{% if %}\nThree.")
    await verdict(tab, "1 mistake")
    await expect(tab.find("[data-mistakes]")).to_contain_text("prompt, line 2")
    await tab.find("#tab-json").click()
    assert (await definition_in(tab))["text"] == "One.\n{% if %}\nThree."
    await tab.find("[data-mistakes] button").click()
    await expect(prose).to_be_focused()
    assert await selected_line(tab, "[data-prose]") == "{% if %}"
    await prose.fill("One.\n{{ 6 * 7 }}")
    await expect(tab.find("[data-prompt]")).to_contain_text("42")
    await tab.page.keyboard.press("Control+s")
    await expect(tab.find("[data-version]")).to_have_value("2")


async def test_a_mistake_of_several_versions_is_shown_where_it_stands(tab: Tab, api: Api) -> None:
    await saved(api, "shared")
    await tab.open(address("shared"))
    versions = [{"version": "short"}, {"version": "long", "output_format": "nope"}]
    await type_definition(tab, trigger_config={"mode": "sometimes"}, versions=versions)
    await verdict(tab, "3 mistakes")
    mistakes = tab.find("[data-mistakes]")
    await mistakes.get_by_role("button", name="versions.1.trigger_config.mode").click()
    assert await selected_line(tab, "[data-editor]") == '    "mode": "sometimes"'
    await mistakes.get_by_role("button", name="versions.1.output_format").click()
    assert await selected_line(tab, "[data-editor]") == '      "output_format": "nope"'


async def test_a_new_agent_is_made_from_the_studio(tab: Tab, api: Api) -> None:
    await tab.open("/copilot/studio?agent_set=negotiation")
    shipped = await editor(tab).input_value()
    await tab.find("[data-another]").click()
    await expect(tab.find("[data-submit]")).to_have_text("Save as new agent my_agent")
    await type_definition(tab, id="brand_new", name="Brand new")
    await expect(tab.find("[data-id]")).to_have_text("brand_new (new)")
    await expect(tab.find("[data-submit]")).to_be_enabled()
    await tab.find("[data-submit]").click()
    await tab.page.wait_for_url("**agent_id=brand_new**")
    await tab.is_live()
    await expect(tab.find("#agent-name")).to_have_text("Brand new")
    await tab.open("/copilot/studio?agent_set=negotiation")
    assert await editor(tab).input_value() == shipped, "the agent that it began from is as it was"
    await expect(tab.find("[data-unsaved]")).to_be_hidden()


async def test_hostile_words_are_words(tab: Tab, api: Api, call: str) -> None:
    hostile = await api.post("/api/copilot/sessions", {"agent_set": "negotiation", "title": NASTY})
    said = {"text": NASTY, "speaker": "EVE"}
    await api.post(f"/api/conversations/{hostile['conversation_id']}/messages", said)
    session = str(hostile["session_id"])
    await eventually(lambda: has_steps(api, session, 2), 60, 0.05)
    text = "Report the event `price_asked`. " + NASTY
    await saved(api, "nasty", name=NASTY, text=text)
    await tab.open(address("nasty", session))
    assert (await definition_in(tab))["name"] == NASTY
    await expect(tab.find("#agent-name")).to_have_text(NASTY)
    await expect(tab.find("[data-prompt]")).to_contain_text(f"EVE: {NASTY}")
    await expect(tab.find("#session option:checked")).to_contain_text(NASTY)
    await tab.find("#tab-dry").click()
    await tab.find("[data-dry]").click()
    await expect(tab.find(".dry-outcome")).to_contain_text("Ran in")
    await type_definition(tab, output_format=NASTY)
    await expect(tab.find("[data-mistakes]")).to_contain_text("<img src=x")
    await expect(tab.find("main img, main b")).to_have_count(0)


async def test_an_address_that_names_nothing(tab: Tab) -> None:
    await tab.open(address("nobody"))
    await expect(tab.find("main")).to_contain_text("There is no agent nobody in the set negotiation.")
    tab.forgive("404")
    await tab.open("/copilot/studio?session_id=nowhere")
    await expect(tab.find(".studio-sets")).to_contain_text("There is no copilot session nowhere that has begun.")
    await expect(tab.find("[data-dry]")).to_be_disabled()


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_the_page_has_no_barrier_and_fits_a_phone(
    browser: Browser, dashboard: Dashboard, api: Api, call: str, theme: str
) -> None:
    long = "Averylongwordwithoutanyblank" * 8
    agent = f"long_{theme}"
    await saved(api, agent, name=long[:200], text=f"Report the event `price_asked`. {long}")
    found: dict[str, list[str]] = {}
    options = {"bypass_csp": True, "color_scheme": theme, "reduced_motion": "reduce"}
    for size, more in {"wide": {}, "phone": {"viewport": {"width": 390, "height": 844}}}.items():
        async with new_tab(browser, dashboard.url, **options, **more) as tab:
            await tab.open(address(agent, call))
            await expect(tab.find("[data-prompt] pre").first).to_be_visible()
            found[f"{size}, prompt"] = await barriers(tab)
            assert await overhang(tab) == 0, size
            await tab.find("#tab-dry").click()
            await tab.find("[data-dry]").click()
            await expect(tab.find(".dry-outcome")).to_contain_text("Ran in")
            await tab.find(".asked summary").click()
            await type_definition(tab, prioirty=1, output_format=long)
            await verdict(tab, "2 mistakes")
            found[f"{size}, tried"] = await barriers(tab)
            assert await overhang(tab) == 0, size
            await tab.find("#tab-text").click()
            found[f"{size}, text"] = await barriers(tab)
    assert not {size: rules for size, rules in found.items() if rules}


VALID = [
    "0",
    "-1.5e+3",
    '"a\\u00e9\\n\\"b"',
    "[]",
    "{}",
    ' {"a": [1, {"b": null}], "a": true, "__proto__": {"x": 1}, "": false} ',
    "[[[[1]]]]",
    '"\\ud83d\\ude00"',
]
INVALID = [
    "",
    "{",
    "[1,]",
    '{"a" 1}',
    "{a: 1}",
    "01",
    "1.",
    "+1",
    "'a'",
    '"a\nb"',
    '"\\x"',
    "nul",
    "[1] 2",
    '{"a":1,}',
    "//",
]


async def test_the_reader_of_json_agrees_with_the_browsers_own(tab: Tab) -> None:
    await tab.open("/copilot/studio")
    script = """async ([valid, invalid]) => {
      const { readJson, placeOf, lineAt } = await import("/static/js/jsonplaces.js");
      const wrong = valid.filter((text) => JSON.stringify(readJson(text).value) !== JSON.stringify(JSON.parse(text)));
      for (const text of invalid) {
        let parses = true;
        try { readJson(text); } catch (mistake) { parses = typeof mistake.offset !== "number"; }
        if (parses) wrong.push(text);
      }
      const text = '{\\n  "a": {\\n    "b": [1,\\n 2]\\n  }\\n}';
      const { places } = readJson(text);
      return [wrong, ["a", "a.b", "a.b.1", "a.b.9", "a.x", "y"].map((field) => lineAt(text, placeOf(places, field)))];
    }"""
    assert await tab.page.evaluate(script, [VALID, INVALID]) == [[], [2, 3, 4, 3, 2, 1]]
