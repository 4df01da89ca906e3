"""Approvals: what sessions ask people, and the answers."""

from __future__ import annotations

from store import ConflictError, approval_action
from store.actions import Action, ActionKind, ApprovalDecision, find_by_idempotency_key
from store.answers import Given, faults_in
from store.approvals import Approval, ApprovalFilter, get_approval, list_approvals
from store.budgets import BUDGET_KIND
from store.ids import ConversationId, SessionId
from store.limits import limits_of
from web.api.control import ActionAccepted
from web.problems import refused
from web.queries import ApprovalsQuery
from web.routes import Answer, Api, Many, One, Operation
from web.schemas import AnswerApproval
from web.shapes import Json, many, shape


async def list_approvals_page(api: Api, *, query: ApprovalsQuery) -> Answer:
    """Questions that wait for an answer; what was asked first comes first."""
    wanted = ApprovalFilter(
        session_id=None if query.session_id is None else SessionId(query.session_id),
        conversation_id=None if query.conversation_id is None else ConversationId(query.conversation_id),
        kind=query.kind,
    )
    page = await list_approvals(api.db, wanted, limit=query.limit, cursor=query.cursor)
    return Answer(many(map(shape, page.items), page.next_cursor))


async def answer_approval(api: Api, *, approval_id: str, body: AnswerApproval) -> Answer:
    """Answer a question. Of two answers the first one counts: the action of the other one fails and says so.

    An answer that does not fit the question is refused here with the field named, and by the worker once more.
    """
    async with api.turns.of(key=body.idempotency_key):
        earlier = await _answered_before(api, approval_id, body)
        if earlier is not None:
            return _accepted(earlier)
        found = await get_approval(api.db, approval_id)
        _check(api, found, body)
        action = await approval_action(
            api.db,
            found.approval_id,
            body.decision,
            result=body.result,
            value=body.value,
            feedback=body.feedback,
            by=body.by,
            digest=found.digest,
            agent_id=found.agent_id,
            session_id=found.session_id,
            idempotency_key=body.idempotency_key,
        )
    return _accepted(action)


async def _answered_before(api: Api, approval_id: str, body: AnswerApproval) -> Action | None:
    """What the key led to before: a request that comes again gets its first answer, also when the question is gone."""
    key = body.idempotency_key
    action = None if key is None else await find_by_idempotency_key(api.db, key)
    if action is None:
        return None
    payload = action.payload if isinstance(action.payload, dict) else {}
    if action.kind is not ActionKind.APPROVAL or payload.get("approval_id") != approval_id:
        raise ConflictError(f"the idempotency_key was used before, for {action.kind.value} {action.id}; give a new one")
    return action


def _check(api: Api, found: Approval, body: AnswerApproval) -> None:
    if body.digest is not None and body.digest != found.digest:
        raise ConflictError(
            f"approval {found.approval_id!r} asks something else now than what was shown; read it again"
        )
    if found.expires_at is not None and api.db.clock.now() >= found.expires_at:
        raise ConflictError(f"the time for an answer was over at {found.expires_at.isoformat()}; the default counts")
    if found.kind == BUDGET_KIND:
        _check_limits(found, body)
        return
    given = Given(body.decision, body.value, body.feedback, body.by, body.result)
    if faults := faults_in(_item(found), given):
        errors = [{"field": fault.field, "message": fault.message} for fault in faults]
        raise refused(422, "the answer does not fit the question", errors=errors)


def _item(found: Approval) -> Json:
    return {"kind": found.kind, "fields": found.fields, "editable": found.editable}


def _accepted(action: Action) -> Answer:
    return Answer({"action_id": action.id, "session_id": action.session_id}, 202)


def _check_limits(asked: Approval, body: AnswerApproval) -> None:
    """Refuse new limits that cannot be used now, not when a worker comes to them."""
    if body.decision not in asked.decisions:
        message = f"{body.decision.value!r} is no answer to this question; give one of: {', '.join(asked.decisions)}"
        raise refused(422, "the answer does not fit", errors=[{"field": "decision", "message": message}])
    if (body.value is not None) != (body.decision is ApprovalDecision.EDIT):
        message = 'new limits belong to the decision edit, which needs some: {"limits": {"tokens": 20000}}'
        raise refused(422, "the answer does not fit", errors=[{"field": "value", "message": message}])
    if body.value is not None:
        limits_of(body.value.get("limits", body.value) if isinstance(body.value, dict) else body.value)


OPERATIONS = (
    Operation(
        "GET",
        "/api/approvals",
        list_approvals_page,
        "approvals",
        "List open questions to people",
        Many(Approval),
        query=ApprovalsQuery,
    ),
    Operation(
        "POST",
        "/api/approvals/{approval_id}",
        answer_approval,
        "approvals",
        "Answer a question",
        One(ActionAccepted),
        202,
        body=AnswerApproval,
        problems=(404, 409),
    ),
)
