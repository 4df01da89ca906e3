"""When a call has to be agreed to by a person, what they are asked, and what their answer makes of the call.

An approval is for one call, to the last byte (S33). The key of the question is a hash of the tool as the model is told
of it, the arguments, the session, the agent and the call's place in the step: when one of them changes there is no
answer under the new key, and a new question is asked. What a person is shown, and what their answer is stored with,
also has the epoch in which it was asked (`approval_key`).
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, assert_never

from runtime.approvals.port import Answer, Decision, Question, QuestionKind
from runtime.guard.taint import Call as FlaggedCall
from runtime.guard.taint import May, Taint, ToolFlags, may_run
from runtime.tools.approving import ApprovalKey
from runtime.tools.result import Call, ToolErrorKind, ToolResult
from runtime.tools.schema import Json
from runtime.tools.tool import Tool

_KEY_CHARS = 16
_FEEDBACK_CHARS = 4_000


def why_asked(tool: Tool, call: Call, taint: Taint) -> str | None:
    """Why a person has to agree to `call` in a context of this `taint`; None when nobody has to."""
    flags = ToolFlags(
        tool.name,
        read_only=tool.read_only,
        idempotent=tool.idempotent,
        needs_approval=tool.needs_approval,
        reaches_out=tool.reaches_out or tool.foreign,
    )
    permission = may_run(flags, FlaggedCall(tool.name, digest_of(call)), taint, frozenset())
    match permission.may:
        case May.RUN:
            return None
        case May.ASK:
            return permission.reason
        case _:
            assert_never(permission.may)


def digest_of(call: Call) -> str:
    """A hash of what is called with which arguments."""
    return hashlib.sha256(json.dumps([call.name, call.arguments], sort_keys=True).encode()).hexdigest()


def question_key(key: str, bound: ApprovalKey | str) -> str:
    """The key of the question about the call `key`: another one for other bytes."""
    return f"{key}:{bound[:_KEY_CHARS]}"


def question_of(call: Call, bound: ApprovalKey | str, why: str, epoch: int, about: Json | None = None) -> Question:
    """What people are asked about a call; `about` says more of where it comes from."""
    shown = {
        "tool": call.name,
        "arguments": call.arguments,
        "approval_key": hashlib.sha256(f"{bound}:{epoch}".encode()).hexdigest(),
        "why": why,
        **(about or {}),
    }
    return Question(
        kind=QuestionKind.TOOL_CALL,
        question=f"May {call.name} be called with these arguments?",
        about=shown,
        editable=call.arguments,
    )


def judged(call: Call, answer: Answer) -> Call | ToolResult:
    """The call that a person agreed to, or what the model is told instead."""
    match answer.decision:
        case Decision.APPROVE:
            return call
        case Decision.EDIT:
            return _edited(call, answer.value)
        case Decision.REJECT:
            return _refused(call, f"{refusal(answer)} Do not try the same call again")
        case Decision.RETRY:
            return _refused(call, f"{refusal(answer)} Try it differently")
        case _:
            assert_never(answer.decision)


def refusal(answer: Answer) -> str:
    """A person's no, in a sentence."""
    said = (answer.feedback or "").strip()[:_FEEDBACK_CHARS]
    who = "nobody agreed in time" if answer.timed_out else "a person did not agree"
    return f"{who}: {said.rstrip('.')}." if said else f"{who}."


def _edited(call: Call, value: Any) -> Call | ToolResult:
    if not isinstance(value, dict):
        message = f"{call.name} was not run: the arguments that a person gave are no object"
        return ToolResult(call=call, ok=False, content=f"{message}.", error=ToolErrorKind.BAD_ARGUMENTS)
    return call.model_copy(update={"arguments": value})


def _refused(call: Call, message: str) -> ToolResult:
    return ToolResult(call=call, ok=False, content=f"{call.name} was not run: {message}.", error=ToolErrorKind.REJECTED)
