"""Light mode, the default: programs run in pydantic-monty, an interpreter of Python that has no way out by design.

Why there is a process of ours around it all the same: the interpreter is native code that may hang or break, and what
it hands out is data of the program's choosing. One process a run, killed at the deadline, keeps both away from the
worker's event loop, and leaves nothing for the next run.
"""

from __future__ import annotations

import base64
import functools
import json
import math
import secrets
import shutil
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pydantic_monty

from runtime.ports import Clock
from runtime.sandbox.carrying import Carrying, Terms
from runtime.sandbox.errors import SandboxUnavailableError, SnapshotRefusedError
from runtime.sandbox.hostcalls import Raise, Value, carry_out
from runtime.sandbox.output import Output
from runtime.sandbox.port import (
    Answer,
    Approved,
    FailureKind,
    Fingerprint,
    Host,
    HostCall,
    Limits,
    Outcome,
    Program,
    Rejected,
    Suspended,
    Usage,
)
from runtime.sandbox.starting import misfit, started
from runtime.sandbox.suspension import Sealer
from runtime.sandbox.wire import Broke, Dumped, NonsenseError

# What the two processes map besides the program's memory: their own code, stacks and allocators.
OWN_ADDRESS_SPACE = 640 * 2**20
# The interpreter ends a program at its limit and says so; this is for when it does not.
GRACE_SECONDS = 0.5
# Taken from the limit of memory, which the interpreter's own error names: a program cannot make up that error.
SECRET_BYTES = 4096
# Two processes that are to end by themselves if a worker dies without killing them.
CPU_SECONDS_TO_START = 30

_ROOT = Path(__file__).resolve().parents[2]
_START = (
    "import sys; sys.path += sys.argv[3:]; from runtime.sandbox.inside import monty_child as c; c.main(*sys.argv[1:3])"
)


@dataclass(frozen=True, slots=True)
class _Task:
    """What is the same from a program's first turn to its last, over all its suspensions."""

    run: str
    program: Fingerprint
    functions: tuple[str, ...]
    limits: Limits
    ceiling: int

    @classmethod
    def of(cls, program: Program) -> _Task:
        ceiling = max(program.limits.memory_bytes - secrets.randbelow(SECRET_BYTES), 1)
        return cls(secrets.token_hex(8), program.fingerprint, program.functions, program.limits, ceiling)

    @classmethod
    def again(cls, suspended: Suspended) -> _Task:
        return cls(suspended.run, suspended.program, suspended.functions, suspended.limits, suspended.ceiling)

    def engine_limits(self) -> dict[str, float]:
        """The limits as the interpreter wants them; one suspension is a call, a name looked up, or a file refused."""
        return {
            "max_feed_duration_secs": self.limits.seconds,
            "max_memory": self.ceiling,
            "max_recursion_depth": self.limits.recursion_depth,
            "max_suspensions": 1000 + 2 * self.limits.host_calls,
        }

    def order(self) -> dict[str, object]:
        """What the process is told besides the program itself."""
        return {
            "limits": self.engine_limits(),
            "functions": list(self.functions),
            "output_bytes": self.limits.output_bytes,
        }

    def diagnose(self, broke: Broke) -> FailureKind:
        """What ended the program, told from what a program cannot make: an error with no frame, or with the secret."""
        if broke.how == "raised" and (broke.frames == 0 or f"> {self.ceiling} bytes" in broke.message):
            return _LIMITS.get(broke.message.partition(":")[0], FailureKind.RAISED)
        if broke.how == "raised" and broke.message.startswith("RecursionError"):
            return FailureKind.RECURSION if broke.frames >= self.limits.recursion_depth - 1 else FailureKind.RAISED
        if broke.how == "crashed" and broke.late:
            return FailureKind.OUT_OF_TIME
        return _KINDS[broke.how]


_LIMITS = {"TimeoutError": FailureKind.OUT_OF_TIME, "MemoryError": FailureKind.OUT_OF_MEMORY}
_KINDS = {
    "syntax": FailureKind.SYNTAX,
    "raised": FailureKind.RAISED,
    "refused": FailureKind.REFUSED,
    "crashed": FailureKind.CRASHED,
    "memory": FailureKind.OUT_OF_MEMORY,
    "recursion": FailureKind.RECURSION,
}


