"""The memory as a model's tools, called through the one door."""

from __future__ import annotations

import json
from typing import Any

from runtime.memory.fake import FakeMemory
from runtime.memory.port import MemoryKind
from runtime.memory.tools import memory_tools
from runtime.testing import FakeClock
from runtime.tools.calling import call_tool
from runtime.tools.result import Call, ToolErrorKind, ToolResult
from runtime.tools.scope import ToolName
from runtime.tools.toolbox import Toolbox
from tests.runtime.tools.kit import WORKER, backoff, scope


async def called(memory: FakeMemory, name: str, **arguments: Any) -> ToolResult:
    tools = memory_tools(lambda _: memory)
    box = Toolbox(tools, {WORKER: [ToolName("search_memory"), ToolName("remember")]})
    return await call_tool(box, Call(id="c", name=name, arguments=arguments), scope(), backoff())


async def test_a_model_remembers_and_finds() -> None:
    memory = FakeMemory(FakeClock())
    kept = await called(memory, "remember", text="The well is deep.", kind="term", subject="well")
    assert (kept.ok, kept.content) == (True, "remembered as memory-1")
    found = await called(memory, "search_memory", query="How deep?", limit=3)
    (one,) = json.loads(found.content)
    assert (one["text"], one["kind"], one["subject"]) == ("The well is deep.", "term", "well")
    assert one["verified"] is False  # a model wrote it, from nobody knows what
    assert json.loads((await called(memory, "search_memory", query="deep", kind="fact")).content) == []


async def test_bad_arguments_are_told() -> None:
    memory = FakeMemory(FakeClock())
    for name, arguments in (("remember", {"text": ""}), ("search_memory", {"query": "x", "limit": 21})):
        assert (await called(memory, name, **arguments)).error is ToolErrorKind.BAD_ARGUMENTS
    assert (await called(memory, "remember", text=" ", kind="fact")).ok  # the fake is not strict


def test_what_they_do_is_said() -> None:
    search, remember = memory_tools(lambda _: FakeMemory(FakeClock()))
    assert (search.read_only, remember.read_only, remember.idempotent) == (True, False, True)
    assert MemoryKind.EPISODE.value in remember.description
