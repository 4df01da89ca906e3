"""What calls used and what they cost: of one step, and of a session up to a step, as rows and people see it.

A row tells nothing of calls before there were any, so the steps of a moniker that asks no model cost nothing more. A
call whose price is not known is counted apart (`unpriced_calls`): `cost` is then a part of what was spent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pydantic import ValidationError

from runtime.llm.money import NO_COSTS, CallCosts
from runtime.llm.port import NO_USAGE, ChatReply, EmbeddingReply, Usage
from runtime.ports import Json
from store.money import money_of, money_text


@dataclass(frozen=True, slots=True)
class Used:
    """What several calls used and cost together."""

    usage: Usage = NO_USAGE
    costs: CallCosts = NO_COSTS

    @property
    def is_nothing(self) -> bool:
        """Whether no model was asked, as in most steps: so this is cheap to say."""
        return self.usage is NO_USAGE or self == _NOTHING

    def plus(self, other: Used) -> Used:
        """The sum of two."""
        return Used(self.usage.plus(other.usage), self.costs.plus_all(other.costs))

    def row(self) -> Json:
        """As a row has it: `calls`, `input_tokens`, `output_tokens`, and once there were calls `cost` and
        `unpriced_calls`. The cost is a decimal number as text, to the last digit."""
        told = {name: getattr(self.usage, name) for name in ("calls", "input_tokens", "output_tokens")}
        if self.is_nothing:
            return told
        return {**told, "cost": money_text(self.costs.known), "unpriced_calls": self.costs.unpriced_calls}


_NOTHING = Used()
_TOLD = ("calls", "input_tokens", "output_tokens", "cost", "unpriced_calls")


def used_of_row(row: Mapping[str, Any]) -> Used:
    """What a row tells; a row from before costs were counted tells of calls without a price."""
    calls = row.get("calls", 0)
    usage = Usage(calls=calls, input_tokens=row.get("input_tokens", 0), output_tokens=row.get("output_tokens", 0))
    return Used(
        usage, CallCosts(money_of(row.get("cost", "0")), row.get("unpriced_calls", 0 if "cost" in row else calls))
    )


class Bill:
    """What the model calls inside of one recorded call have used, as whoever makes them tells it.

    It becomes a part of the call's record, also of a call that failed after it was paid: whoever reads records knows
    what was spent.
    """

    def __init__(self) -> None:
        self.used = _NOTHING
        #: a call inside of this one has told what it used
        self.is_told_inside = False
        self._model = ""
        self._provider = ""
        self._is_priced = False

    def add(self, reply: ChatReply | EmbeddingReply) -> None:
        """One more answer."""
        self._take(reply.usage, reply.cost, reply.model)
        self._provider = reply.attempts[-1].provider if reply.attempts else self._provider

    def add_told(self, told: Any) -> None:
        """One more answer, as a moniker tells it that calls a model by itself: `{"model"?, "usage"?, "cost"?}`."""
        if self.is_told_inside:
            return
        found = told if isinstance(told, Mapping) else {}
        usage, cost = _counted(found.get("usage")), _cost(found.get("cost"))
        self._take(usage.model_copy(update={"calls": max(1, usage.calls)}), cost, str(found.get("model") or ""))

    def _take(self, usage: Usage, cost: Decimal | None, model: str) -> None:
        self.used = self.used.plus(Used(usage, CallCosts().plus(cost, calls=usage.calls)))
        self._model = self._model or model
        self._is_priced = self._is_priced or cost is not None

    def told(self) -> Json:
        """As records and traces tell of it: `model`, `provider` where several are known, `usage`, and `cost` where it
        is known; {} when none was asked."""
        if self.used == _NOTHING and not self._model:
            return {}
        usage, costs = self.used.usage.model_dump(mode="json"), self.used.costs
        who = {"model": self._model, **({"provider": self._provider} if self._provider else {})}
        if not self._is_priced:
            return {**who, "usage": usage}
        unpriced = {"unpriced_calls": costs.unpriced_calls} if costs.unpriced_calls else {}
        return {**who, "usage": {**usage, **unpriced}, "cost": str(costs.known)}


def used_as_told(told: Any) -> Used:
    """What a record says that its model calls took (see `Bill.told`); nothing where it says nothing."""
    if not isinstance(told, Mapping) or not isinstance(told.get("usage"), Mapping):
        return _NOTHING
    usage, cost = _counted(told["usage"]), _cost(told.get("cost"))
    unpriced = told["usage"].get("unpriced_calls", 0) if cost is not None else usage.calls
    return Used(usage, CallCosts(cost or Decimal(0), unpriced))


def _counted(usage: Any) -> Usage:
    found = usage if isinstance(usage, Mapping) else {}
    try:
        return Usage.model_validate({name: found[name] for name in Usage.model_fields if name in found})
    except ValidationError:
        return Usage()


def _cost(told: Any) -> Decimal | None:
    try:
        return None if told is None else money_of(str(told))
    except ValueError:  # a cost that cannot be read is a cost that nobody knows
        return None


def totals(before: Mapping[str, Any], step: Used) -> Json:
    """The totals after a step that used `step`; what the step used alone is in `step`, when it used anything."""
    if step.is_nothing and "calls" in before and ("unpriced_calls" in before or before["calls"] == 0):
        return {name: before[name] for name in _TOLD if name in before}
    row = used_of_row(before).plus(step).row()
    return row if step.is_nothing else {**row, "step": step.row()}