class MontySandbox:
    """Runs programs for one host in light mode. `key` seals suspended programs (suspension.Sealer)."""

    def __init__(self, host: Host, key: bytes, clock: Clock) -> None:
        self._host = host
        self._sealer = Sealer(key)
        self._clock = clock

    async def run(self, program: Program) -> Outcome:
        """See port.Sandbox."""
        if refused := misfit(program, self._host):
            return refused
        task = _Task.of(program)
        async with started(lambda line: _command(line, task.limits), self._clock, _max_line(task.limits)) as process:
            carrying = Carrying(process, self._terms(task), self._clock, Output(task.limits.output_bytes), Usage())
            return await carrying.carry("start", code=program.code, inputs=dict(program.inputs), **task.order())

    async def resume(self, suspended: Suspended, answer: Answer) -> Outcome:
        """See port.Sandbox."""
        self._sealer.check(suspended, self._host.binding, engine(), answer)
        task = _Task.again(suspended)
        output = Output(task.limits.output_bytes, suspended.printed)
        async with started(lambda line: _command(line, task.limits), self._clock, _max_line(task.limits)) as process:
            carrying = Carrying(process, self._terms(task), self._clock, output, suspended.usage)
            snapshot = base64.b64encode(suspended.snapshot).decode()
            decided = functools.partial(self._decided, suspended.call, answer)
            return await carrying.carry_on(suspended.call, decided, snapshot=snapshot, **task.order())

    async def _decided(self, call: HostCall, answer: Answer) -> Value | Raise:
        match answer:
            case Approved():
                if call.name not in self._host.functions:
                    raise SnapshotRefusedError(
                        f"the host has no function {call.name!r} any more; run the program again"
                    )
                return await carry_out(self._host, call)
            case Rejected():
                return Raise("PermissionError", answer.reason)

    def _terms(self, task: _Task) -> Terms:
        async def ask(carrying: Carrying, call: HostCall) -> Suspended:
            return self._sealer.seal(await _suspend(carrying, call, task, self._host))

        return Terms(self._host, task.limits, task.functions, task.diagnose, ask, GRACE_SECONDS)


async def _suspend(carrying: Carrying, call: HostCall, task: _Task, host: Host) -> Suspended:
    dumped = await carrying.turn("dump")
    if not isinstance(dumped, Dumped):
        raise NonsenseError("no snapshot")
    return Suspended(
        call=call,
        snapshot=base64.b64decode(dumped.data),
        binding=host.binding,
        run=task.run,
        program=task.program,
        functions=task.functions,
        limits=task.limits,
        engine=engine(),
        ceiling=task.ceiling,
        printed=carrying.output.text,
        usage=carrying.usage,
    )


def engine() -> str:
    """The interpreter with its version."""
    return f"pydantic-monty {metadata.version('pydantic-monty')}"


def _max_line(limits: Limits) -> int:
    """The longest message is a snapshot: the program's memory with what the interpreter writes around it, in base64."""
    return 2 * limits.memory_bytes + 16 * 2**20


def _command(line: int, limits: Limits) -> Sequence[str]:
    options = {
        "engine": _interpreter(),
        "address_space": limits.memory_bytes + OWN_ADDRESS_SPACE,
        "cpu_seconds": CPU_SECONDS_TO_START + math.ceil(limits.seconds),
    }
    libraries = str(Path(pydantic_monty.__file__).parents[1])
    return [sys.executable, "-I", "-S", "-c", _START, str(line), json.dumps(options), str(_ROOT), libraries]


def _interpreter() -> str:
    """Where the interpreter's program was installed. It is found here, since the process gets no PATH."""
    for folder in (sysconfig.get_path("scripts"), str(Path(sys.executable).parent)):
        if found := shutil.which("monty", path=folder):
            return found
    raise SandboxUnavailableError("the program `monty` is missing: install pydantic-monty again; nothing was run")
