"""What a turn leaves for people: its insights, and who ran, who did not, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from monikers.copilot.callbacks import AgentCallbackHandler
from monikers.copilot.findings import Findings
from monikers.copilot.frozen import plain
from monikers.copilot.models import AgentContext, AgentInsight
from monikers.copilot.records import Fact
from monikers.copilot.routing import Skip
from monikers.copilot.turnrecord import PhaseRecord, TurnRecord
from runtime.contract import Json

Tell = Callable[[Json], Awaitable[None]]


class InsightIds:
    """The ids of the insights of one step: the same however often it is taken, in whatever order agents finish."""

    def __init__(self, step_id: str, number: int) -> None:
        self._begin = f"{step_id}:{number}"
        self._told: Counter[tuple[int, str]] = Counter()

    def next(self, phase: int, agent_id: str) -> str:
        """The id of the next insight of an agent in a phase."""
        self._told[phase, agent_id] += 1
        return f"{self._begin}.{phase}.{agent_id}.{self._told[phase, agent_id]}"

    def next_held(self, agent_id: str) -> str:
        """The id of the next insight of an agent that waits for a person."""
        return self.next(0, agent_id)


class Recorder(AgentCallbackHandler):
    """Keeps the record of a turn."""

    def __init__(self) -> None:
        self.record: TurnRecord | None = None

    async def on_turn_record(self, record: TurnRecord) -> None:
        self.record = record


class Teller(AgentCallbackHandler):
    """Tells each insight when its agent has finished. One that hangs does not keep the turn from ending."""

    def __init__(self, ids: InsightIds, turn: int, tell: Tell) -> None:
        self._ids = ids
        self._turn = turn
        self._tell = tell

    async def on_insight(self, insight: AgentInsight, context: AgentContext) -> None:
        insight_id = self._ids.next(context.phase, insight.agent_id)
        await self._tell(insight_row(insight, insight_id, self._turn, context.phase, context.trigger_type.value))


def insight_row(insight: AgentInsight, insight_id: str, turn: int, phase: int, trigger: str) -> Json:
    """An insight as a step has it (store/insights.py reads it)."""
    told = plain(insight.model_dump(mode="python", exclude={"type"}))
    return {
        "insight_id": insight_id,
        **told,
        "type": insight.type.value,
        "status": "shown",
        "turn": turn,
        "phase": phase,
        "trigger": trigger,
    }


class Told:
    """A turn in words: its trace, and its insights in the order of the merge."""

    def __init__(
        self,
        record: TurnRecord,
        ids: InsightIds,
        ms: Mapping[str, int],
        versions: Mapping[str, str],
        *,
        is_news: Callable[[Json], bool],
    ) -> None:
        self.insights: list[Json] = []
        self._record = record
        self._ids = ids
        self._ms = ms
        self._versions = versions
        self._is_news = is_news
        self.trace: Json = {
            "trigger": record.trigger,
            "metadata": plain(record.metadata),
            "phases": [self._phase(phase) for phase in record.phases],
        }

    def _phase(self, phase: PhaseRecord) -> Json:
        return {
            "phase": phase.number,
            "events": list(phase.trigger_events),
            "ran": [self._run(found, phase) for found, _ in phase.runs],
            "skipped": [
                {"agent_id": agent_id, "reason": reason.value}
                for agent_id, reason in phase.skipped
                if reason is not Skip.TRIGGER
            ],
        }

    def _run(self, found: Findings, phase: PhaseRecord) -> Json:
        trigger = self._record.trigger if phase.number == 1 else "event"
        rows = [
            insight_row(
                insight, self._ids.next(phase.number, found.agent_id), self._record.turn_count, phase.number, trigger
            )
            for insight in found.insights
        ]
        rows = [row for row in rows if self._is_news(row)]
        self.insights += rows
        return {
            "agent_id": found.agent_id,
            "name": self._name_of(found.agent_id),
            **({"version": self._versions[found.agent_id]} if found.agent_id in self._versions else {}),
            "ms": self._ms.get(f"{phase.number}.{found.agent_id}", 0),
            "insights": [row["insight_id"] for row in rows],
            "events": [event.name for event in found.events],
            **dict(_written(found)),
            "failed": found.failed or "error_category" in found.debug_info,
            "usage": _usage(found.usage),
        }

    def _name_of(self, agent_id: str) -> str:
        return next((str(one["name"]) for one in self._record.agent_configs if one["id"] == agent_id), agent_id)


def durations_of(record: TurnRecord) -> dict[str, int]:
    """How long each run of a turn took, in whole milliseconds."""
    return {
        f"{phase.number}.{found.agent_id}": round(seconds * 1000)
        for phase in record.phases
        for found, seconds in phase.runs
    }


def _written(found: Findings) -> Iterator[tuple[str, Any]]:
    """What a run wrote on the board; what it did not is left out."""
    if found.variables:
        yield "variables", plain(found.variables)
    if found.queues:
        yield "queues", plain(found.queues)
    if found.facts:
        yield "facts", [_fact(one) for one in found.facts]
    if found.memory:
        yield "memory", plain(found.memory)


def _fact(fact: Fact) -> Json:
    return {"type": fact.type, "key": fact.key, "value": plain(fact.value), "confidence": fact.confidence}


def _usage(told: Mapping[str, Any]) -> Json:
    """What a run used; who would have been asked, had anybody, is no part of it."""
    usage: Json = plain(told)
    return usage if usage.get("calls") else {name: value for name, value in usage.items() if name != "model"}
