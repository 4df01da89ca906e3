"""Insights that a person has to agree to before anybody is shown them.

The engine holds them and tells the host's port; the host puts the question to a person and brings the decision back
with `AgentEngine.decide`. What is held is lost with the process, unless the host keeps what `export_session` gives.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from monikers.copilot.models import AgentInsight

#: of one session; beyond that many its oldest is forgotten
MAX_HELD = 200


@dataclass(frozen=True, slots=True)
class HeldInsight:
    """An insight that waits for a person."""

    held_id: str
    session_id: str
    insight: AgentInsight


class ApprovalPort(Protocol):
    """How the host learns that a person has to be asked."""

    def ask(self, held: HeldInsight) -> None:
        """Take the question and return at once; it is answered by `AgentEngine.decide(held.held_id, agreed=...)`."""
        ...


class Holding:
    """The insights that wait, by session and id. What one session holds costs no other one its own."""

    def __init__(self, most: int = MAX_HELD) -> None:
        self._most = most
        self._held: dict[str, OrderedDict[str, HeldInsight]] = {}
        self._sessions: dict[str, str] = {}

    def hold(self, held: HeldInsight) -> None:
        """Keep an insight until it is decided about."""
        waiting = self._held.setdefault(held.session_id, OrderedDict())
        waiting[held.held_id] = held
        self._sessions[held.held_id] = held.session_id
        if len(waiting) > self._most:
            self.take(next(iter(waiting)))

    def take_up(self, session_id: str, waited: Iterable[HeldInsight]) -> None:
        """Hold of a session what waited before a restart, and nothing else. An id that another session's insight has is
        left out."""
        self.forget(session_id)
        for held in waited:
            if held.held_id not in self._sessions:
                self.hold(held)

    def take(self, held_id: str) -> HeldInsight | None:
        """Let go of an insight; None if it is not held, because it was decided about already or forgotten."""
        session_id = self._sessions.pop(held_id, None)
        if session_id is None:
            return None
        held = self._held[session_id].pop(held_id)
        if not self._held[session_id]:
            del self._held[session_id]
        return held

    def of(self, session_id: str) -> list[HeldInsight]:
        """What waits in a session, oldest first."""
        return list(self._held.get(session_id, {}).values())

    def forget(self, session_id: str) -> None:
        """Let go of all of a session."""
        for held in self.of(session_id):
            self.take(held.held_id)
