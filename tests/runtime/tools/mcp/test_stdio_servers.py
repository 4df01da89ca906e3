"""Servers that are child processes: kind, careless and hostile ones."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from runtime.tools.result import ToolErrorKind
from store.database import TenantStore
from tests.runtime.tools.kit import WORKER
from tests.runtime.tools.mcp.kit import REAL, lives, running, stdio_table
from tests.support import eventually

pytestmark = pytest.mark.process


async def test_a_tool_of_a_server_is_called_like_ours(db: TenantStore) -> None:
    async with running(db, {"fake": stdio_table("greets")}) as it:
        await it.offered("fake_echo")
        answer = await it.call(text="ab", times=2)
        assert (answer.ok, answer.content) == (True, "abab")
        wrong = await it.call(times=0)
        assert wrong.error is ToolErrorKind.BAD_ARGUMENTS
        assert "text" in wrong.content
        assert "minimum" in wrong.content
        tool = it.toolbox().tools["fake_echo"]  # type: ignore[index]
        assert (tool.foreign, tool.read_only, tool.idempotent) == (True, False, False)


async def test_a_call_that_fails_at_the_server_is_an_error_for_the_model(db: TenantStore) -> None:
    async with running(db, {"fake": stdio_table("legacy")}) as it:
        await it.offered("fake_echo")
        failed = await it.call(text="fail")
        assert (failed.error, failed.content) == (ToolErrorKind.FAILED, "the disk is full.")
        odd = await it.call(text="no result")
        assert odd.error is ToolErrorKind.FAILED
        assert "no result of a tool; nobody knows how much" in odd.content
        parts = await it.call(text="parts")
        assert parts.content.split("\n") == [
            "one",
            "[an image (image/png) is left out]",
            "[a sound (audio/wav) is left out]",
            "two",
            "[a file (application/zip) is left out]",
            "[a link: https://example.org/c]",
            '{"n": 1}',
        ]
    async with running(db, {"fake": stdio_table("protocol_error")}) as it:
        await it.up()
        failed = await it.call(text="x")
        assert "my database is gone (-32603)" in failed.content
        assert "nobody knows" in failed.content


async def test_only_the_named_variables_reach_a_server(db: TenantStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """S42: not the model's key, not HOME or PATH: nothing that was not named."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    table = stdio_table("legacy", env=["GIVEN"])
    async with running(db, {"fake": table}, {"GIVEN": "this", "OTHER": "canary"}) as it:
        await it.offered("fake_echo")
        seen = json.loads((await it.call(text="env")).content)
        assert {name: value for name, value in seen.items() if name != "LC_CTYPE"} == {"GIVEN": "this"}


async def test_a_server_that_cannot_start_says_why_and_starts_nothing(db: TenantStore) -> None:
    tables = {
        "none": {"command": "no-such-program-anywhere"},
        "unset": stdio_table("legacy", env=["NOT_SET"]),
        "folder": {"command": str(Path(__file__).parent)},
    }
    async with running(db, tables) as it:
        await eventually(lambda: len({line[2].get("server") for line in it.log.lines}) == 3)
        assert it.mcp.snapshot().tools == ()
        for words in [
            "there is no program 'no-such-program-anywhere'",
            "NOT_SET are not set",
            "there is no program '/",
        ]:
            assert words in it.said()


async def test_what_a_dying_server_wrote_last_is_logged_without_its_secrets(db: TenantStore) -> None:
    table = stdio_table("die_at_once", env=["CANARY"])
    async with running(db, {"fake": table}, {"CANARY": "s3cr3t-c4n4ry"}) as it:
        await eventually(lambda: "no licence, and the key is [CANARY]" in it.said())
        assert "s3cr3t" not in it.said()


async def test_a_server_that_dies_is_started_again(db: TenantStore) -> None:
    async with running(db, {"fake": stdio_table("legacy")}) as it:
        await it.offered("fake_echo")
        died = await it.call(text="die")
        assert died.error is ToolErrorKind.FAILED
        assert "the connection to fake ended" in died.content
        assert "nobody knows how much of its work was done" in died.content
        await eventually(lambda: not it.mcp.is_up("fake"))
        assert {tool.name for tool in it.toolbox().of(WORKER)} == {"fake_echo"}
        it.clock.leap(2)
        await it.up()
        assert (await it.call(text="back")).content == "back"


async def test_while_a_server_is_down_calls_are_told_so_at_once(db: TenantStore) -> None:
    async with running(db, {"fake": stdio_table("legacy")}) as it:
        await it.offered("fake_echo")
    async with running(db, {"fake": stdio_table("die_at_once")}) as it:
        await eventually(lambda: "it is tried again" in it.said())
        answer = await it.call(text="x")
        assert answer.error is ToolErrorKind.FAILED
        assert "fake cannot be reached now: it closed its standard output" in answer.content
        assert "nobody knows" not in answer.content


async def test_tools_are_known_before_their_server_has_answered(db: TenantStore) -> None:
    """A session that is carried on when the worker starts finds its tools; its call waits for the connection."""
    async with running(db, {"fake": stdio_table("legacy")}) as it:
        await it.offered("fake_echo")
    async with running(db, {"fake": stdio_table("legacy")}) as it:
        assert not it.mcp.is_up("fake")
        assert [tool.name for tool in it.toolbox().of(WORKER)] == ["fake_echo"]
        assert (await it.call(text="waited")).content == "waited"


