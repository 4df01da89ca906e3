"""How one leg of a program's run, from its start or a resume to its end or a question, is kept as a record."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, assert_never

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter

from runtime.ports import Json
from runtime.sandbox.port import Failed, FailureKind, Finished, Outcome, Suspended, Usage
from runtime.sandbox.suspension import from_json, to_json

#: a snapshot beyond this is not stored: the program has to hold less while it waits for a person
MAX_SNAPSHOT_BYTES = 4 * 2**20


class _Leg(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    #: where text from outside that its calls brought in came from
    taint: tuple[str, ...] = ()


class _FinishedLeg(_Leg):
    kind: Literal["finished"] = "finished"
    result: JsonValue
    printed: str
    usage: Usage


class _FailedLeg(_Leg):
    kind: Literal["failed"] = "failed"
    failure: FailureKind
    message: str
    line: int | None
    printed: str
    usage: Usage


class _SuspendedLeg(_Leg):
    kind: Literal["suspended"] = "suspended"
    suspended: str
    #: the key of the call at which it stands
    at: str = ""


_LEG: TypeAdapter[_FinishedLeg | _FailedLeg | _SuspendedLeg] = TypeAdapter(
    Annotated[_FinishedLeg | _FailedLeg | _SuspendedLeg, Field(discriminator="kind")]
)


@dataclass(frozen=True, slots=True)
class Leg:
    """How a leg ended, where text from outside that its calls brought in came from, and at which call it stands."""

    outcome: Outcome
    taint: tuple[str, ...] = ()
    #: of a suspended program: the key of the call that it makes again
    at: str = ""


def leg_row(leg: Leg) -> Json:
    """A leg as JSON for a record."""
    row: Json = _stored(leg.outcome, leg.taint, leg.at).model_dump(mode="json")
    return row


def read_leg(row: Any) -> Leg:
    """A stored leg. Raises SnapshotRefusedError for a snapshot that is none."""
    leg = _LEG.validate_python(row)
    match leg:
        case _FinishedLeg():
            return Leg(Finished(leg.result, leg.printed, leg.usage), leg.taint)
        case _FailedLeg():
            return Leg(Failed(leg.failure, leg.message, leg.line, leg.printed, leg.usage), leg.taint)
        case _SuspendedLeg():
            return Leg(from_json(leg.suspended), leg.taint, leg.at)
        case _:
            assert_never(leg)


def leg_facts(row: Json) -> Json:
    """What traces tell of a leg."""
    outcome = read_leg(row).outcome
    told = {"outcome": row["kind"], **asdict(outcome.usage)}
    return {**told, "failure": outcome.kind.value} if isinstance(outcome, Failed) else told


def _stored(outcome: Outcome, taint: tuple[str, ...], at: str) -> _FinishedLeg | _FailedLeg | _SuspendedLeg:
    match outcome:
        case Finished():
            return _FinishedLeg(result=outcome.result, printed=outcome.printed, usage=outcome.usage, taint=taint)
        case Failed():
            return _FailedLeg(
                failure=outcome.kind,
                message=outcome.message,
                line=outcome.line,
                printed=outcome.printed,
                usage=outcome.usage,
                taint=taint,
            )
        case Suspended():
            return _too_large(outcome, taint) or _SuspendedLeg(suspended=to_json(outcome), taint=taint, at=at)
        case _:
            assert_never(outcome)


def _too_large(suspended: Suspended, taint: tuple[str, ...]) -> _FailedLeg | None:
    if len(suspended.snapshot) <= MAX_SNAPSHOT_BYTES:
        return None
    message = (
        f"it holds {len(suspended.snapshot):,} bytes at a call of {suspended.call.name}() that waits for a person, "
        f"where {MAX_SNAPSHOT_BYTES:,} are allowed: hold less"
    )
    return _FailedLeg(
        failure=FailureKind.REFUSED,
        message=message,
        line=None,
        printed=suspended.printed,
        usage=suspended.usage,
        taint=taint,
    )
