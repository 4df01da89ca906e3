"""Every known way out is tried, in both modes: nothing is read, nothing is made, nothing stays, all of it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from runtime.sandbox.port import Failed, Outcome, Program, Sandbox
from tests.runtime.sandbox.escapes import ESCAPES, Escape
from tests.runtime.sandbox.kit import SHORT, full, light

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("nothing_left")]

CANARY = "canary-4cf1b2-do-not-show"
AT_ONCE = 4


@dataclass(frozen=True)
class Visits:
    """Who came to a port on which somebody listens."""

    port: int
    came: list[str]


@pytest.fixture
async def visits(unused_tcp_port: int) -> AsyncIterator[Visits]:
    kept = Visits(unused_tcp_port, [])

    def visited(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        kept.came.append(str(writer.get_extra_info("peername")))
        writer.close()

    async with await asyncio.start_server(visited, "127.0.0.1", kept.port):
        yield kept


@pytest.fixture(autouse=True)
def canary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDBOX_CANARY", CANARY)


def test_there_are_enough_and_no_name_twice() -> None:
    names = [escape.name for group in ESCAPES.values() for escape in group]
    assert len(names) >= 80
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("group", ESCAPES)
async def test_light_mode_holds(group: str, tmp_path: Path, visits: Visits) -> None:
    assert await _escaped(light(), ESCAPES[group], tmp_path, visits) == []


@pytest.mark.usefixtures("walls")
@pytest.mark.parametrize("group", ESCAPES)
async def test_full_mode_holds(group: str, tmp_path: Path, visits: Visits) -> None:
    assert await _escaped(full(), ESCAPES[group], tmp_path, visits) == []


async def _escaped(sandbox: Sandbox, escapes: list[Escape], folder: Path, visits: Visits) -> list[str]:
    """What got out of the sandbox, as `name: what it did`; all are tried, some at once."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def tried(number: int, escape: Escape) -> list[str]:
        async with turns:
            faults = await _tried(sandbox, escape, folder / str(number), visits.port)
        return [f"{escape.name}: {fault}" for fault in faults]

    found = await asyncio.gather(*(tried(number, escape) for number, escape in enumerate(escapes)))
    return [*(fault for faults in found for fault in faults), *(f"{peer} connected" for peer in visits.came)]


async def _tried(sandbox: Sandbox, escape: Escape, folder: Path, port: int) -> list[str]:
    """What one attempt reached that it must not."""
    outside, secret = folder / "outside", folder / "secret"
    _put(secret)
    program = Program(
        escape.code, {"secret_file": str(secret), "outside": str(outside), "port": port}, ("note",), SHORT
    )
    outcome = await sandbox.run(program)
    return [*_shown(outcome), *_made(secret, outside), *_went_on(escape, outcome)]


def _put(secret: Path) -> None:
    secret.parent.mkdir()
    secret.write_text(CANARY)


def _shown(outcome: Outcome) -> list[str]:
    """Secrets anywhere in an outcome; ESCAPED only where it is more than what the program printed before it failed."""
    if CANARY in str(outcome) or "root:x:" in str(outcome):
        return [f"read {outcome}"]
    said = outcome.message if isinstance(outcome, Failed) else str(outcome)
    return [f"says {said[:200]}"] if "ESCAPED" in said else []


def _made(secret: Path, outside: Path) -> list[str]:
    if [path for path in secret.parent.iterdir() if path != secret]:
        return [f"made {outside}"]
    return [] if secret.read_text() == CANARY else ["changed the secret"]


def _went_on(escape: Escape, outcome: Outcome) -> list[str]:
    return [f"ended by itself with {outcome}"] if escape.endless and not isinstance(outcome, Failed) else []
