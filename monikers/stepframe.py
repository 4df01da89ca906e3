"""Reads a model's StepFrame answer leniently: what can be understood is put right, the rest is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from monikers.words import clip
from runtime.contract import MAX_TOKEN_CHARS, Json, StepFrame, StepOut, Wait, WaitForInput, WaitUntil

MAX_NOTES_CHARS = 2_000
MAX_NAMED_FIELDS = 10
MAX_WAIT_S = 366 * 86_400


def _token(value: Any) -> Any:
    """Models write 2 and 4.2 for "2" and "4.2"."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value.strip() or None if isinstance(value, str) else value


def _words(value: Any) -> Any:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _object(value: Any) -> Any:
    if value is None or isinstance(value, dict):
        return value
    return {"items": value} if isinstance(value, list) else {"value": value}


def _flag(value: Any) -> Any:
    return False if value is None else value


def _wait(value: Any) -> Any:
    """A wait as an object with a kind; "input", a time, or an object that leaves its kind out will do."""
    if not value or value in ("none", "null"):
        return None
    if value is True or value == "input":
        return {"kind": "input"}
    if isinstance(value, str):
        return {"kind": "until", "time": value}
    return {"kind": _kind(value), **value} if isinstance(value, dict) else value


def _kind(wait: Json) -> Any:
    return wait.get("type") or ("until" if {"time", "after_s"} & wait.keys() else "input")


class _ModelWait(BaseModel):
    kind: Literal["input", "until"]
    prompt: Annotated[str | None, BeforeValidator(_words)] = None
    time: datetime | None = None
    after_s: Annotated[float, Field(ge=0, le=MAX_WAIT_S)] | None = None

    def seen_at(self, now: datetime) -> Wait:
        """The wait that this means at `now`; raises `ValueError` when it has no usable time."""
        if self.kind == "input":
            return WaitForInput(prompt=self.prompt)
        if self.after_s is not None:
            return WaitUntil(time=now + timedelta(seconds=self.after_s))
        if self.time is None:
            raise ValueError("wait: 'until' needs after_s (seconds) or time (ISO 8601, UTC)")
        return WaitUntil(time=_utc(self.time))


def _utc(time: datetime) -> datetime:
    try:
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except OverflowError:
        raise ValueError("wait: the time is out of range") from None


Token = Annotated[Annotated[str, Field(max_length=MAX_TOKEN_CHARS)] | None, BeforeValidator(_token)]
Words = Annotated[str | None, BeforeValidator(_words)]


class StepAnswer(BaseModel):
    """A model's answer to a StepFrame. Fields that the contract does not know are kept apart, to be noted."""

    model_config = ConfigDict(extra="allow")

    step: Token = None
    next_step: Token = None
    state: Json | None = None
    text: Words = None
    data: Annotated[Json | None, BeforeValidator(_object)] = None
    done: Annotated[bool, BeforeValidator(_flag)] = False
    notes: Words = None
    wait: Annotated[_ModelWait | None, BeforeValidator(_wait)] = None

    def as_out(self, frame: StepFrame, now: datetime) -> StepOut:
        """The step's result; what the answer left out comes from `frame`.

        Raises `ValueError` when it does not say how to go on.
        """
        if self.next_step is None and not self.done and self.wait is None:
            raise ValueError("next_step: required, unless done is true or wait is given")
        return StepOut(
            step=frame.step,
            next_step=self.next_step or frame.step,
            state=frame.state if self.state is None else self.state,
            text=None if self.text is None else clip(self.text),
            data=self.data,
            done=self.done,
            notes=self._notes(frame),
            wait=None if self.wait is None or self.done else self.wait.seen_at(now),
        )

    def _notes(self, frame: StepFrame) -> str | None:
        notes = [self.notes] if self.notes else []
        if self.step not in (None, frame.step):
            notes.append(f"the model spoke of step {self.step!r} in step {frame.step!r}")
        if self.model_extra:
            names = sorted(self.model_extra)[:MAX_NAMED_FIELDS]
            notes.append(f"ignored fields of the answer: {clip(', '.join(names), MAX_TOKEN_CHARS)}")
        return clip("; ".join(notes), MAX_NOTES_CHARS) or None


#: what an answer looks like, for endpoints that can be bound to a schema; `data` may be narrowed
ANSWER_SCHEMA: Json = {
    "type": "object",
    "properties": {
        "step": {"type": "string"},
        "next_step": {"type": "string"},
        "state": {"type": "object"},
        "text": {"type": ["string", "null"]},
        "data": {"type": ["object", "null"]},
        "done": {"type": "boolean"},
        "notes": {"type": ["string", "null"]},
        "wait": {
            "type": ["object", "null"],
            "properties": {
                "kind": {"enum": ["input", "until"]},
                "prompt": {"type": "string"},
                "after_s": {"type": "number"},
                "time": {"type": "string"},
            },
        },
    },
    "required": ["step", "next_step", "state", "text", "done"],
}


def answer_schema(data_schema: Json | None) -> Json:
    """`ANSWER_SCHEMA`, with `data` bound to `data_schema` when there is one."""
    if data_schema is None:
        return ANSWER_SCHEMA
    narrowed = {"anyOf": [data_schema, {"type": "null"}]}
    return {**ANSWER_SCHEMA, "properties": {**ANSWER_SCHEMA["properties"], "data": narrowed}}
