"""Budgets: what may be spent, what was spent, and who changed it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from typing_extensions import TypedDict

from store import TenantStore
from store.agent_state import AgentState, find_agent_state
from store.budgets import (
    Budget,
    Scope,
    ScopeKind,
    delete_budget,
    find_budget,
    list_budgets,
    list_changes,
    list_own_budgets,
    put_budget,
    scopes_of,
    session_scope,
    split_scope,
)
from store.errors import NotFoundError
from store.ids import SessionId
from store.limits import Limits, limits_of, plain_amount
from store.paging import checked_limit, decode_cursor, encode_cursor
from store.spending import Limit, Spent, spent_of
from store.spendingsums import FollowedSpending, SpendingSums
from web.queries import PageQuery
from web.routes import Answer, Api, Many, One, Operation
from web.schemas import PutBudget
from web.shapes import Json, many, time_of

_BY_CREATE: Final = "its create"


class BudgetChange(TypedDict):
    """One change of a budget; without limits it was taken away."""

    limits: Any
    updated_at: datetime
    updated_by: str | None


class ShownBudget(TypedDict):
    """What a scope may spend, what it has spent and what is left. Money is text, in the currency of models.toml."""

    scope: str
    kind: ScopeKind
    id: str | None
    limits: Any
    spent: Any
    left: Any
    is_spent: bool
    updated_at: datetime
    updated_by: str | None


class BudgetWithHistory(ShownBudget):
    """A budget with its last changes, newest first."""

    changes: list[BudgetChange]


class BudgetDeleted(TypedDict):
    """What is gone."""

    scope: str
    deleted: bool


async def list_budgets_page(api: Api, *, query: PageQuery) -> Answer:
    """Every budget, by scope: those that were set, and those that living sessions were created with."""
    page = await budgets_page(api.db, limit=query.limit, cursor=query.cursor)
    return Answer(page)


async def show_budget(api: Api, *, scope: str) -> Answer:
    """One budget with what was spent and its last changes."""
    found = await budget_shape(api.db, Scope(scope))
    if found is None:
        raise NotFoundError("budget", scope)
    return Answer(await _with_history(api.db, found))


async def set_budget(api: Api, *, scope: str, body: PutBudget) -> Answer:
    """Put limits in force in place of the old ones. Sessions that were paused for the old ones go on by themselves."""
    await put_budget(api.db, Scope(scope), limits_of(body.limits.model_dump(exclude_none=True)), by=body.updated_by)
    found = await budget_shape(api.db, Scope(scope))
    if found is None:
        raise NotFoundError("budget", scope)  # taken away by somebody else meanwhile
    return Answer(await _with_history(api.db, found))


async def remove_budget(api: Api, *, scope: str) -> Answer:
    """Limit it no more; for a session the limits count again that it was created with."""
    await delete_budget(api.db, Scope(scope))
    return Answer({"scope": scope, "deleted": True})


async def budgets_page(db: TenantStore, *, limit: int, cursor: str | None) -> Json:
    """A page of budgets in their wire shape, by scope."""
    size = checked_limit(limit)
    after = "" if cursor is None else decode_cursor(cursor, (str,))[0]
    sums = await spending_of(db)
    found: dict[Scope, Json] = {}
    for own in await list_own_budgets(db):
        scope = session_scope(own.session_id)
        found[scope] = _shape(scope, own.limits, sums.of_session(own.session_id), own.created_at, _BY_CREATE)
    for scope, budget in (await list_budgets(db)).items():
        found[scope] = _stored_shape(budget, sums)
    rest = sorted(scope for scope in found if scope > after)
    following = encode_cursor([rest[size - 1]]) if len(rest) > size else None
    return many([found[scope] for scope in rest[:size]], following)


async def budget_shape(db: TenantStore, scope: Scope) -> Json | None:
    """A budget in its wire shape, be it one that a session was created with; None when there is none."""
    kind, key = split_scope(scope)
    stored = await find_budget(db, scope)
    if stored is not None:
        return _stored_shape(stored, await spending_of(db))
    state = await find_agent_state(db, session_id=SessionId(key)) if kind is ScopeKind.SESSION else None
    return None if state is None else _own_shape(state)


async def budgets_of_session(db: TenantStore, state: AgentState) -> list[Json]:
    """The budgets that apply to a session, its own first."""
    stored = await list_budgets(db)
    own, *shared = scopes_of(state.session_id, state.agent_id, state.conversation_id)
    applying = [stored[scope] for scope in (own, *shared) if scope in stored]
    sums = await spending_of(db) if applying else SpendingSums()
    found = [_stored_shape(budget, sums) for budget in applying]
    created_with = None if own in stored else _own_shape(state)
    return found if created_with is None else [created_with, *found]


async def spending_of(db: TenantStore) -> SpendingSums:
    """What was spent by now, as the sessions' rows tell it."""
    return await db.view("spending", lambda: FollowedSpending(db)).refresh()


def _own_shape(state: AgentState) -> Json | None:
    """The limits that a session was created with; None when there are none."""
    if not isinstance(state.spec, dict) or not (own := state.spec.get("budget")):
        return None
    return _shape(session_scope(state.session_id), limits_of(own), spent_of(state.usage), state.created_at, _BY_CREATE)


def _stored_shape(budget: Budget, sums: SpendingSums) -> Json:
    kind, key = split_scope(budget.scope)
    spent = sums.of_session(SessionId(key)) if kind is ScopeKind.SESSION else sums.of(budget.scope)
    return _shape(budget.scope, limits_of(budget.limits), spent, budget.updated_at, budget.updated_by)


def _shape(scope: Scope, limits: Limits, spent: Spent, updated_at: datetime, by: str | None) -> Json:
    kind, key = split_scope(scope)
    return {
        "scope": scope,
        "kind": kind.value,
        "id": key or None,
        "limits": limits.row(),
        "spent": _spent_row(spent),
        "left": {limit.value: plain_amount(rest) for limit, rest in limits.left(spent).items()},
        "is_spent": limits.first_spent(spent) is not None,
        "updated_at": time_of(updated_at),
        "updated_by": by,
    }


def _spent_row(spent: Spent) -> Json:
    return {limit.value: plain_amount(spent.of(limit)) for limit in Limit}


async def _with_history(db: TenantStore, found: Json) -> Json:
    changes = await list_changes(db, Scope(found["scope"]))
    told = [
        {"limits": one.limits, "updated_at": time_of(one.updated_at), "updated_by": one.updated_by} for one in changes
    ]
    return {**found, "changes": told}


OPERATIONS = (
    Operation(
        "GET",
        "/api/budgets",
        list_budgets_page,
        "budgets",
        "List budgets with what was spent",
        Many(ShownBudget),
        query=PageQuery,
    ),
    Operation(
        "GET",
        "/api/budgets/{scope}",
        show_budget,
        "budgets",
        "One budget: total, session:<id>, agent:<id> or conversation:<id>",
        One(BudgetWithHistory),
        problems=(404,),
    ),
    Operation(
        "PUT",
        "/api/budgets/{scope}",
        set_budget,
        "budgets",
        "Set or raise a budget",
        One(BudgetWithHistory),
        body=PutBudget,
        problems=(404,),
    ),
    Operation(
        "DELETE",
        "/api/budgets/{scope}",
        remove_budget,
        "budgets",
        "Take a budget away",
        One(BudgetDeleted),
        problems=(404,),
    ),
)
