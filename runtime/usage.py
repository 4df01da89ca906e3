"""What calls used and what they cost: of one step, and of a session up to a step, as rows and people see it.

A row tells nothing of calls before there were any, so the steps of a moniker that asks no model cost nothing more. A
call whose price is not known is counted apart (`unpriced_calls`): `cost` is then a part of what was spent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runtime.llm.money import CallCosts
from runtime.llm.port import Usage
from runtime.ports import Json
from store.money import money_of, money_text


@dataclass(frozen=True, slots=True)
class Used:
    """What several calls used and cost together."""

    usage: Usage = field(default_factory=Usage)
    costs: CallCosts = field(default_factory=CallCosts)

    def plus(self, other: Used) -> Used:
        """The sum of two."""
        return Used(self.usage.plus(other.usage), self.costs.plus_all(other.costs))

    def row(self) -> Json:
        """As a row has it: `calls`, `input_tokens`, `output_tokens`, and once there were calls `cost` and
        `unpriced_calls`. The cost is a decimal number as text, to the last digit."""
        told = {name: getattr(self.usage, name) for name in ("calls", "input_tokens", "output_tokens")}
        if self == _NOTHING:
            return told
        return {**told, "cost": money_text(self.costs.known), "unpriced_calls": self.costs.unpriced_calls}


_NOTHING = Used()


def used_of_row(row: Mapping[str, Any]) -> Used:
    """What a row tells; a row from before costs were counted tells of calls without a price."""
    calls = row.get("calls", 0)
    usage = Usage(calls=calls, input_tokens=row.get("input_tokens", 0), output_tokens=row.get("output_tokens", 0))
    return Used(
        usage, CallCosts(money_of(row.get("cost", "0")), row.get("unpriced_calls", 0 if "cost" in row else calls))
    )


def totals(before: Mapping[str, Any], step: Used) -> Json:
    """The totals after a step that used `step`; what the step used alone is in `step`, when it used anything."""
    row = used_of_row(before).plus(step).row()
    return row if step == _NOTHING else {**row, "step": step.row()}