async def test_a_safe_tool_is_tried_again_when_its_server_dies(db: TenantStore) -> None:
    """What may be repeated the operator says; the server's own hints count for nothing."""
    async with running(db, {"fake": stdio_table("legacy", read_only=["echo"])}) as it:
        await it.offered("fake_echo")
        answer = await it.call(text="die")
        assert answer.attempts == 3
        assert "nobody knows" not in answer.content


async def test_a_call_that_takes_too_long_is_cancelled_at_the_server(db: TenantStore) -> None:
    async with running(db, {"fake": stdio_table("legacy", time_out_s=0.5)}) as it:
        await it.offered("fake_echo")
        assert (await it.call(text="cancelled?")).content == "False"
        assert (await it.call(text="hang")).error is ToolErrorKind.TIMED_OUT
        assert (await it.call(text="cancelled?")).content == "True"


async def test_a_caller_that_is_cancelled_cancels_the_call_at_the_server(db: TenantStore) -> None:
    async with running(db, {"fake": stdio_table("legacy")}) as it:
        await it.offered("fake_echo")
        calling = asyncio.create_task(it.call(text="hang"))
        await eventually(lambda: _hangs(it))
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await eventually(lambda: _cancelled(it))


async def _hangs(it: object) -> bool:
    """Whether the call is at the server: one that is cancelled on its way there is nothing to it."""
    return bool((await it.call(text="how many hang?")).content == "1")  # type: ignore[attr-defined]


async def _cancelled(it: object) -> bool:
    return bool((await it.call(text="cancelled?")).content == "True")  # type: ignore[attr-defined]


async def test_requests_of_a_server_are_refused(db: TenantStore) -> None:
    """Sampling, elicitation and roots: a server gets no model, no person and no folder of ours."""
    async with running(db, {"fake": stdio_table("asks")}) as it:
        await it.offered("fake_echo")
        await it.call(text="x")
        await eventually(lambda: _refusals(it, 3))


async def _refusals(it: object, least: int) -> bool:
    found = json.loads((await it.call(text="refused")).content)  # type: ignore[attr-defined]
    assert all("error" not in one and one["code"] < 0 for one in found)
    return len(found) >= least


async def test_a_long_answer_is_cut_and_a_huge_one_ends_the_connection(db: TenantStore) -> None:
    table = stdio_table("legacy", max_output_chars=100, max_message_bytes=1_000_000)
    async with running(db, {"fake": table}) as it:
        await it.offered("fake_echo")
        long = await it.call(text="long")
        assert (long.ok, long.cut_chars) == (True, 49_900)
        huge = await it.call(text="huge")
        assert huge.error is ToolErrorKind.FAILED
        assert "connection to fake ended" in huge.content
        await eventually(lambda: "a message of more than 1,000,000 bytes" in it.said())


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("garbage", "101 lines that are no messages"),
        ("endless_line", "a message of more than 4,194,304 bytes"),
        ("silent", "did not answer within"),
        ("version", "Unsupported protocol version"),
        ("endless", "list of tools has no end"),
        ("die_at_once", "closed its standard output"),
    ],
)
async def test_a_server_that_is_none_is_left_and_tried_again(mode: str, reason: str, db: TenantStore) -> None:
    async with running(db, {"fake": stdio_table(mode, connect_s=3)}) as it:
        await eventually(lambda: "it is tried again" in it.said())
        assert reason in it.said()
        assert it.mcp.snapshot().tools == ()


async def test_a_server_that_never_stops_writing_to_standard_error_works(db: TenantStore) -> None:
    async with running(db, {"fake": stdio_table("noisy")}) as it:
        await it.offered("fake_echo")
        assert (await it.call(text="calm")).content == "calm"


async def test_nothing_of_a_server_is_left_when_it_is_closed(db: TenantStore, tmp_path: Path) -> None:
    """Not a server that ignores the end of its input, nor what it started."""
    file = tmp_path / "child"
    table = stdio_table("children+stays", env=["CHILD_FILE"])
    async with running(db, {"fake": table}, {"CHILD_FILE": str(file)}) as it:
        await it.offered("fake_echo")
        grandchild = int(file.read_text())
        assert lives(grandchild)
    await eventually(lambda: not lives(grandchild))
    assert not _children_running("fake_server.py children+stays")


def _children_running(words: str) -> list[str]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and folder.name != str(os.getpid()):
            try:
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:
                continue
            if words in line:
                found.append(line)
    return found


async def test_a_server_of_the_newest_protocol(db: TenantStore) -> None:
    """Made with the library's own server side; what it says of changed tools is heard."""
    table = {"command": sys.executable, "args": [str(REAL), "stdio"], "trust": "on_first_use"}
    async with running(db, {"real": table}) as it:
        await it.offered("real_add", "real_grow")
        assert (await it.call("real_add", a=2, b=3)).content in {"5", '5\n{"result": 5}'}
        assert (await it.call("real_grow")).ok
        await it.offered("real_add", "real_grow", "real_born")
        assert "hello" in (await it.call("real_born")).content
