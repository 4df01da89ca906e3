"""The copilot engine beside one that copies the board: turns a second, and what single operations cost.

Both take turns by turns, so what else the machine does hits both. Times are processor time: nothing here waits for
anything, and a busy machine lengthens them less.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.deepcopying import CopiedBoard, CopyingEngine
from bench.machine import emit, percentile
from monikers.copilot import (
    AgentConfig,
    AgentContext,
    AgentEngine,
    AgentResponse,
    BaseAgent,
    Blackboard,
    Event,
    Fact,
    TriggerType,
)

#: seconds of processor time for one figure of one engine
_BUDGET_S = 1.5
_OPERATIONS = 2_000
_BATCH = 50


class _Observer(BaseAgent):
    """Reads a little, finds a little, waits for nothing."""

    def __init__(self, number: int, *, emits: bool = False, woken: bool = False) -> None:
        triggers = [TriggerType.EVENT] if woken else [TriggerType.TURN_BASED]
        names = ["found"] if woken else []
        super().__init__(AgentConfig(f"agent{number}", cooldown=0, trigger_types=triggers, subscribed_events=names))
        self._emits = emits

    async def evaluate(self, context: AgentContext) -> AgentResponse:
        board: Any = context.blackboard
        seen = board.variables.get("name1", 0)
        events = [Event(name="found", source_agent="a", timestamp=0.0)] if self._emits else []
        return AgentResponse(variable_updates={self.config.id: seen}, events=events)


async def copilot() -> None:
    """Print the figures."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        await _compare(folder, "tiny", agents=1, variables=2, facts=0)
        await _compare(folder, "tiny, 10 agents", agents=10, variables=2, facts=0)
        await _compare(folder, "big", agents=10, variables=10_000, facts=1_000)
        await _compare(folder, "big, two phases", agents=10, variables=10_000, facts=1_000, phases=2)
        await _compare(folder, "100 agents", agents=100, variables=100, facts=10)
        for facts in (100, 10_000, 100_000):
            _operations(folder, facts)


async def _compare(folder: Path, board: str, *, agents: int, variables: int, facts: int, phases: int = 1) -> None:
    observers: list[BaseAgent] = [
        _Observer(number, emits=phases == 2 and number == 0, woken=phases == 2 and number >= agents // 2)
        for number in range(agents)
    ]
    names = {f"name{number}": number for number in range(variables)}
    learned = [Fact(type=f"kind{number % 50}", key=str(number), value=number) for number in range(facts)]
    ours, theirs = _our_turn(observers, names, learned), _their_turn(observers, names, learned)
    ours_s, theirs_s = await _in_turns(ours, theirs)
    emit(
        "copilot_turn",
        folder,
        board=board,
        agents=agents,
        variables=variables,
        facts=facts,
        phases=phases,
        turns_per_s=round(1 / ours_s),
        turn_ms=round(ours_s * 1_000, 3),
        agent_us=round(ours_s * 1e6 / agents, 1),
        copying_turns_per_s=round(1 / theirs_s, 1),
        times_faster=round(theirs_s / ours_s, 1),
    )


Turn = Callable[[int], Awaitable[Any]]


def _our_turn(observers: list[BaseAgent], names: dict[str, int], learned: list[Fact]) -> Turn:
    engine, board = AgentEngine(), Blackboard(variables=names, facts=learned)
    engine.replace_agents(observers)
    return lambda number: engine.process_turn(AgentContext(session_id="s", blackboard=board, turn_count=number))


def _their_turn(observers: list[BaseAgent], names: dict[str, int], learned: list[Fact]) -> Turn:
    engine, board = CopyingEngine(observers), CopiedBoard(variables=dict(names), facts=list(learned))
    return lambda number: engine.process_turn(
        AgentContext(session_id="s", turn_count=number), board, time.process_time()
    )


async def _in_turns(one: Turn, other: Turn) -> tuple[float, float]:
    """The median time of a turn of each, taken alternately until both budgets are spent."""
    taken: tuple[list[float], list[float]] = ([], [])
    number = 0
    while any(sum(times) < _BUDGET_S for times in taken):
        number += 1
        for turn, times in zip((one, other), taken, strict=True):
            if sum(times) < _BUDGET_S:
                began = time.process_time()
                await turn(number)
                times.append(time.process_time() - began)
    return percentile(taken[0], 0.5), percentile(taken[1], 0.5)


def _operations(folder: Path, facts: int) -> None:
    board = Blackboard(
        variables={f"name{number}": number for number in range(facts)},
        facts=[Fact(type="kind", key=str(number), value=number) for number in range(facts)],
        queues={"queue": list(range(facts))},
    )
    fresh = [Fact(type="kind", key=f"new{number}") for number in range(_OPERATIONS)]
    figures = {
        "snapshot": _microseconds(lambda number: board.snapshot()),
        "set_var": _microseconds(lambda number: board.set_var("name1", number)),
        "add_fact": _microseconds(lambda number: board.add_fact(fresh[number])),
    }
    view = board.snapshot()
    figures["set_var, one view"] = _microseconds(lambda number: board.set_var(f"name{number % 90}", number))
    figures["push_queue, one view"] = _microseconds(lambda number: board.push_queue("queue", number))
    figures["add_fact, one view"] = _microseconds(lambda number: board.add_fact(fresh[number]))
    view.get_var("name1")
    emit("copilot_operations_us", folder, variables=facts, facts=facts, **figures)


def _microseconds(act: Callable[[int], Any]) -> float:
    """What one call costs: the median of batches, so that one look for garbage does not count."""
    taken = []
    for start in range(0, _OPERATIONS, _BATCH):
        began = time.process_time()
        for number in range(start, start + _BATCH):
            act(number)
        taken.append((time.process_time() - began) / _BATCH * 1e6)
    return round(percentile(taken, 0.5), 2)
