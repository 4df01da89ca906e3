"""What agents have used: the totals of their sessions, added up from the sessions' rows.

A session's row is at most a quarter of a second behind its steps, and so are these totals.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from store import filters
from store.agent_state import states_of
from store.database import TenantStore
from store.ids import AgentId
from store.money import added, money_of, money_text

_MAX_NAMED = 500


@dataclass(frozen=True, slots=True)
class AgentUsage:
    """Totals over an agent's sessions. `cost` is a decimal number; `unpriced_calls` are not in it."""

    sessions: int = 0
    steps: int = 0
    runtime_s: float = 0.0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: str = "0"
    unpriced_calls: int = 0


async def usage_of_agents(db: TenantStore, agent_ids: Sequence[AgentId]) -> dict[AgentId, AgentUsage]:
    """The totals of several agents; one without a session has used nothing.

    Reads two small columns of every session of these agents: some 15 ms for ten thousand sessions.
    """
    rows: defaultdict[AgentId, list[Any]] = defaultdict(list)
    for start in range(0, len(agent_ids), _MAX_NAMED):
        named = filters.one_of("agent_id", agent_ids[start : start + _MAX_NAMED])
        for state in await states_of(db).find(named, columns=["agent_id", "usage"]):
            rows[state.agent_id].append(state.usage)
    return {agent_id: _summed(rows[agent_id]) for agent_id in agent_ids}


def _summed(usages: Sequence[Any]) -> AgentUsage:
    known = [usage for usage in usages if isinstance(usage, dict)]
    cost = Decimal(0)
    for usage in known:
        cost = added(cost, _cost(usage))
    return AgentUsage(
        sessions=len(usages),
        steps=_sum(known, "steps"),
        runtime_s=round(float(sum(usage.get("runtime_s") or 0.0 for usage in known)), 6),
        calls=_sum(known, "calls"),
        input_tokens=_sum(known, "input_tokens"),
        output_tokens=_sum(known, "output_tokens"),
        cost=money_text(cost),
        unpriced_calls=sum(_unpriced(usage) for usage in known),
    )


def _sum(usages: Sequence[dict[str, Any]], name: str) -> int:
    return sum(int(usage.get(name) or 0) for usage in usages)


def _cost(usage: dict[str, Any]) -> Decimal:
    try:
        return money_of(str(usage.get("cost", "0")))
    except ValueError:  # a damaged row must not hide the others
        return Decimal(0)


def _unpriced(usage: dict[str, Any]) -> int:
    """Sessions from before costs were counted have calls without a price."""
    return int(usage.get("unpriced_calls", 0 if "cost" in usage else usage.get("calls", 0)) or 0)
