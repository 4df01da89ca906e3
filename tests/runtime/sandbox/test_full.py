"""Full mode: the walls stand or nothing runs, and the line of the results takes only what bears the run's mark."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pydantic import JsonValue

from runtime.sandbox.errors import SandboxUnavailableError, SnapshotRefusedError
from runtime.sandbox.fake import suspended_at
from runtime.sandbox.full import FullSandbox
from runtime.sandbox.port import Approved, Failed, FailureKind, Finished, Host, Limits, Program
from runtime.testing import LeapClock
from store.clock import SystemClock
from tests.runtime.sandbox.kit import SESSION, children_of_ours, full, host
from tests.support import eventually

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("nothing_left")]

WRITES = """
import os
for number in range(3, 1024):
    try:
        os.write(number, {line!r})
    except OSError:
        pass
"""


@pytest.mark.parametrize("path", ["", "/nowhere"])
async def test_without_bubblewrap_nothing_runs(path: str, outside: Path) -> None:
    ran = Program(f"open({str(outside)!r}, 'w')")
    with pytest.raises(SandboxUnavailableError, match=r"install bubblewrap .* or use light mode; nothing was run"):
        await FullSandbox(host(), SystemClock(), path).run(ran)
    assert not _exists(outside)


async def test_walls_that_cannot_be_built_are_no_reason_to_run_without(tmp_path: Path, outside: Path) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(SandboxUnavailableError, match="it said: bwrap: No permissions to create new namespace"):
        await FullSandbox(host(), SystemClock(), str(tmp_path)).run(Program(f"open({str(outside)!r}, 'w')"))
    assert not _exists(outside)


@pytest.mark.usefixtures("walls")
async def test_the_program_is_nobody_and_sees_python_alone() -> None:
    code = "import os\n[os.getuid(), os.getgid(), sorted(os.environ), os.listdir('/tmp'), sorted(os.listdir('/dev'))]"
    outcome = await full().run(Program(code))
    assert isinstance(outcome, Finished), outcome
    assert outcome.result == [65534, 65534, ["PWD"], [], ["null", "random", "urandom", "zero"]]


@pytest.mark.usefixtures("walls")
async def test_the_standard_library_works_and_no_other() -> None:
    code = (
        "import csv, decimal, hashlib, re, statistics, zlib\ntry:\n    import pydantic\nexcept ImportError:\n    pass\n"
    )
    outcome = await full().run(Program(f"{code}statistics.mean([1, 2, 3])"))
    assert isinstance(outcome, Finished), outcome
    assert outcome.result == 2


@pytest.mark.usefixtures("walls")
@pytest.mark.parametrize(
    "line",
    [
        b'{"say":"done","result":"forged"}\n',
        b'{"say":"done","result":"forged","mark":""}\n',
        b'{"say":"done","result":"forged","mark":"' + b"0" * 32 + b'"}\n',
        b'{"say":"called","name":"note","args":[1],"kwargs":{}}\n',
        b'{"say":"ready"}\n',
        b"nonsense\n",
        b"[" * 5000 + b"\n",
        b"\x00\xff\n",
    ],
)
async def test_a_line_without_the_mark_ends_the_run(line: bytes) -> None:
    code = WRITES.format(line=line) + "'the end'"
    outcome = await full().run(Program(code, functions=("note",)))
    assert isinstance(outcome, Failed), outcome
    assert outcome.kind is FailureKind.REFUSED
    assert "line of the results" in outcome.message


@pytest.mark.usefixtures("walls")
async def test_a_flood_on_the_line_ends_the_run_and_fills_no_memory() -> None:
    code = WRITES.format(line=b"x" * 3000).replace("os.write", "while True: os.write")
    outcome = await full().run(Program(code, limits=Limits(seconds=4)))
    assert isinstance(outcome, Failed), outcome
    assert (outcome.kind, "longer than any message" in outcome.message) == (FailureKind.REFUSED, True)


@pytest.mark.usefixtures("walls")
async def test_a_call_that_needs_approval_is_refused_inside() -> None:
    code = "try:\n    send('ann')\nexcept PermissionError as error:\n    r = str(error)\nr"
    outcome = await full().run(Program(code, functions=("send",)))
    assert isinstance(outcome, Finished), outcome
    assert str(outcome.result).startswith("send() needs a person's approval")


async def test_full_mode_resumes_nothing() -> None:
    suspended = suspended_at("send", "ann")
    with pytest.raises(SnapshotRefusedError, match="use light mode"):
        await full().resume(suspended, Approved(suspended.fingerprint))


@pytest.mark.usefixtures("walls")
async def test_the_deadline_kills_everything_inside() -> None:
    clock, started = LeapClock(), asyncio.Event()

    async def tell() -> JsonValue:
        started.set()
        return None

    before = children_of_ours()
    program = Program("import time\ntell()\nwhile True:\n    time.sleep(9)", {}, ("tell",), Limits(seconds=86_400))
    running = asyncio.ensure_future(full(Host(SESSION, {"tell": tell}), clock).run(program))
    await started.wait()

    def leapt() -> bool:
        clock.leap(90_000)
        return running.done()

    await eventually(leapt)
    outcome = await running
    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.OUT_OF_TIME
    assert children_of_ours() == before


def _exists(path: Path) -> bool:
    return path.exists()
