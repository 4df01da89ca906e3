"""The sandbox as the rest of the runtime sees it: a program goes in, one of three outcomes comes out.

`Finished`, `Suspended` and `Failed` are told apart by what the process around the program saw, never by anything that
the program printed.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType, Protocol, TypeAlias

from pydantic import JsonValue

from runtime.sandbox.errors import SandboxMisuseError
from runtime.sandbox.fingerprint import fingerprint

Binding = NewType("Binding", str)
"""What a suspended program belongs to: a session's id, and whatever else an answer shall not outlive (its epoch)."""

Fingerprint = NewType("Fingerprint", str)
"""The SHA-256 of a program, or of one call with everything that an approval of it binds."""

HostFunction: TypeAlias = Callable[..., Awaitable[JsonValue]]


@dataclass(frozen=True, slots=True)
class Limits:
    """What one program may use. Each bound is enforced from outside the program."""

    seconds: float = 5.0
    """Time in which the program has the turn; while a host function runs or a person thinks, it stands still."""
    memory_bytes: int = 64 * 2**20
    recursion_depth: int = 200
    output_bytes: int = 64 * 2**10
    """Of all it prints, and of its result or the arguments of one call as JSON."""
    host_calls: int = 50
    code_bytes: int = 64 * 2**10

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not 0 < getattr(self, name) < math.inf:
                raise SandboxMisuseError(f"limit {name}={getattr(self, name)!r}: give a finite number above zero")


@dataclass(frozen=True, slots=True)
class Program:
    """Python to run. The value of its last expression is its result; `inputs` are its first variables."""

    code: str
    inputs: Mapping[str, JsonValue] = field(default_factory=dict)
    functions: tuple[str, ...] = ()
    """The names of the host functions that it may call, plainly: `page = fetch(url)`."""
    limits: Limits = Limits()

    @property
    def fingerprint(self) -> Fingerprint:
        """The same for the same code, inputs and names of functions."""
        return Fingerprint(fingerprint("program", self.code, dict(self.inputs), list(self.functions)))


@dataclass(frozen=True, slots=True)
class HostCall:
    """One call of a host function. `number` counts the calls of a run from 1."""

    name: str
    args: tuple[JsonValue, ...]
    kwargs: Mapping[str, JsonValue]
    number: int


@dataclass(frozen=True, slots=True)
class Usage:
    """What a run used so far."""

    seconds: float = 0.0
    host_calls: int = 0


@dataclass(frozen=True, slots=True)
class Finished:
    """The program came to its end."""

    result: JsonValue
    printed: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class Suspended:
    """The program stands at a call that a person has to allow. Nothing of it runs; it may wait for years.

    All of it is plain data (suspension.to_json) and sealed: `resume` refuses one with a changed byte.
    """

    call: HostCall
    snapshot: bytes
    binding: Binding
    run: str
    """Tells two runs of the same program apart, so that an answer to one is none to the other."""
    program: Fingerprint
    functions: tuple[str, ...]
    limits: Limits
    engine: str
    """What made the snapshot, with its version: only the same can go on with it."""
    ceiling: int
    """The limit of memory, in bytes, as the engine was given it."""
    printed: str
    usage: Usage
    seal: str = ""

    @property
    def fingerprint(self) -> Fingerprint:
        """What a person allows or forbids: this call, with these arguments, of this run in this session."""
        call = [self.call.number, self.call.name, list(self.call.args), dict(self.call.kwargs)]
        return Fingerprint(fingerprint("call", self.binding, self.run, self.program, call))


class FailureKind(StrEnum):
    """Why a program has no result."""

    SYNTAX = "syntax"  # it is no Python
    RAISED = "raised"  # an error left it
    OUT_OF_TIME = "out_of_time"
    OUT_OF_MEMORY = "out_of_memory"
    RECURSION = "recursion"
    TOO_MUCH_OUTPUT = "too_much_output"
    TOO_MANY_CALLS = "too_many_calls"
    UNKNOWN_FUNCTION = "unknown_function"  # it called what nobody gave it
    REFUSED = "refused"  # its code, inputs, arguments or result cannot be taken
    CRASHED = "crashed"  # the process that ran it died


@dataclass(frozen=True, slots=True)
class Failed:
    """The program has no result. `message` is for the model that wrote it; `line` counts from 1."""

    kind: FailureKind
    message: str
    line: int | None
    printed: str
    usage: Usage


Outcome: TypeAlias = Finished | Suspended | Failed


@dataclass(frozen=True, slots=True)
class Approved:
    """A person allowed the call with this `Suspended.fingerprint`: the host function runs, once."""

    fingerprint: Fingerprint


@dataclass(frozen=True, slots=True)
class Rejected:
    """A person forbade the call with this `Suspended.fingerprint`: the program sees a PermissionError(reason)."""

    fingerprint: Fingerprint
    reason: str


Answer: TypeAlias = Approved | Rejected


@dataclass(frozen=True, slots=True)
class Host:
    """What one session offers to its programs."""

    binding: Binding
    functions: Mapping[str, HostFunction] = field(default_factory=dict)
    needs_approval: frozenset[str] = frozenset()
    """Functions whose calls are not begun before there is an `Approved`. Others raise HostWaitsError when they wait."""

    def __post_init__(self) -> None:
        if missing := sorted(self.needs_approval - set(self.functions)):
            raise SandboxMisuseError(f"needs_approval names {missing}, which are not among the functions: remove them")


class Programs(Protocol):
    """The sandbox as a moniker sees it (`ctx.sandbox`): a program runs to its end, however long people think."""

    async def run(self, program: Program, *, key: str | None = None) -> Finished | Failed:
        """Run `program`. Its functions are names of tools that the session's type of agent may use.

        `key` names the run within the step; it is numbered when left out. A call that a person has to agree to cuts the
        step short, and the program goes on where it stood when there is an answer: let what is raised then pass, the
        runner needs it. A rejected call raises `PermissionError` in the program. Crash at any time: what the program
        called is read from its records, and it goes on, or begins again, with the same answers.

        Raises SandboxUnavailableError where the wall cannot be built (nothing was run), `MonikerError` for a function
        that is not granted.
        """
        ...


class Sandbox(Protocol):
    """Runs programs for one host."""

    async def run(self, program: Program) -> Outcome:
        """Run `program` to its end, or to a call that needs approval.

        Host functions run in this process between two turns of the program; a crash in the middle leaves nothing but
        what they did, so whoever calls wraps them in a record. Cancelling ends the program at once. Raises
        SandboxUnavailableError where the wall cannot be built, SandboxMisuseError for a function that the host lacks.
        """
        ...

    async def resume(self, suspended: Suspended, answer: Answer) -> Outcome:
        """Carry on where `run` stopped, also in another process and after days.

        The same snapshot with the same answer may be resumed again, for instance after a crash; that it happens once
        is for whoever stores the answer. Raises SnapshotRefusedError, and SandboxUnavailableError as `run` does.
        """
        ...
