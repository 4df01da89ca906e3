"""Budgets: what a session, the sessions of an agent or of a conversation, and all of them together may spend.

A change is a new row; the newest row of a scope is in force, and one without limits says that there are none any more.
So the table is also the list of who changed what: state and history are one commit. Crash before it: nothing changed.
After: it is in force, and every worker sees it with its next look. Of two that change one scope at once the later
commit counts; both are in the history.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NewType, assert_never

from store import filters
from store.agent_state import SessionStatus, states_of
from store.codec import RowCodec
from store.database import TenantStore
from store.errors import BadFilterError, NotFoundError
from store.ids import AgentId, ConversationId, SessionId
from store.limits import Limits, limits_of
from store.schema import BUDGETS
from store.scope import ScopedTable
from store.spending import Limit

Scope = NewType("Scope", str)

TOTAL = Scope("total")
#: the kind of the question whether more may be spent
BUDGET_KIND = "budget"
_MAX_HISTORY = 20
_LIVE = (
    SessionStatus.CREATED,
    SessionStatus.RUNNING,
    SessionStatus.WAITING,
    SessionStatus.PAUSED,
    SessionStatus.STOPPING,
)


class ScopeKind(StrEnum):
    """Whose spending a budget is about."""

    SESSION = "session"
    AGENT = "agent"  # all sessions of an agent together
    CONVERSATION = "conversation"  # all sessions that were created in a conversation
    TOTAL = "total"  # all sessions


@dataclass(frozen=True, slots=True)
class Budget:
    """One change of a scope's limits."""

    id: str
    scope: Scope
    #: None takes the budget away
    limits: Any
    updated_at: datetime
    updated_by: str | None


@dataclass(frozen=True, slots=True)
class OwnBudget:
    """The limits that a session was created with."""

    session_id: SessionId
    limits: Limits
    created_at: datetime


CODEC: RowCodec[Budget] = RowCodec(Budget, BUDGETS, json=frozenset({"limits"}))


def budgets_of(db: TenantStore) -> ScopedTable[Budget]:
    """This tenant's changes of budgets."""
    return db.table(CODEC)


def session_scope(session_id: SessionId) -> Scope:
    """What one session spends."""
    return Scope(f"{ScopeKind.SESSION}:{session_id}")


def scopes_of(session_id: SessionId, agent_id: AgentId, conversation_id: ConversationId | None) -> list[Scope]:
    """The scopes that a session's spending counts for, the narrowest first."""
    shared = [Scope(f"{ScopeKind.AGENT}:{agent_id}")]
    if conversation_id is not None:
        shared.append(Scope(f"{ScopeKind.CONVERSATION}:{conversation_id}"))
    return [session_scope(session_id), *shared, TOTAL]


def split_scope(scope: str) -> tuple[ScopeKind, str]:
    """A scope's kind and id (none for all sessions); raises `BadFilterError` for a text that is no scope."""
    kind, colon, key = scope.partition(":")
    if kind not in ScopeKind.__members__.values() or bool(key) != (kind != ScopeKind.TOTAL) or bool(colon) != bool(key):
        raise BadFilterError(
            f"{scope[:60]!r} is no scope; give 'total', 'session:<id>', 'agent:<id>' or 'conversation:<id>'"
        )
    return ScopeKind(kind), key


def scope_words(scope: str) -> str:
    """A scope for people."""
    kind, key = split_scope(scope)
    match kind:
        case ScopeKind.TOTAL:
            return "all sessions"
        case ScopeKind.SESSION:
            return "this session"
        case ScopeKind.AGENT | ScopeKind.CONVERSATION:
            return f"{kind.value} {key!r}"
        case _:
            assert_never(kind)


_UNITS = {
    Limit.TOKENS: "tokens",
    Limit.MONEY: "of money",
    Limit.CALLS: "model calls",
    Limit.STEPS: "steps",
    Limit.TIME_S: "seconds of work",
    Limit.UNPRICED_CALLS: "calls of unknown price",
}


def spent_words(mark: Any) -> str:
    """Why a session is paused, from the mark `{scope, limit, spent, allowed}` that its row carries."""
    limit = Limit(mark["limit"])
    spent, allowed = (f"{value:,}" if isinstance(value, int | float) else value for value in _amounts(mark))
    return f"budget spent: {spent} of {allowed} {_UNITS[limit]} of {scope_words(mark['scope'])}"


def _amounts(mark: Any) -> tuple[Any, Any]:
    return mark["spent"], mark["allowed"]


async def put_budget(db: TenantStore, scope: Scope, limits: Limits, *, by: str | None = None) -> Budget:
    """Put limits in force in place of those that the scope had. Raises `BadFilterError` for a scope that is none."""
    split_scope(scope)
    return await _change(db, scope, limits.row(), by)


async def delete_budget(db: TenantStore, scope: Scope, *, by: str | None = None) -> None:
    """Take a scope's budget away; for a session the limits count again that it was created with.

    Raises `NotFoundError` when it has none.
    """
    await get_budget(db, scope)
    await _change(db, scope, None, by)


async def _change(db: TenantStore, scope: Scope, limits: Any, by: str | None) -> Budget:
    row = Budget(db.ids.new(), scope, limits, db.clock.now(), by)
    await budgets_of(db).append(row)
    return row


async def find_budget(db: TenantStore, scope: Scope) -> Budget | None:
    """The budget that is in force for a scope."""
    changes = await list_changes(db, scope)
    return changes[0] if changes and changes[0].limits is not None else None


async def get_budget(db: TenantStore, scope: Scope) -> Budget:
    """Like `find_budget`; raises `NotFoundError` when there is none."""
    found = await find_budget(db, scope)
    if found is None:
        raise NotFoundError("budget", scope)
    return found


async def list_changes(db: TenantStore, scope: Scope, *, limit: int = _MAX_HISTORY) -> list[Budget]:
    """The last changes of a scope's budget, newest first."""
    rows = await budgets_of(db).created_since(0, filters.equals("scope", scope))
    return [row.item for row in reversed(rows)][:limit]


async def list_budgets(db: TenantStore) -> dict[Scope, Budget]:
    """Every budget that is in force."""
    return in_force([row.item for row in await budgets_of(db).created_since(0)])


def in_force(changes: Iterable[Budget]) -> dict[Scope, Budget]:
    """What holds after some changes, oldest first."""
    newest = {change.scope: change for change in changes}
    return {scope: change for scope, change in newest.items() if change.limits is not None}


async def list_own_budgets(db: TenantStore) -> list[OwnBudget]:
    """The limits that sessions which have not ended were created with."""
    found = await states_of(db).find(
        filters.one_of("status", _LIVE), columns=("session_id", "status", "spec", "created_at")
    )
    return [
        OwnBudget(state.session_id, limits_of(own), state.created_at)
        for state in found
        if isinstance(state.spec, dict) and (own := state.spec.get("budget"))
    ]
