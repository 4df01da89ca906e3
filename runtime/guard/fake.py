"""Gates that answer as they are told, for tests of what stands behind a guard. No network, no waiting, no chance."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NoReturn

from runtime.guard.decision import Notary
from runtime.guard.guard import Guard, Placed
from runtime.guard.judgement import Admitted, Judgement, Outcome
from runtime.guard.port import (
    AgentType,
    Allow,
    Block,
    Channel,
    Concern,
    Gate,
    GateName,
    Passage,
    Redact,
    RuleId,
    Severity,
    Span,
    Verdict,
)
from runtime.llm.port import ChatReply, ChatRequest, LlmError
from store.clock import SystemClock

RULE = RuleId("scripted")
SCRIPTED = GateName("scripted")
WORDS = GateName("words")


@dataclass(frozen=True, slots=True)
class Hang:
    """Never answer; end when cancelled, or, being `stubborn`, only once `ScriptedGate.release` is set."""

    stubborn: bool = False


Answer = Verdict | BaseException | Hang


@dataclass
class ScriptedGate:
    """Answers the `answers` in turn and then `otherwise`; keeps the passages it was asked about in `seen`."""

    answers: list[Answer] = field(default_factory=list)
    otherwise: Answer = field(default_factory=Allow)
    name: GateName = SCRIPTED
    fail_closed: bool = True
    seen: list[Passage] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)

    async def judge(self, passage: Passage) -> Verdict:
        """The next answer; an exception is raised."""
        self.seen.append(passage)
        self.asked.set()
        answer = self.answers.pop(0) if self.answers else self.otherwise
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, Hang):
            await self._hang(answer)
        return answer

    async def _hang(self, hang: Hang) -> NoReturn:
        while not (hang.stubborn and self.release.is_set()):
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                if not hang.stubborn:
                    raise
        raise RuntimeError("a gate that did not listen was let go")


@dataclass
class WordGate:
    """Decides by words in the text: "BLOCK ME" is blocked, "WORRY" is a concern, every "HIDE" is cut out."""

    name: GateName = WORDS
    fail_closed: bool = True

    async def judge(self, passage: Passage) -> Verdict:
        """The verdict that the text asks for."""
        text = passage.text
        if "BLOCK ME" in text:
            return Block("the text asks for it", RULE)
        if "WORRY" in text:
            return Concern("the text asks for it", RULE, Severity.MEDIUM)
        starts = [at for at in range(len(text)) if text.startswith("HIDE", at)]
        return Redact(tuple(Span(at, at + 4, "word", "[hidden]") for at in starts), RULE) if starts else Allow()


class ScriptedModel:
    """A chat model that gives the `replies` in turn, the last one for ever; an `LlmError` among them is raised."""

    label = "scripted"

    def __init__(self, replies: Iterable[str | LlmError]) -> None:
        self._replies = list(replies)
        self.requests: list[ChatRequest] = []

    async def chat(self, request: ChatRequest) -> ChatReply:
        """The next reply."""
        self.requests.append(request)
        reply = self._replies[min(len(self.requests), len(self._replies)) - 1]
        if isinstance(reply, LlmError):
            raise reply
        return ChatReply(text=reply, model=self.label)


@dataclass
class FakeGuard:
    """A `StepGates` of one gate; `approves` is what people say to concerns. Keeps what was `checked`."""

    gate: Gate = field(default_factory=WordGate)
    approves: bool = True
    checked: list[tuple[Channel, str]] = field(default_factory=list)

    def see(self, channel: Channel) -> bool:
        """Always."""
        return True

    async def check(
        self, text: str, channel: Channel, source: str, *, tainted: bool = False, key: str = ""
    ) -> Judgement:
        """What the gate says."""
        self.checked.append((channel, text))
        guard = Guard([Placed(self.gate, frozenset(Channel))], clock=SystemClock(), notary=Notary(b"k" * 16, str))
        return await guard.check(Passage(text, channel, AgentType("fake"), source, tainted))

    async def admit(
        self, text: str, channel: Channel, source: str, *, tainted: bool = False, key: str = ""
    ) -> Admitted:
        """What the gate, and where it has doubts `approves`, say."""
        found = await self.check(text, channel, source, tainted=tainted)
        if found.outcome is Outcome.CONCERN and not self.approves:
            return Admitted("", Block("a person did not let it go on", found.concerns[0].rule))
        return Admitted(found.text, found.block, found.redactions)
