"""What the harness saw from outside, in seconds of its own monotonic clock: requests, effects, answers, faults."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True, order=True)
class CallId:
    """Which model call of which step a request is."""

    session_id: str
    iteration: int
    call: int


class ModelFault(StrEnum):
    """How the stand-in model fails a request."""

    NONE = "none"
    RATE_LIMIT = "429"
    SERVER = "500"
    HANG = "hang"  # no answer for a while, then the connection ends
    CUT = "cut"  # half an answer


@dataclass(slots=True)
class Ask:
    """One request to the model. `worker` names one life of one worker process."""

    serial: int
    call: CallId
    worker: str
    asked_at: float
    fault: ModelFault = ModelFault.NONE
    answered_at: float | None = None

    @property
    def paid(self) -> bool:
        """Whether it was answered whole: the request cost money."""
        return self.fault is ModelFault.NONE and self.answered_at is not None


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect of the tool, under the idempotency key that it was handed."""

    serial: int
    key: str
    worker: str
    at: float


class Asked(StrEnum):
    """What a client asked for."""

    CREATE = "create"
    INPUT = "input"
    INTERRUPT = "interrupt"
    POST = "post"  # a message to a thread


@dataclass(frozen=True, slots=True)
class Promise:
    """A 202: these actions will be carried out. `said` is what a step has to read."""

    kind: Asked
    session_id: str
    action_ids: tuple[str, ...]
    said: str = ""
    conversation_id: str | None = None
    message_id: str | None = None
    at: float = 0.0


class Harm(StrEnum):
    """What was done to a process."""

    KILL = "kill -9 at random"
    POINT = "kill -9 at a crash point"
    STALL = "stopped for three leases"
    CLOCK = "clock set by an hour"
    RESTART = "asked to end (SIGTERM)"
    LITTER = "litter beside manifests"
    DISK = "disk full"


@dataclass(frozen=True, slots=True)
class Blow:
    """One fault: what, to which life of which process, when."""

    harm: Harm
    victim: str
    at: float
    note: str = ""
    #: when a process that was stopped went on
    until: float | None = None


@dataclass(slots=True)
class Ledger:
    """Everything seen so far."""

    asks: list[Ask] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    promises: list[Promise] = field(default_factory=list)
    blows: list[Blow] = field(default_factory=list)
    #: requests that got no answer or one that no client can work with
    refusals: list[str] = field(default_factory=list)
    #: processes that ended by themselves
    broken: list[str] = field(default_factory=list)
    #: room -> ids of what a live client was sent
    live: dict[str, set[str]] = field(default_factory=dict)

    @property
    def kills(self) -> int:
        """How many processes were killed so far."""
        return sum(blow.harm in (Harm.KILL, Harm.POINT) for blow in self.blows)
