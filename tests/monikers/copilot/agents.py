"""Agents, handlers and a clock for the tests of the copilot engine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from monikers.copilot import (
    AgentCallbackHandler,
    AgentConfig,
    AgentContext,
    AgentEngine,
    AgentResponse,
    BaseAgent,
    Blackboard,
    Event,
    TranscriptSegment,
    TriggerType,
)

Answer = Callable[[BaseAgent, AgentContext], AgentResponse | Awaitable[AgentResponse | None] | None]


class StillClock:
    """Time that moves when it is told to; who sleeps wakes when enough has passed."""

    def __init__(self) -> None:
        self.seconds = 1_000.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return datetime(2026, 1, 27, 10, 30, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.seconds + seconds, wake))
        await wake

    async def sleeper(self) -> None:
        """Return when somebody sleeps."""
        while not any(not wake.done() for _, wake in self._sleepers):
            await asyncio.sleep(0)

    def move(self, seconds: float) -> None:
        """Let time pass."""
        self.seconds += seconds
        for until, wake in self._sleepers:
            if until <= self.seconds and not wake.done():
                wake.set_result(None)


class Scripted(BaseAgent):
    """An agent that answers as a function does, and keeps the contexts that it was given."""

    def __init__(self, agent_id: str, answer: Answer | None = None, **config: Any) -> None:
        super().__init__(AgentConfig(agent_id, **{"cooldown": 0, **config}))
        self.contexts: list[AgentContext] = []
        self._answer = answer

    async def evaluate(self, context: AgentContext) -> AgentResponse | None:
        self.contexts.append(context)
        if self._answer is None:
            return None
        answer = self._answer(self, context)
        return answer if isinstance(answer, AgentResponse) or answer is None else await answer

    @property
    def runs(self) -> int:
        """How often it was asked."""
        return len(self.contexts)

    @property
    def seen(self) -> AgentContext:
        """The context that it was given last."""
        return self.contexts[-1]


def says(agent: BaseAgent, content: str = "hello", **fields: Any) -> AgentResponse:
    """A response with one insight."""
    return AgentResponse(insights=[agent.create_insight(content)], **fields)


def answering(**fields: Any) -> Answer:
    """An agent's function that always gives a response of these fields."""
    return lambda agent, context: AgentResponse(**fields)


def emitting(*names: str, **fields: Any) -> Answer:
    """An agent's function that emits events."""
    return answering(events=[Event(name=name) for name in names], **fields)


def listener(agent_id: str, *names: str, answer: Answer | None = None, **config: Any) -> Scripted:
    """An agent that is woken by events."""
    return Scripted(agent_id, answer, trigger_types=[TriggerType.EVENT], subscribed_events=names, **config)


def engine_of(*agents: BaseAgent, clock: StillClock | None = None, **options: Any) -> AgentEngine:
    """An engine with agents, on a clock that stands still."""
    engine = AgentEngine(clock=clock or StillClock(), **options)
    for agent in agents:
        engine.register_agent(agent)
    return engine


def context_of(board: Blackboard | None = None, session_id: str = "session", **fields: Any) -> AgentContext:
    """What a host gives."""
    return AgentContext(session_id=session_id, blackboard=board, **fields)


def segment(text: str, at: float = 1.0, speaker: str = "CUSTOMER") -> TranscriptSegment:
    """Something said."""
    return TranscriptSegment(speaker=speaker, text=text, timestamp=at)


class Heard(AgentCallbackHandler):
    """Writes down everything that it is told, as (hook, arguments)."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    @property
    def hooks(self) -> list[str]:
        """The names of the hooks, in the order of the calls."""
        return [hook for hook, _ in self.calls]

    def of(self, hook: str) -> list[tuple[Any, ...]]:
        """The arguments of the calls of a hook."""
        return [args for name, args in self.calls if name == hook]

    async def on_turn_start(self, *args: Any) -> None:
        self.calls.append(("on_turn_start", args))

    async def on_phase_start(self, *args: Any) -> None:
        self.calls.append(("on_phase_start", args))

    async def on_agent_start(self, *args: Any) -> None:
        self.calls.append(("on_agent_start", args))

    async def on_agent_finish(self, *args: Any) -> None:
        self.calls.append(("on_agent_finish", args))

    async def on_agent_skipped(self, *args: Any) -> None:
        self.calls.append(("on_agent_skipped", args))

    async def on_agent_error(self, *args: Any) -> None:
        self.calls.append(("on_agent_error", args))

    async def on_insight(self, *args: Any) -> None:
        self.calls.append(("on_insight", args))

    async def on_phase_end(self, *args: Any) -> None:
        self.calls.append(("on_phase_end", args))

    async def on_turn_end(self, *args: Any) -> None:
        self.calls.append(("on_turn_end", args))

    async def on_chain_error(self, *args: Any) -> None:
        self.calls.append(("on_chain_error", args))
