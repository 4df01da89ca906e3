"""Light mode: suspended and resumed programs, and the deadline that nothing inside can move."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import JsonValue

from runtime.sandbox.errors import SandboxUnavailableError, SnapshotRefusedError
from runtime.sandbox.port import (
    Approved,
    Binding,
    Failed,
    FailureKind,
    Finished,
    Host,
    Limits,
    Outcome,
    Program,
    Rejected,
    Suspended,
)
from runtime.sandbox.suspension import to_json
from runtime.testing import LeapClock
from tests.runtime.sandbox.kit import SESSION, children_of_ours, host, light, members
from tests.support import eventually

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("nothing_left")]

ROOT = Path(__file__).resolve().parents[3]

ASKS = """
print('before')
mail = send
seen = [note(1)['noted']]
try:
    seen.append(mail('ann', text='hello'))
except PermissionError as error:
    seen.append('refused: ' + str(error))
print('after')
seen.append(add(1))
seen
"""


async def asked(code: str = ASKS) -> Suspended:
    outcome = await light().run(Program(code, {"x": 1}, ("note", "add", "send")))
    assert isinstance(outcome, Suspended), outcome
    return outcome


def elsewhere(suspended: Suspended, decision: str, file: Path) -> str:
    """What carrying on in a fresh process gives."""
    file.write_text(to_json(suspended))
    command = [sys.executable, "-m", "tests.runtime.sandbox.resuming", str(file), decision]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_a_call_that_needs_approval_suspends() -> None:
    suspended = await asked()
    assert (suspended.call.name, suspended.call.args, suspended.call.kwargs) == ("send", ("ann",), {"text": "hello"})
    assert (suspended.call.number, suspended.printed) == (2, "before\n")


async def test_an_approved_call_runs_in_another_process(tmp_path: Path) -> None:
    shown = await asyncio.to_thread(elsewhere, await asked(), "approve", tmp_path / "snapshot")
    assert """Finished(result=[1, "sent 'hello' to ann", 2], printed='before\\nafter\\n',""" in shown
    assert "host_calls=3" in shown


async def test_a_rejected_call_raises_inside_in_another_process(tmp_path: Path) -> None:
    shown = await asyncio.to_thread(elsewhere, await asked(), "reject", tmp_path / "snapshot")
    assert "Finished(result=[1, 'refused: not today', 2], printed='before\\nafter\\n'" in shown


async def test_it_can_be_asked_again_and_again_and_the_calls_are_counted_over_all() -> None:
    outcome: Outcome = await asked("[send('a'), send('b'), send('c')]")
    for number in (1, 2, 3):
        assert isinstance(outcome, Suspended)
        assert outcome.call.number == number
        outcome = await light().resume(outcome, Approved(outcome.fingerprint))
    assert isinstance(outcome, Finished)
    assert outcome.result == ["sent '' to a", "sent '' to b", "sent '' to c"]


async def test_the_same_snapshot_may_be_resumed_again_after_a_crash() -> None:
    suspended = await asked()
    answer = Approved(suspended.fingerprint)
    first, second = await light().resume(suspended, answer), await light().resume(suspended, answer)
    assert isinstance(first, Finished)
    assert isinstance(second, Finished)
    assert first.result == second.result


async def test_an_answer_to_one_run_is_none_to_another_run_of_the_same_program() -> None:
    first, second = await asked("send('a')"), await asked("send('a')")
    assert first.program == second.program
    with pytest.raises(SnapshotRefusedError, match="the answer is for call"):
        await light().resume(second, Approved(first.fingerprint))


async def test_limits_hold_over_a_suspension() -> None:
    code = "print('x' * 600)\nsend('a')\nprint('x' * 600)"
    limits = Limits(output_bytes=1000)
    suspended = await light().run(Program(code, {}, ("send",), limits))
    assert isinstance(suspended, Suspended)
    outcome = await light().resume(suspended, Approved(suspended.fingerprint))
    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.TOO_MUCH_OUTPUT


async def test_an_uncaught_rejection_ends_the_program() -> None:
    suspended = await asked("send('a')")
    outcome = await light().resume(suspended, Rejected(suspended.fingerprint, "no"))
    assert isinstance(outcome, Failed)
    assert (outcome.kind, outcome.message) == (FailureKind.RAISED, "PermissionError: no")


async def test_a_changed_byte_another_session_or_another_answer_is_refused() -> None:
    suspended = await asked()
    answer = Approved(suspended.fingerprint)
    broken = bytearray(suspended.snapshot)
    broken[len(broken) // 2] ^= 1
    with pytest.raises(SnapshotRefusedError, match="was changed"):
        await light().resume(replace(suspended, snapshot=bytes(broken)), answer)
    with pytest.raises(SnapshotRefusedError, match="belongs to 'session-1', not to 'session-2'"):
        await light(host(Binding("session-2"))).resume(suspended, answer)
    other = await asked("send('bob')")
    with pytest.raises(SnapshotRefusedError, match="the answer is for call"):
        await light().resume(suspended, Approved(other.fingerprint))


@pytest.mark.parametrize(
    "code",
    [
        "raise TimeoutError('feed time limit exceeded: 1.000352279s > 1s')",
        "raise MemoryError('memory limit exceeded: 1000042848 bytes > 67108864 bytes')",
        "raise RecursionError('maximum recursion depth exceeded')",
        "raise RuntimeError('suspension limit 1100 exceeded')",
        "def f():\n    raise MemoryError('memory limit exceeded: 9 bytes > 8 bytes')\nf()",
    ],
)
async def test_an_error_of_the_programs_own_making_is_only_raised(code: str) -> None:
    outcome = await light().run(Program(code))
    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.RAISED, outcome


async def test_the_engines_own_limit_of_time_is_told_as_such() -> None:
    code = "while True:\n    try:\n        while True: pass\n    except BaseException: pass"
    outcome = await light().run(Program(code, limits=Limits(seconds=0.2)))
    assert isinstance(outcome, Failed)
    assert (outcome.kind, outcome.message.partition(":")[0]) == (FailureKind.OUT_OF_TIME, "TimeoutError")


class Looping:
    """A program that tells when it runs, and then never stops; the clock is the test's."""

    CODE = "started()\nwhile True:\n    pass"

    def __init__(self) -> None:
        self.clock = LeapClock()
        self.started = asyncio.Event()
        of = Host(SESSION, {"started": self._tell})
        # The engine itself would let it run for a day.
        program = Program(self.CODE, functions=("started",), limits=Limits(seconds=86_400))
        self.before = children_of_ours()
        self.running = asyncio.ensure_future(light(of, self.clock).run(program))

    async def _tell(self) -> JsonValue:
        self.started.set()
        return None

    async def loops(self) -> None:
        """Return when the program is in its loop, as far as can be seen from outside."""
        await self.started.wait()
        assert children_of_ours() - self.before


async def test_the_outer_deadline_kills_what_the_engine_does_not_end() -> None:
    looping = Looping()
    await looping.loops()

    def leapt() -> bool:
        looping.clock.leap(90_000)
        return looping.running.done()

    await eventually(leapt)
    outcome = await looping.running
    assert isinstance(outcome, Failed)
    assert (outcome.kind, outcome.message.partition(":")[0]) == (FailureKind.OUT_OF_TIME, "86400 s are over")
    assert children_of_ours() == looping.before


async def test_cancelling_a_run_kills_its_process() -> None:
    looping = Looping()
    await looping.loops()
    looping.running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looping.running
    assert children_of_ours() == looping.before


async def test_a_process_that_is_killed_from_outside_is_an_outcome() -> None:
    looping = Looping()
    await looping.loops()
    (process,) = children_of_ours() - looping.before
    family = members(process)
    os.kill(process, signal.SIGKILL)
    outcome = await looping.running
    await eventually(lambda: not any(member.exists() for member in family))
    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.CRASHED


async def test_the_process_has_an_empty_environment_and_a_session_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDBOX_CANARY", "seen")
    looping = Looping()
    await looping.loops()
    (process,) = children_of_ours() - looping.before
    family = members(process)
    assert len(family) == 2  # ours and the interpreter
    for member in family:
        assert b"SANDBOX_CANARY" not in (member / "environ").read_bytes()
        assert "Max core file size        0 " in (member / "limits").read_text()
    looping.running.cancel()
    await asyncio.wait({looping.running})
    await eventually(lambda: not any(member.exists() for member in family))


async def test_without_the_engine_nothing_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("runtime.sandbox.monty.sysconfig.get_path", lambda _name: str(tmp_path))
    monkeypatch.setattr("runtime.sandbox.monty.sys.executable", str(tmp_path / "python"))
    with pytest.raises(SandboxUnavailableError, match="install pydantic-monty"):
        await light().run(Program("1"))
