"""Answers become records of the step that asked, one for each question, and the session goes on.

An answer comes from a person, as an action, or from the time, when a question's own is over. Both are taken inside the
session's lane, one after the other, and the first one counts: its record has the question's id.

Crash before the record: the answer's action is open and is handled again (the time is over still). Between the record
and the session's row: whoever is next finds the record and notes what it says, so it counts once. After: the question
is open no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from runtime.approvals.port import Answer, Decision
from runtime.calls import RecordKind
from runtime.errors import RefusedError
from runtime.ports import Json
from runtime.session import LiveSession
from runtime.stepcalls import asked_key
from store import filters
from store.actions import Action, ActionKind, ApprovalDecision, list_open_actions_of_session
from store.answers import UNSAFE_CALL, Given, expires_at, faults_in, is_late
from store.database import TenantStore
from store.records import Record, append_record, records_of


class Said(BaseModel):
    """The payload of an approval action."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    approval_id: str
    decision: ApprovalDecision
    value: Any = None
    feedback: str | None = None
    by: str | None = None
    result: Any = None
    digest: str | None = None

    def given(self) -> Given:
        return Given(self.decision, self.value, self.feedback, self.by, self.result, self.digest)


@dataclass(frozen=True, slots=True)
class Settled:
    """The answer that counts for an item. Its record is stored; the session has to note it."""

    item_id: str
    answer: Json
    #: why the action that was handled is refused although there is an answer: another one was first
    refused: str | None = None

    def note_in(self, session: LiveSession) -> None:
        """Have the session know it; raises `RefusedError` for who came second."""
        session.take_answer(self.item_id, self.answer)
        if self.refused is not None:
            raise RefusedError(self.refused)


def read_answer(action: Action) -> Said:
    """The answer in an action; raises `RefusedError`."""
    try:
        return Said.model_validate(action.payload)
    except ValidationError as error:
        found = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        raise RefusedError(f"the payload of approval cannot be used: {found}") from error


async def settle_by_person(db: TenantStore, session: LiveSession, action: Action) -> Settled:
    """Store a person's answer to an item of `session`, or find the one that was first.

    Raises `RefusedError` for an item that is not open, or an answer that does not fit it. Call it inside the session's
    lane. The session may have left memory when this returns: note what is settled in the one that is there then.
    """
    said = read_answer(action)
    item = next((item for item in session.open_items if item.get("id") == said.approval_id), None)
    stored = await _find_answer(db, session, said.approval_id)
    if stored is not None:
        return _settled_before(said.approval_id, stored, action)
    if item is None:
        raise RefusedError(
            f"approval {said.approval_id!r} is not open: it was answered, or its session went on, or never asked it"
        )
    _check(item, said, action)
    answer = _answer_of(said)
    await append_record(db, _record(db, session, item, said.decision, answer, action))
    return Settled(said.approval_id, answer)


def due_items(session: LiveSession, now: datetime) -> list[Json]:
    """The open items of `session` whose time is over."""
    return [item for item in session.open_items if is_late(item, now)]


async def settle_by_time(db: TenantStore, session: LiveSession, items: Sequence[Json]) -> list[Settled]:
    """Store what counts for items whose time is over: what a person said before that and nobody took up yet, else the
    default. Call it inside the session's lane, as `settle_by_person`.
    """
    waiting = [
        action
        for action in await list_open_actions_of_session(db, session.session_id)
        if action.kind is ActionKind.APPROVAL
    ]
    return [await _settle_due(db, session, item, waiting) for item in items]


async def _settle_due(db: TenantStore, session: LiveSession, item: Json, waiting: Sequence[Action]) -> Settled:
    for action in waiting:  # oldest first
        try:
            if read_answer(action).approval_id == item["id"]:
                settled = await settle_by_person(db, session, action)
                return Settled(settled.item_id, settled.answer)
        except RefusedError:  # it is told so when its own turn comes
            continue
    stored = await _find_answer(db, session, str(item["id"]))
    if stored is not None:
        return Settled(str(item["id"]), _json(stored.result))
    decision = ApprovalDecision(str(item.get("default") or Decision.REJECT))
    answer = Answer(decision=Decision(decision.value), timed_out=True).model_dump(mode="json")
    await append_record(db, _record(db, session, item, decision, answer, None))
    return Settled(str(item["id"]), answer)


def _check(item: Json, said: Said, action: Action) -> None:
    if said.digest is not None and said.digest != item.get("digest"):
        raise RefusedError(f"approval {said.approval_id!r} asks something else than was answered; look at it again")
    if is_late(item, action.created_at):
        ends = expires_at(item)
        raise RefusedError(f"approval {said.approval_id!r} was answered too late: its time was over at {ends}")
    if faults := faults_in(item, said.given()):
        found = "; ".join(map(str, faults))
        raise RefusedError(f"the answer to approval {said.approval_id!r} cannot be used: {found}")


def _settled_before(item_id: str, stored: Record, action: Action) -> Settled:
    facts, answer = _json(stored.usage), _json(stored.result)
    if facts.get("action_id") == action.id:
        return Settled(item_id, answer)
    first = "the time" if facts.get("action_id") is None else f"action {facts['action_id']}"
    said = f"approval {item_id!r} is not open: it was answered {facts.get('decision')!r} by {first}"
    return Settled(item_id, answer, said)


def _answer_of(said: Said) -> Json:
    """A person's answer as its record holds it; of one about a call it is the call's result."""
    if said.decision.value not in set(Decision):
        return {"result": said.result}
    decision = Decision(said.decision.value)
    return Answer(decision=decision, value=said.value, feedback=said.feedback, by=said.by).model_dump(mode="json")


def _json(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


async def _find_answer(db: TenantStore, session: LiveSession, item_id: str) -> Record | None:
    """The record of the answer to an item. Should two owners have stored one each, the later owner's counts."""
    found = await records_of(db).created_since(
        0, filters.equals("session_id", session.session_id), filters.equals("id", _record_id(item_id))
    )
    return max(found, key=lambda row: (row.item.epoch, row.version)).item if found else None


def _record_id(item_id: str) -> str:
    return f"answer:{item_id}"


def _record(
    db: TenantStore,
    session: LiveSession,
    item: Json,
    decision: ApprovalDecision,
    answer: Json,
    action: Action | None,
) -> Record:
    # It belongs to the try that follows: the row that asked is stored, the next one is not.
    about_a_call = item.get("kind") == UNSAFE_CALL
    facts = {
        "question": item.get("kind"),
        "decision": decision.value,
        "timed_out": action is None,
        "action_id": None if action is None else action.id,
    }
    return Record(
        id=_record_id(str(item["id"])),
        created_at=db.clock.now(),
        session_id=session.session_id,
        iteration=session.steps,
        event_seq=0,
        key=_key_of(item),
        kind=decision.value if about_a_call else RecordKind.ANSWER,
        digest="" if about_a_call else str(item.get("digest", "")),
        result=answer["result"] if about_a_call else answer,
        usage=facts,
        latency_ms=0.0,
        epoch=session.epoch,
    )


def _key_of(item: Json) -> str:
    """The key under which the step finds the answer; of an item between two steps the frame has it."""
    key = str(item["key"])
    if item.get("kind") == UNSAFE_CALL:
        return key
    return asked_key(key) if item.get("in_step") else f"wait:{key}"
