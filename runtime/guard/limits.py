"""Limits of a text: characters, lines, links. The first gate, so that the others see no more than this."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from runtime.guard.port import Allow, Block, Channel, GateName, Passage, RuleId, Verdict

NAME = GateName("limits")

_LINK = re.compile(r"https?://|www\.", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that a text may have of each; None is without limit."""

    characters: int | None = None
    lines: int | None = None
    links: int | None = None

    def broken(self, text: str) -> Block | None:
        """The first limit that `text` breaks, as a block; the cheapest is looked at first."""
        if self.characters is not None and len(text) > self.characters:
            return _over("characters", len(text), self.characters)
        if self.lines is not None and (lines := text.count("\n") + 1) > self.lines:
            return _over("lines", lines, self.lines)
        if self.links is not None and (links := sum(1 for _ in _LINK.finditer(text))) > self.links:
            return _over("links", links, self.links)
        return None


@dataclass(frozen=True, slots=True)
class LimitsGate:
    """Blocks a passage that breaks its channel's limits."""

    limits: Mapping[Channel, Limits]
    name: GateName = NAME
    fail_closed: bool = True

    async def judge(self, passage: Passage) -> Verdict:
        """Block what is too much, else allow."""
        limits = self.limits.get(passage.channel)
        return (limits and limits.broken(passage.text)) or Allow()


def _over(what: str, count: int, limit: int) -> Block:
    return Block(f"{count} {what}; the limit is {limit}: shorten the text or split it", RuleId(f"limit.{what}"))
