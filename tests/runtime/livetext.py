"""What a page makes of live text: the rules of web/static/js/stream.js, for tests that read the store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from runtime.llm.port import ChatReply, ChatRequest, LlmError, Stream, StreamEnd, StreamRestart, TextDelta, Usage
from store import filters
from store.agent_events import AgentEvent, events_of
from store.database import TenantStore


@dataclass
class Shown:
    """The texts of one step's calls, as far as pieces came."""

    texts: dict[int, str] = field(default_factory=dict)
    gaps: int = 0
    _streams: dict[int, tuple[int, int]] = field(default_factory=dict)

    def take(self, event: AgentEvent) -> None:
        """Put a piece where it belongs."""
        call, stream = event.data["call"], (event.epoch, event.data["stream"])
        if stream < self._streams.get(call, stream):
            return
        if self._streams.get(call) != stream:
            self._streams[call], self.texts[call] = stream, ""
        known = self.texts[call]
        self.gaps += event.data["offset"] > len(known)
        self.texts[call] = known + event.data["text"][max(0, len(known) - event.data["offset"]) :]


def shown(events: Iterable[AgentEvent]) -> dict[int, str]:
    """What is shown of one step when all its pieces have come, however often; fails when one is missing."""
    page = Shown()
    for event in events:
        page.take(event)
    assert page.gaps == 0
    return page.texts


async def pieces(db: TenantStore, session: str = "s", iteration: int = 0) -> list[AgentEvent]:
    """The stored pieces of a step, in the order of their commits."""
    found = await events_of(db).created_since(0, filters.equals("session_id", session))
    return [row.item for row in found if row.item.iteration == iteration and row.item.kind == "token"]


class ScriptedStream:
    """A model whose streams are scripted: texts, cuts that begin anew, and errors; `gate` is passed between parts."""

    label = "streamer"

    def __init__(self, *scripts: Iterable[Any], gate: Any = None) -> None:
        self._scripts = [list(script) for script in scripts]
        self._gate = gate
        self.asked: list[ChatRequest] = []
        self.closed = 0

    async def chat(self, request: ChatRequest) -> ChatReply:
        raise AssertionError("this model is asked for streams only")

    async def stream(self, request: ChatRequest, *, restart: bool = False) -> Stream:
        """The next script: a `str` is said, a `StreamRestart` passed on, an `LlmError` raised."""
        self.asked.append(request)
        said = ""
        try:
            for part in self._scripts.pop(0):
                if self._gate is not None:
                    await self._gate()
                if isinstance(part, LlmError):
                    raise part
                said = "" if isinstance(part, StreamRestart) else said + part
                yield part if isinstance(part, StreamRestart) else TextDelta(text=part)
            usage = Usage(input_tokens=1, output_tokens=len(said), calls=1)
            yield StreamEnd(reply=ChatReply(text=said, model=self.label, usage=usage))
        finally:
            self.closed += 1
