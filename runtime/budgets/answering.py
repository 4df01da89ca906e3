"""A person's answer to a session that is paused for a spent budget: more of it, or an end.

    approve   as much again as the spent limit allows
    edit      the limits that the answer gives; what it leaves out stays
    reject    no more: the session ends

Crash before the new limits are stored: the action is open and is handled again. After it: the session goes on, and the
answer that comes again finds its question gone. Handled twice it gives the same limits: they are counted from what the
question says.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from runtime.errors import RefusedError
from runtime.ports import Json
from runtime.session import LiveSession
from store.actions import Action, ApprovalDecision
from store.budgets import BUDGET_KIND, Scope, find_budget, put_budget, session_scope, spent_words
from store.database import TenantStore
from store.limits import BadLimitsError, Limits, amount_of, limits_of
from store.spending import Amount, Limit


def is_about_budget(action: Action) -> bool:
    """Whether an approval answers the question of a spent budget."""
    asked = action.payload.get("approval_id") if isinstance(action.payload, dict) else None
    return isinstance(asked, str) and asked.rsplit(":", 2)[1:2] == [BUDGET_KIND]


def open_question(session: LiveSession, action: Action) -> Json | None:
    """What the session asks, if it is what the action answers."""
    mark = session.budget
    is_it = mark is not None and f"{session.session_id}:{BUDGET_KIND}:{mark['n']}" == action.payload["approval_id"]
    return mark if is_it else None


async def answer_budget(db: TenantStore, session: LiveSession, mark: Json, action: Action) -> str | None:
    """Carry out a person's answer; returns the reason with which the session ends, None when it may go on.

    Raises `RefusedError` for an answer that gives nothing.
    """
    payload, decision = action.payload, action.payload.get("decision")
    by = payload.get("by") or f"answer {action.id}"
    if decision == ApprovalDecision.REJECT:
        feedback = payload.get("feedback")
        return f"{spent_words(mark)}; no more is allowed" + (f": {feedback}" if feedback else "")
    if decision not in (ApprovalDecision.APPROVE, ApprovalDecision.EDIT):
        raise RefusedError(f"the decision is {decision!r}; a spent budget is answered with approve, edit or reject")
    scope = Scope(mark["scope"])
    before = await _limits_now(db, session, scope)
    approves = decision == ApprovalDecision.APPROVE
    given = {mark["limit"]: _as_much_again(mark)} if approves else _given(payload)
    try:
        limits = limits_of({**before.row(), **given})
    except BadLimitsError as error:
        raise RefusedError(f"these limits cannot be used: {error}") from error
    await put_budget(db, scope, limits, by=by)
    return None


async def _limits_now(db: TenantStore, session: LiveSession, scope: Scope) -> Limits:
    stored = await find_budget(db, scope)
    if stored is not None:
        return limits_of(stored.limits)
    own = session.spec.budget if scope == session_scope(session.session_id) else None
    return own or Limits()


def _as_much_again(mark: Json) -> Amount:
    limit = Limit(mark["limit"])
    spent, allowed = amount_of(limit, mark["spent"]), amount_of(limit, mark["allowed"])
    if not allowed and limit is not Limit.UNPRICED_CALLS:
        raise RefusedError(f"{limit.value} is limited to 0, and as much again is 0; answer edit with limits")
    if limit is Limit.UNPRICED_CALLS:
        return _plus(spent, 1)
    return _plus(max(spent, allowed), allowed)


def _plus(one: Amount, other: Amount) -> Amount:
    if isinstance(one, Decimal) or isinstance(other, Decimal):
        return Decimal(one) + Decimal(other)
    return one + other


def _given(payload: Json) -> dict[str, Any]:
    value = payload.get("value")
    limits = value.get("limits", value) if isinstance(value, dict) else None
    if not isinstance(limits, dict) or not limits:
        raise RefusedError('edit needs the new limits in value, such as {"limits": {"tokens": 20000}}')
    return limits
