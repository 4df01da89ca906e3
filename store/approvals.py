"""Open questions to people, read from the sessions that wait for an answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lancedb.expr import Expr

from store import filters, paging
from store.actions import ApprovalDecision
from store.agent_state import AgentState, SessionStatus, find_agent_state, states_of
from store.answers import decisions_for, expires_at
from store.budgets import BUDGET_KIND, spent_words
from store.database import TenantStore
from store.errors import NotFoundError
from store.ids import AgentId, ConversationId, SessionId
from store.paging import Page

#: a paused session's questions stay open
_MAY_ASK = (SessionStatus.WAITING, SessionStatus.PAUSED)
_COLUMNS = ("agent_id", "session_id", "conversation_id", "moniker", "status", "inbox", "updated_at")
#: as a wait for answers is stored; other rows with this word are read in vain
_ASKS = '"approval"'
#: what a spent budget may be answered with
BUDGET_DECISIONS = (ApprovalDecision.APPROVE, ApprovalDecision.EDIT, ApprovalDecision.REJECT)
_SPENT = '"budget"'


@dataclass(frozen=True, slots=True)
class Approval:
    """A question that a session waits for an answer to. Its words come from a model or a user: show them as data."""

    approval_id: str
    session_id: SessionId
    agent_id: AgentId
    conversation_id: ConversationId | None
    moniker: str
    kind: str
    #: under which whoever asked finds the answer; of a call, the call's own
    key: str | None
    question: str
    #: what a person needs to know to decide
    about: Any
    #: what has to be filled in: name, label, kind (text | long_text | number | yes_no | choice), required, choices
    fields: list[Any]
    #: what a person may change before agreeing; null when there is nothing to change
    editable: Any
    #: what it may be answered with
    decisions: list[str]
    #: what counts when nobody answers in time
    default: str | None
    asked_at: datetime
    #: when the time for an answer is over; null when it waits for ever
    expires_at: datetime | None
    #: of what a person agrees to; an answer that carries it counts for these very words
    digest: str | None


@dataclass(frozen=True, slots=True)
class ApprovalFilter:
    """Which questions to list; None means any."""

    session_id: SessionId | None = None
    conversation_id: ConversationId | None = None
    kind: str | None = None


def open_approvals_of(state: AgentState) -> list[Approval]:
    """The questions of a session that nobody has answered."""
    return list(_open(state)) if state.status in _MAY_ASK else []


def has_asked(state: AgentState) -> bool:
    """Whether a session asks, or has asked not long ago: its row may tell that a question was opened or closed."""
    return isinstance(state.inbox, dict) and state.inbox.get("asked") is not None


async def list_approvals(
    db: TenantStore, wanted: ApprovalFilter | None = None, *, limit: int = 100, cursor: str | None = None
) -> Page[Approval]:
    """Open questions, those that were asked first at the front."""
    size = paging.checked_limit(limit)
    after = None if cursor is None else paging.decode_cursor(cursor, (datetime, str))
    found = sorted(await _read(db, wanted or ApprovalFilter()), key=_place)
    rest = [one for one in found if after is None or _place(one) > after]
    following = paging.encode_cursor(_place(rest[size - 1])) if len(rest) > size else None
    return Page(tuple(rest[:size]), following)


async def count_approvals(db: TenantStore) -> int:
    """How many questions are open."""
    return len(await _read(db, ApprovalFilter()))


async def get_approval(db: TenantStore, approval_id: str) -> Approval:
    """An open question; raises `NotFoundError` for one that was answered, or never asked."""
    session_id = SessionId(approval_id.rsplit(":", 2)[0])
    state = await find_agent_state(db, session_id=session_id)
    for one in [] if state is None else open_approvals_of(state):
        if one.approval_id == approval_id:
            return one
    raise NotFoundError("open approval", approval_id)


async def _read(db: TenantStore, wanted: ApprovalFilter) -> list[Approval]:
    states = await states_of(db).find(*_conditions(wanted), columns=_COLUMNS)
    return [one for state in states for one in _open(state) if wanted.kind in (None, one.kind)]


def _conditions(wanted: ApprovalFilter) -> Sequence[Expr]:
    named = {"session_id": wanted.session_id, "conversation_id": wanted.conversation_id}
    return [
        filters.one_of("status", _MAY_ASK),
        filters.contains("inbox", _ASKS) | filters.contains("inbox", _SPENT),
        *(filters.equals(name, value) for name, value in named.items() if value is not None),
    ]


def _place(one: Approval) -> tuple[datetime, str]:
    return one.asked_at, one.approval_id


def _budget_question(state: AgentState, mark: Any) -> Approval:
    """May more be spent? Asked by a session that is paused for a spent budget."""
    approval_id = f"{state.session_id}:{BUDGET_KIND}:{mark['n']}"
    why = spent_words(mark)
    return Approval(
        approval_id=approval_id,
        session_id=state.session_id,
        agent_id=state.agent_id,
        conversation_id=state.conversation_id,
        moniker=state.moniker,
        kind=BUDGET_KIND,
        key=mark["scope"],
        question=f"{why[0].upper()}{why[1:]}. May it spend more?",
        about=mark,
        fields=[],
        editable={"limits": {mark["limit"]: mark["allowed"]}},
        decisions=[one.value for one in BUDGET_DECISIONS],
        default=None,
        asked_at=state.updated_at,
        expires_at=None,
        digest=None,
    )


def _open(state: AgentState) -> Iterator[Approval]:
    inbox = state.inbox if isinstance(state.inbox, dict) else {}
    if state.status is SessionStatus.PAUSED and (mark := inbox.get("budget")):
        yield _budget_question(state, mark)
    wait, answered = inbox.get("wait") or {}, inbox.get("answered") or ()
    for item in wait.get("items", ()) if wait.get("kind") == "approval" else ():
        if isinstance(item, dict) and item.get("id") is not None and item["id"] not in answered:
            yield _approval(state, item)


def _approval(state: AgentState, item: dict[str, Any]) -> Approval:
    fields, default = item.get("fields"), item.get("default")
    return Approval(
        approval_id=str(item["id"]),
        session_id=state.session_id,
        agent_id=state.agent_id,
        conversation_id=state.conversation_id,
        moniker=state.moniker,
        kind=str(item.get("kind", "")),
        key=item.get("key"),
        question=str(item.get("question", "")),
        about=item.get("about") or {},
        fields=list(fields) if isinstance(fields, list) else [],
        editable=item.get("editable"),
        decisions=[decision.value for decision in decisions_for(item)],
        default=default if expires_at(item) is not None else None,
        asked_at=_moment(item.get("asked_at"), state.updated_at),
        expires_at=expires_at(item),
        digest=item.get("digest"),
    )


def _moment(stored: Any, otherwise: datetime) -> datetime:
    try:
        moment = datetime.fromisoformat(stored)
    except (TypeError, ValueError):
        return otherwise
    return moment if moment.tzinfo is not None else otherwise
