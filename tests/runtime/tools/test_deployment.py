"""`tools.toml` and the built-in tools that need a place: files, history, pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runtime.contract import StepFrame, StepOut, WaitForInput
from runtime.errors import SettingError
from runtime.tools.builtin.fetch import fetch_tool
from runtime.tools.builtin.files import file_system_tool
from runtime.tools.builtin.history import search_history_tool
from runtime.tools.calling import call_tool
from runtime.tools.deployment import tool_offer
from runtime.tools.fake import FakeToolbox, ScriptedTool
from runtime.tools.fetch.fake import FakeFetcher, Page
from runtime.tools.fetch.port import FetchRules
from runtime.tools.offer import ToolOffer
from runtime.tools.result import Call, ToolErrorKind, ToolResult
from runtime.tools.scope import AgentType, ToolName
from runtime.tools.tool import Tool
from runtime.tools.toolsfile import ToolsFileError, read_tools
from runtime.tools.workspace.scopes import Workspaces
from store.agent_state import SessionStatus
from store.database import TenantStore
from store.ids import ConversationId, SessionId
from store.messages import post_message
from tests.runtime.kit import moniker, opened, out, workshop
from tests.runtime.tools.kit import backoff, scope
from tests.support import eventually

DB: Any = None  # building tools reads nothing
SEEN = ("clock", "calculator", "search_history", "search_memory", "file_system")


def file(folder: Path, text: str) -> Path:
    path = folder / "tools.toml"
    path.write_text(text)
    return path


def files_in(folder: Path) -> list[Path]:
    return [found for found in folder.rglob("*") if found.is_file()]


def names(offer: ToolOffer, kind: str) -> list[str]:
    return [tool.name for tool in offer.toolbox.of(AgentType(kind))]


def test_without_a_file_every_type_has_the_harmless_tools_and_no_web(tmp_path: Path) -> None:
    offer = tool_offer(DB, None, tmp_path)
    assert names(offer, "anybody") == sorted(SEEN)
    assert "fetch" not in offer.toolbox.tools
    assert not (tmp_path / "workspaces").exists(), "no folder is made before a tool is used"
    assert "file_system" not in tool_offer(DB, None, None).toolbox.tools, "object storage has no folder"


def test_the_file_says_who_may_use_what(tmp_path: Path) -> None:
    text = '[grants]\n"*" = ["clock"]\nresearch = ["fetch"]\n[fetch]\nhosts = ["example.org"]\n'
    offer = tool_offer(DB, file(tmp_path, text), tmp_path)
    assert (names(offer, "research"), names(offer, "other")) == (["clock", "fetch"], ["clock"])
    assert offer.granted_types == {"research"}


def test_tools_of_other_parts_join_and_leave_and_grants_hold_for_them(tmp_path: Path) -> None:
    late = ScriptedTool("late", "done").tool
    offer = tool_offer(DB, file(tmp_path, '[grants]\nm = ["late"]\n[mcp.far]\nurl = "https://x"\n'), tmp_path)
    before = offer.toolbox
    assert names(offer, "m") == []
    offer.join([late])
    assert names(offer, "m") == ["late"]
    assert before.of(AgentType("m")) == (), "a step keeps the toolbox that it began with"
    offer.join([], pins={late.name: "another hash"})
    assert names(offer, "m") == [], "changed since a person looked at it (S48)"
    offer.leave([ToolName("late")])
    assert "late" not in offer.toolbox.tools


def test_what_the_file_says_of_servers_is_handed_on_untouched(tmp_path: Path) -> None:
    text = '[mcp.far]\nurl = "https://x"\ndepth = { a = [1, 2] }\n'
    assert read_tools(file(tmp_path, text)).mcp == {"far": {"url": "https://x", "depth": {"a": [1, 2]}}}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[grants", "not TOML"),
        ('[grants]\nm = ["clok"]', "[grants] m = 'clok': there is no such tool; did you mean 'clock'?"),
        ('[grants]\nm = ["fetch"]', "add a table [fetch] with hosts"),
        ('[grants]\nm = "clock"', "[grants] m = 'clock': should be a valid tuple; make it a list"),
        ("[fetch]\nhost = []", "[fetch] host = []: Extra inputs are not permitted; remove it or correct its name"),
        ('[fetch]\nhosts = ["Example.org"]', "is no host"),
        ('[fetch]\nhosts = ["*"]\nask_when_tainted = false', "needs hosts by name"),
        ('[fetch]\ninternal = ["localhost"]', "write it as 127.0.0.1:8080"),
        ("[workspace]\nfile_bytes = 0", "[workspace] file_bytes = 0"),
        ("[workspace]\nroot = 5", "[workspace] root = 5"),
        ("[tool]", "[tool]"),
    ],
)
def test_a_mistake_is_told_with_file_key_and_cure(tmp_path: Path, text: str, told: str) -> None:
    path = file(tmp_path, text)
    with pytest.raises(ToolsFileError) as refused:
        tool_offer(DB, path, tmp_path)
    assert str(path) in str(refused.value)
    assert told in str(refused.value)


async def test_a_worker_does_not_start_with_a_file_that_is_not_there(tmp_path: Path) -> None:
    async with workshop(tmp_path, start=False, tools=str(tmp_path / "none.toml")) as shop:
        with pytest.raises(SettingError, match="STEPWELL_TOOLS"):
            await shop.start()


async def made(tool: Tool, *, session: str = "s", conversation: str | None = None, **arguments: Any) -> ToolResult:
    """What a tool answers in a session."""
    place = scope(
        session_id=SessionId(session),
        conversation_id=None if conversation is None else ConversationId(conversation),
    )
    call = Call(id="c", name=tool.name, arguments=arguments)
    return await call_tool(FakeToolbox(tool), call, place, backoff())


async def test_files_are_the_sessions_own_or_the_conversations(tmp_path: Path) -> None:
    files = file_system_tool(Workspaces(tmp_path / "made" / "later"))
    assert (await made(files, action="write", path="a/b.md", content="line\n  <x>")).ok
    read = await made(files, action="read", path="a/b.md")
    assert (json.loads(read.content)["text"], read.taint) == ("line\n  <x>", ())
    assert not (await made(files, session="other", action="read", path="a/b.md")).ok
    shared = {"scope": "shared", "conversation": "c1"}
    assert (await made(files, action="write", path="plan.md", content="ours", **shared)).ok
    theirs = await made(files, session="other", action="read", path="plan.md", **shared)
    assert (json.loads(theirs.content)["text"], theirs.taint) == ("ours", ("shared files",))
    assert not (await made(files, action="read", path="plan.md", scope="shared", conversation="c2")).ok
    alone = await made(files, action="list", scope="shared")
    assert (alone.ok, "shares no files" in alone.content) == (False, True)
    assert sorted(path.name for path in (tmp_path / "made" / "later").iterdir()) == ["private", "shared"]


async def test_every_action_on_files_does_what_it_says(tmp_path: Path) -> None:
    files = file_system_tool(Workspaces(tmp_path))

    async def done(**arguments: Any) -> Any:
        result = await made(files, **arguments)
        assert result.ok, result.content
        return json.loads(result.content)

    await done(action="write", path="a.txt", content="one two")
    assert (await done(action="append", path="a.txt", content=" two"))["bytes"] == 11
    assert (await done(action="find_replace", path="a.txt", find="two", replace="2"))["replaced"] == 2
    block = "<<<<<<< SEARCH\none 2 2\n=======\n1 2 2\n>>>>>>> REPLACE"
    assert (await done(action="search_replace_block", path="a.txt", content=block))["replaced"] == 1
    await done(action="mkdir", path="d")
    await done(action="copy", path="a.txt", target="d/b.txt")
    await done(action="move", path="a.txt", target="d/a.txt")
    assert [entry["path"] for entry in (await done(action="tree"))["entries"]] == ["d", "d/a.txt", "d/b.txt"]
    assert (await done(action="exists", path="a.txt"))["kind"] is None
    assert (await done(action="read", path="d/b.txt"))["text"] == "1 2 2"
    await done(action="delete", path="d", recursive=True)
    assert (await done(action="list"))["entries"] == []


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "C:\\x", "a\x00b", "~/.ssh/id"])
async def test_no_path_leads_out(tmp_path: Path, path: str) -> None:
    files = file_system_tool(Workspaces(tmp_path / "work"))
    result = await made(files, action="write", path=path, content="x")
    inside = tmp_path / "work"
    written = files_in(tmp_path)
    assert all(found.is_relative_to(inside / "private") for found in written)
    assert result.ok == bool([found for found in written if found.name == "id"])


def test_which_calls_on_files_are_harmless() -> None:
    tool = file_system_tool(Workspaces(Path("/nowhere")))

    def flags(**arguments: Any) -> tuple[bool, bool]:
        one = tool.for_call(arguments)
        return one.read_only, one.safe_to_repeat

    assert flags(action="read", path="x") == (True, True)
    assert flags(action="write", path="x", content="y") == (False, True)
    assert flags(action="write", path="x", content="y", scope="shared") == (False, False)
    assert flags(action="write", path="x", content="y", overwrite=False) == (False, False)
    assert flags(action="append", path="x", content="y") == (False, False)
    assert tool.for_call({"action": "read"}).schema_hash == tool.schema_hash


async def test_a_page_is_text_from_outside_and_shown_in_parts() -> None:
    text = "".join(f"line {number}. " for number in range(300))
    fetcher = FakeFetcher({"https://example.org/a": Page(text)})
    fetch = fetch_tool(fetcher, FetchRules(hosts=("example.org",)), text_chars=100)
    page = await made(fetch, url="https://example.org/a")
    told = json.loads(page.content)
    assert (told["status"], told["text"], told["next_offset"]) == (200, text[:100], 100)
    assert page.taint == ("web example.org",)
    rest = json.loads((await made(fetch, url="https://example.org/a", offset=len(text) - 10)).content)
    assert (rest["text"], rest["next_offset"]) == (text[-10:], None)
    refused = await made(fetch, url="https://169.254.169.254/latest")
    assert (refused.ok, refused.error, refused.attempts) == (False, ToolErrorKind.FAILED, 1)
    assert fetch.reaches_out
    assert not fetch_tool(fetcher, FetchRules(), gated=False).reaches_out


async def test_history_is_found_in_the_sessions_steps_and_its_conversation(tmp_path: Path) -> None:
    async def step(_: Any, frame: StepFrame) -> StepOut:
        said = [given.text for given in frame.inputs]
        return out(frame, text=f"I heard {said}" if said else "hello", wait=WaitForInput())

    async with workshop(tmp_path, moniker("m", step)) as shop:
        await shop.thread("c")
        await shop.create("m", conversation="c")
        await shop.until(SessionStatus.WAITING)
        await shop.done(await shop.say("the boiler is broken since Monday"))
        await shop.done(await shop.say("what about lunch"))
        await post_message(shop.db, ConversationId("c"), text="The boiler was repaired on Tuesday.")
        await _said_by_another(shop)
        found = await _searched(shop.db, "Boiler MONDAY", conversation="c")
        assert found[0]["where"] == "step 1"
        assert "broken since Monday" in found[0]["text"]
        assert any("repaired on Tuesday" in one["text"] for one in found)
        own = await _searched(shop.db, "lunch")
        assert {one["where"] for one in own} == {"step 2"}
        assert await _searched(shop.db, "nothing of it") == []
        tool = search_history_tool(shop.db)
        result = await made(tool, query="gossip", conversation="c")
        assert result.taint == ("conversation",), "nobody here knows what another session had read"
        assert (await made(tool, query="lunch")).taint == ()


async def _said_by_another(shop: Any) -> None:
    await shop.create("m", "t", conversation="c")
    await shop.until(SessionStatus.WAITING, "t")
    await shop.done(await shop.say("some gossip", "t"))

    async def shown() -> bool:
        return any("gossip" in (message.text or "") for message in await shop.messages("c"))

    await eventually(shown)


async def _searched(db: TenantStore, query: str, conversation: str | None = None) -> list[dict[str, str]]:
    result = await made(search_history_tool(db), query=query, conversation=conversation)
    found: list[dict[str, str]] = json.loads(result.content)
    return found


async def test_history_of_a_session_without_steps_is_empty(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        assert await _searched(store.tenant(), "anything") == []
