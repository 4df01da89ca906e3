"""The pattern rule: regular expressions of governance.yaml, by channel and agent type."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from runtime.guard.automaton import Automaton, Ranges
from runtime.guard.port import (
    AgentType,
    Allow,
    Block,
    Channel,
    Concern,
    GateName,
    Passage,
    Redact,
    RuleId,
    Severity,
    Verdict,
)
from runtime.guard.spans import Found, spans

NAME = GateName("patterns")


class PatternAction(StrEnum):
    """What to do with a text in which a pattern is found."""

    BLOCK = "block"
    CONCERN = "concern"
    REDACT = "redact"


@dataclass(frozen=True, slots=True)
class Pattern:
    """One expression and where it holds; `agent_types` None means every type."""

    id: RuleId
    automaton: Automaton
    action: PatternAction
    reason: str
    severity: Severity
    channels: frozenset[Channel]
    agent_types: frozenset[AgentType] | None = None

    def sees(self, passage: Passage) -> bool:
        """Whether the pattern is looked for in a passage."""
        fits = self.agent_types is None or passage.agent_type in self.agent_types
        return fits and passage.channel in self.channels

    def verdict(self, found: Ranges) -> Verdict:
        """What follows from where the pattern was found."""
        if not found:
            return Allow()
        match self.action:
            case PatternAction.BLOCK:
                return Block(self.reason, self.id)
            case PatternAction.CONCERN:
                return Concern(self.reason, self.id, self.severity)
            case PatternAction.REDACT:
                return Redact(spans(Found(start, end, self.id) for start, end in found), self.id)
            case _:
                assert_never(self.action)


@dataclass(frozen=True, slots=True)
class PatternGate:
    """Looks for one pattern. Gives way to others after every few milliseconds of work, so its time-out counts."""

    pattern: Pattern
    name: GateName
    fail_closed: bool = True

    async def judge(self, passage: Passage) -> Verdict:
        """The pattern's verdict, or allow where it is not looked for."""
        if not self.pattern.sees(passage):
            return Allow()
        run = self.pattern.automaton.pieces(passage.text)
        while True:
            try:
                next(run)
            except StopIteration as end:
                return self.pattern.verdict(end.value)
            await asyncio.sleep(0)
