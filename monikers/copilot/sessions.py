"""What belongs to a session and to (session, agent): turn counters, cooldowns, private memory. Never to an agent
object.

Kept for a bounded number of sessions: the one that was idle longest is forgotten first, a running one never.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from monikers.copilot.blackboard import Blackboard
from monikers.copilot.clock import Clock
from monikers.copilot.costs import Usage

MAX_SESSIONS = 10_000
_NEVER = float("-inf")


class Moment(NamedTuple):
    """One reading of the clock: seconds that never go back, and seconds since 1970."""

    monotonic: float
    wall: float

    @classmethod
    def of(cls, clock: Clock) -> Moment:
        """Now."""
        return cls(clock.monotonic(), clock.now().timestamp())


@dataclass(slots=True)
class AgentSlot:
    """What one session keeps for one agent."""

    #: when the agent was last started, on both clocks
    started: float = _NEVER
    started_wall: float = 0.0
    #: how often the agent's `last_run_time` had been set from outside by then; what is set later counts instead
    resets: int = 0
    #: None until the agent has changed what it started with
    private_state: dict[str, Any] | None = None
    #: when it was started lately, for a rate limit; oldest first
    starts: Sequence[float] = ()
    #: what it said lately and when, to tell what it says again
    said: dict[str, float] | None = None
    usage: Usage | None = None

    def add_usage(self, told: Any) -> None:
        """Add what one run used."""
        self.usage = Usage() if self.usage is None else self.usage
        self.usage.add(told)

    def claim(self, moment: Moment, resets: int) -> None:
        """The agent starts now: turns that overlap see it at once."""
        self.started = moment.monotonic
        self.started_wall = moment.wall
        self.resets = resets


@dataclass(slots=True)
class Session:
    """One conversation, as the engine knows it."""

    session_id: str
    #: when its first turn began
    began: float
    turns: int = 0
    #: turns under way: it is not forgotten meanwhile
    running: int = 0
    agents: dict[str, AgentSlot] = field(default_factory=dict)
    #: for a host that brings no board; made when it is first needed
    own_board: Blackboard | None = None

    @property
    def board(self) -> Blackboard:
        """The session's own board."""
        if self.own_board is None:
            self.own_board = Blackboard()
        return self.own_board

    def slot(self, agent_id: str) -> AgentSlot:
        """What is kept for an agent."""
        slot = self.agents.get(agent_id)
        if slot is None:
            slot = self.agents[agent_id] = AgentSlot()
        return slot

    def count_turn(self, counted: int | None) -> int:
        """The number of the turn that begins: the host's if it counts, else one more than before."""
        self.turns = self.turns + 1 if counted is None else counted
        return self.turns


class Sessions:
    """The sessions of an engine, by id."""

    def __init__(
        self, clock: Clock, most: int = MAX_SESSIONS, *, forgotten: Callable[[str], None] | None = None
    ) -> None:
        self._clock = clock
        self._most = most
        #: told of each session that is forgotten for being idle
        self._forgotten = forgotten
        self._by_id: OrderedDict[str, Session] = OrderedDict()

    def get(self, session_id: str) -> Session:
        """The session of an id, begun now if it is new."""
        session = self._by_id.get(session_id)
        if session is None:
            session = self._by_id[session_id] = Session(session_id, self._clock.monotonic())
            self._forget_idle()
        else:
            self._by_id.move_to_end(session_id)
        return session

    def known(self, session_id: str) -> Session | None:
        """The session of an id, if there is one."""
        return self._by_id.get(session_id)

    def end(self, session_id: str) -> bool:
        """Forget a session; whether there was one. A turn that still runs ends with what it had."""
        return self._by_id.pop(session_id, None) is not None

    def _forget_idle(self) -> None:
        if len(self._by_id) <= self._most:
            return
        idle = next((session_id for session_id, session in self._by_id.items() if not session.running), None)
        newest = next(reversed(self._by_id))
        if idle is not None and idle != newest:
            del self._by_id[idle]
            if self._forgotten is not None:
                self._forgotten(idle)

    def __len__(self) -> int:
        return len(self._by_id)
