"""A sandbox for tests of monikers: it runs nothing and answers what it was told to; it ships."""

from __future__ import annotations

from collections import deque

from runtime.sandbox.errors import SandboxMisuseError, SnapshotRefusedError
from runtime.sandbox.port import (
    Answer,
    Binding,
    Failed,
    Fingerprint,
    Finished,
    HostCall,
    Limits,
    Outcome,
    Program,
    Suspended,
    Usage,
)

FAKE_ENGINE = "fake"


class FakeSandbox:
    """Gives `outcomes` one after another, to `run` and `resume` alike, and remembers what it was given."""

    def __init__(self, *outcomes: Outcome) -> None:
        self._outcomes = deque(outcomes)
        self.programs: list[Program] = []
        self.answers: list[Answer] = []

    async def run(self, program: Program) -> Outcome:
        """See port.Sandbox."""
        self.programs.append(program)
        return self._next()

    async def resume(self, suspended: Suspended, answer: Answer) -> Outcome:
        """See port.Sandbox; an answer to another call is refused as the real one does."""
        if answer.fingerprint != suspended.fingerprint:
            raise SnapshotRefusedError(f"the answer is for another call than {suspended.call.name}; ask again")
        self.answers.append(answer)
        return self._next()

    def _next(self) -> Outcome:
        if not self._outcomes:
            raise SandboxMisuseError("the fake sandbox has no outcome left: give it one more")
        return self._outcomes.popleft()


class FakePrograms:
    """The `Programs` of a step that runs nothing: gives `outcomes` one after another and keeps what it was given."""

    def __init__(self, *outcomes: Finished | Failed) -> None:
        self._outcomes = deque(outcomes)
        self.programs: list[Program] = []

    async def run(self, program: Program, *, key: str | None = None) -> Finished | Failed:
        """See port.Programs."""
        self.programs.append(program)
        if not self._outcomes:
            raise SandboxMisuseError("the fake sandbox has no outcome left: give it one more")
        return self._outcomes.popleft()


def suspended_at(name: str, *args: str | int | float | None) -> Suspended:
    """A program that waits at a call of `name`, as `FakeSandbox` may answer; no real sandbox resumes it."""
    return Suspended(
        call=HostCall(name, args, {}, 1),
        snapshot=b"fake",
        binding=Binding("fake session"),
        run="fake run",
        program=Fingerprint("fake program"),
        functions=(name,),
        limits=Limits(),
        engine=FAKE_ENGINE,
        ceiling=Limits().memory_bytes,
        printed="",
        usage=Usage(host_calls=1),
    )
