"""Slots: how many sessions may take steps at a time, all together in this worker and of one agent.

A session asks before each step. It keeps its agent's slot from step to step until it rests, holds or leaves; a slot of
the worker is for one step, so that sessions that never rest take turns. Who gets none waits in line, urgent first,
then first come; a slot that becomes free is given to the first in line and that one is woken. All of it is in memory:
a crash leaves nothing behind, and the sessions that go on after it ask again.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from store.ids import AgentId, SessionId


@dataclass(frozen=True, slots=True)
class Asker:
    """A session that wants to take a step."""

    session_id: SessionId
    agent_id: AgentId
    #: at most so many of its agent's sessions at a time; None is no limit
    limit: int | None
    urgency: int
    wake: Callable[[], None]


class Line:
    """The slots of one kind, who has them, and who waits for one."""

    def __init__(self) -> None:
        self.holders: set[SessionId] = set()
        self._waiting: dict[SessionId, tuple[tuple[int, int], Asker, int]] = {}
        self._order: list[tuple[tuple[int, int], SessionId]] = []
        self._numbers = count()

    def take(self, asker: Asker, limit: int) -> bool:
        """Whether the asker has a slot now; else it waits in line. Asking again keeps its place."""
        if asker.session_id in self.holders:
            return True
        waiting = self._waiting.get(asker.session_id)
        number = next(self._numbers) if waiting is None else waiting[0][1]
        place = (-asker.urgency, number)
        self._waiting[asker.session_id] = (place, asker, limit)
        if waiting is None or waiting[0] != place:
            heapq.heappush(self._order, (place, asker.session_id))
        self._give(but_do_not_wake=asker.session_id)
        return asker.session_id in self.holders

    def leave(self, session_id: SessionId) -> None:
        """Give the slot, or the place in line, back; whoever is next gets it and is woken."""
        self.holders.discard(session_id)
        self._waiting.pop(session_id, None)
        self._give()

    @property
    def idle(self) -> bool:
        """Whether nobody has or wants a slot."""
        return not (self.holders or self._waiting)

    def _give(self, but_do_not_wake: SessionId | None = None) -> None:
        while (first := self._first()) is not None:
            _, asker, limit = first
            if len(self.holders) >= limit:
                return
            heapq.heappop(self._order)
            del self._waiting[asker.session_id]
            self.holders.add(asker.session_id)
            if asker.session_id != but_do_not_wake:
                asker.wake()

    def _first(self) -> tuple[tuple[int, int], Asker, int] | None:
        while self._order:
            place, session_id = self._order[0]
            waiting = self._waiting.get(session_id)
            if waiting is not None and waiting[0] == place:
                return waiting
            heapq.heappop(self._order)  # it left, or took another place
        return None


class Slots:
    """The slots of one worker. `max_running` is how many steps run at a time; 0 is no limit."""

    def __init__(self, max_running: int = 0) -> None:
        self._max_running = max_running
        self._steps = Line()
        self._agents: dict[AgentId, Line] = {}

    def take(self, asker: Asker) -> str | None:
        """None when the asker may take a step; else why it has to wait, in words. It is woken when to ask again."""
        if asker.limit is not None:
            line = self._agents.setdefault(asker.agent_id, Line())
            if not line.take(asker, asker.limit):
                self._steps.leave(asker.session_id)
                return f"waiting for a slot: agent {asker.agent_id!r} runs {len(line.holders)} of {asker.limit}"
        if self._max_running and not self._steps.take(asker, self._max_running):
            return f"waiting for a slot: this worker runs {self._max_running} of {self._max_running} steps"
        return None

    def step_ended(self, session_id: SessionId) -> None:
        """Give the worker's slot back after a step; the agent's is kept."""
        if self._max_running:
            self._steps.leave(session_id)

    def leave(self, session_id: SessionId, agent_id: AgentId) -> None:
        """Give back whatever the session has or waits for."""
        self.step_ended(session_id)
        line = self._agents.get(agent_id)
        if line is not None:
            line.leave(session_id)
            if line.idle:
                del self._agents[agent_id]
