"""Histories that a model's endpoint accepts, whatever happened to the turns that they tell of.

An endpoint answers 400 to a history with a tool call that has no result, and to every later call that carries it: one
cancelled turn would end a conversation for good. `acceptable` mends that before a request is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from runtime.llm.port import ChatMessage, ToolCall

CANCELLED = "[no result: the call was cancelled or its result was lost]"


def acceptable(messages: Sequence[ChatMessage]) -> tuple[ChatMessage, ...]:
    """`messages` with exactly one result behind every tool call, in the order of the calls.

    A call without a result gets one that says so; a result without a call, or a second one, is left out; calls of one
    id are told apart. A history that is acceptable comes back unchanged.
    """
    mended: list[ChatMessage] = []
    used: set[str] = set()
    rest = list(messages)
    while rest:
        message = rest.pop(0)
        if message.role == "tool":
            continue  # its call is not before it
        if not message.tool_calls:
            mended.append(message)
            continue
        results = _take_results(rest)
        mended += _with_results(message, results, used)
    return tuple(mended)


def _take_results(rest: list[ChatMessage]) -> list[ChatMessage]:
    """The results that follow at once; they are taken out of `rest`."""
    count = next((place for place, message in enumerate(rest) if message.role != "tool"), len(rest))
    taken, rest[:count] = rest[:count], []
    return taken


def _with_results(message: ChatMessage, results: Sequence[ChatMessage], used: set[str]) -> Iterator[ChatMessage]:
    """The asking message, its ids told apart from those that were `used`, and one result for each of its calls."""
    calls = list(_told_apart(message.tool_calls, used))
    told_apart = tuple(calls)
    yield message if told_apart == message.tool_calls else message.model_copy(update={"tool_calls": told_apart})
    left = list(results)
    if _fits(message, results, told_apart):
        yield from results
        return
    for asked, call in zip(message.tool_calls, calls, strict=True):
        found = next((result for result in left if result.tool_call_id == asked.id), None)
        if found is not None:
            left.remove(found)
        content = CANCELLED if found is None else found.content
        yield ChatMessage(role="tool", content=content, tool_call_id=call.id)


def _fits(message: ChatMessage, results: Sequence[ChatMessage], calls: tuple[ToolCall, ...]) -> bool:
    """Whether the results are right as they are, in whatever order."""
    answered = [result.tool_call_id for result in results]
    return calls == message.tool_calls and sorted(map(str, answered)) == sorted(call.id for call in calls)


def _told_apart(calls: Iterable[ToolCall], used: set[str]) -> Iterator[ToolCall]:
    for call in calls:
        new_id, number = call.id or "call", 1
        while new_id in used:
            number += 1
            new_id = f"{call.id or 'call'}-{number}"
        used.add(new_id)
        yield call if new_id == call.id else call.model_copy(update={"id": new_id})
