"""What may be answered to a question: one rule for the web process, which tells at once, and the worker, which decides.

An item is a question as a session keeps it: {"id", "key", "kind", "question", "about", "fields", "editable", "default",
"asked_at", "expires_at", "digest", ...}. Of kinds that nobody knows here the common rule holds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from store.actions import ApprovalDecision
from store.jsontext import json_dumps

#: asks about a call which may have been made
UNSAFE_CALL: Final = "unsafe_call"
ABOUT_A_CALL: Final = (ApprovalDecision.REPEAT, ApprovalDecision.DONE, ApprovalDecision.FAIL)
ABOUT_A_MATTER: Final = (
    ApprovalDecision.APPROVE,
    ApprovalDecision.REJECT,
    ApprovalDecision.EDIT,
    ApprovalDecision.RETRY,
)
MAX_TEXT_CHARS: Final = 100_000
_SHOWN_CHARS: Final = 80
#: the parts of a question that a person agrees to; another byte in them is another question
_BOUND: Final = ("kind", "question", "about", "fields", "editable")


@dataclass(frozen=True, slots=True)
class Given:
    """What a person gives as an answer."""

    decision: ApprovalDecision
    #: what was changed or filled in
    value: Any = None
    feedback: str | None = None
    #: who says so, as the client tells it; nobody has checked it
    by: str | None = None
    #: what a call answered, with DONE
    result: Any = None
    #: the digest of the question as the person saw it
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that keeps an answer from being taken."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def question_digest(question: Mapping[str, Any]) -> str:
    """A hash of all that a person agrees to or not; the same for the same question, however often it is asked."""
    return hashlib.sha256(json_dumps([question.get(name) for name in _BOUND]).encode()).hexdigest()[:32]


def decisions_for(item: Mapping[str, Any]) -> tuple[ApprovalDecision, ...]:
    """The decisions that an item may be answered with."""
    if item.get("kind") == UNSAFE_CALL:
        return ABOUT_A_CALL
    if _fields(item) or item.get("editable") is not None:
        return ABOUT_A_MATTER
    return tuple(decision for decision in ABOUT_A_MATTER if decision is not ApprovalDecision.EDIT)


def expires_at(item: Mapping[str, Any]) -> datetime | None:
    """The moment from which on the question's default is its answer; None when it waits for ever."""
    stored = item.get("expires_at")
    try:
        moment = datetime.fromisoformat(stored) if isinstance(stored, str) else None
    except ValueError:
        return None
    return moment if moment is None or moment.tzinfo is not None else None


def is_late(item: Mapping[str, Any], moment: datetime) -> bool:
    """Whether an answer that is given at `moment` comes too late."""
    ends = expires_at(item)
    return ends is not None and moment >= ends


def faults_in(item: Mapping[str, Any], given: Given) -> list[Fault]:
    """All that is wrong with an answer to `item`; nothing when it can be taken."""
    allowed = decisions_for(item)
    if given.decision not in allowed:
        words = ", ".join(allowed)
        return [Fault("decision", f"{given.decision.value!r} is no answer to this question; give one of: {words}")]
    found = _result_faults(given)
    if given.decision is ApprovalDecision.EDIT and given.value is None:
        return [*found, Fault("value", "an edit needs the value that was changed or filled in")]
    if given.decision in (ApprovalDecision.APPROVE, ApprovalDecision.EDIT):
        return [*found, *(_form_faults(item, given.value) if _fields(item) else _edit_faults(item, given))]
    if given.value is not None:
        found.append(Fault("value", f"a value belongs to 'edit', or to a form, not to {given.decision.value!r}"))
    return found


def _result_faults(given: Given) -> list[Fault]:
    if given.result is None or given.decision is ApprovalDecision.DONE:
        return []
    return [Fault("result", "a result belongs to the decision 'done'")]


def _edit_faults(item: Mapping[str, Any], given: Given) -> list[Fault]:
    if given.decision is ApprovalDecision.EDIT:
        return _unlike(item.get("editable"), given.value, "value")
    if given.value is None:
        return []
    return [Fault("value", "approve agrees to what is shown; to change it, give the decision 'edit'")]


def _fields(item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    fields = item.get("fields")
    return [one for one in fields if isinstance(one, Mapping)] if isinstance(fields, Sequence) else []


def _form_faults(item: Mapping[str, Any], value: Any) -> list[Fault]:
    filled = {} if value is None else value
    if not isinstance(filled, Mapping):
        return [Fault("value", "give an object with the fields of the form")]
    fields = {str(one.get("name")): one for one in _fields(item)}
    unknown = [Fault(f"value.{name}", "the form has no such field") for name in filled if name not in fields]
    found = [(name, _field_fault(one, filled.get(name))) for name, one in fields.items()]
    return [*unknown, *(Fault(f"value.{name}", message) for name, message in found if message is not None)]


def _field_fault(field: Mapping[str, Any], value: Any) -> str | None:
    """What is wrong with what was filled in; None when nothing is."""
    if value is None or value == "":
        return "fill this in" if field.get("required", True) else None
    match field.get("kind", "text"):
        case "number":
            return None if _is_number(value) else "give a number"
        case "yes_no":
            return None if isinstance(value, bool) else "give true or false"
        case "choice":
            choices = field.get("choices") or ()
            return None if value in choices else f"give one of: {', '.join(map(str, choices))}"
        case _:
            return _text_fault(value)


def _text_fault(value: Any) -> str | None:
    if not isinstance(value, str):
        return "give a text"
    return f"give at most {MAX_TEXT_CHARS:,} characters" if len(value) > MAX_TEXT_CHARS else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _unlike(pattern: Any, value: Any, where: str) -> list[Fault]:
    """Where `value` has another form than `pattern`, which whoever asked can read: texts stay texts, lists lists."""
    if pattern is None:
        return []
    if (wanted := _form(pattern)) != _form(value):
        shown = json_dumps(value)
        words = shown if len(shown) <= _SHOWN_CHARS else f"{shown[:_SHOWN_CHARS]}…"
        return [Fault(where, f"{words} has another form than what is to be changed; give {wanted}")]
    if isinstance(pattern, Mapping):
        both = [name for name in pattern if name in value]
        return [fault for name in both for fault in _unlike(pattern[name], value[name], f"{where}.{name}")]
    if isinstance(pattern, list) and pattern:
        known = list({_shape(one): one for one in pattern}.values())
        return [fault for at, one in enumerate(value) for fault in _unlike_all(known, one, f"{where}.{at}")]
    return []


def _unlike_all(patterns: Sequence[Any], value: Any, where: str) -> list[Fault]:
    """Where an item of a list looks like none of the items that were there; the first of them says how it should."""
    found = [_unlike(pattern, value, where) for pattern in patterns]
    return [] if [] in found else found[0]


def _shape(value: Any) -> Hashable:
    """What two items of a list have in common when one can stand for both."""
    if isinstance(value, Mapping):
        return tuple((name, _shape(part)) for name, part in sorted(value.items()))
    return ("list", frozenset(map(_shape, value))) if isinstance(value, list) else _form(value)


def _form(value: Any) -> str:
    match value:
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list() | tuple():
            return "a list"
        case Mapping():
            return "an object"
        case _:
            return "null"
