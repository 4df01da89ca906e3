"""Hosts and sandboxes for the tests of this folder."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path

from pydantic import JsonValue

from runtime.contract import Clock
from runtime.sandbox.errors import HostFunctionError
from runtime.sandbox.full import FullSandbox
from runtime.sandbox.monty import MontySandbox
from runtime.sandbox.port import Binding, Host, HostFunction, Limits

KEY = b"a key of thirty-two bytes or more"
SESSION = Binding("session-1")
SHORT = Limits(seconds=0.5, memory_bytes=32 * 2**20, host_calls=5, output_bytes=20_000)


class LoopClock:
    """The time of the event loop. The store's clock comes with all of LanceDB, which no process here needs."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.wait({asyncio.get_running_loop().create_future()}, timeout=seconds)


async def note(text: JsonValue) -> JsonValue:
    return {"noted": text}


async def add(a: int, b: int = 1) -> JsonValue:
    return a + b


async def fail(why: str) -> JsonValue:
    raise HostFunctionError(why)


async def send(to: str, text: str = "") -> JsonValue:
    return f"sent {text!r} to {to}"


def host(binding: Binding = SESSION) -> Host:
    functions: dict[str, HostFunction] = {"note": note, "add": add, "fail": fail, "send": send}
    return Host(binding, functions, frozenset({"send"}))


def light(of: Host | None = None, clock: Clock | None = None) -> MontySandbox:
    return MontySandbox(of or host(), KEY, clock or LoopClock())


def full(of: Host | None = None, clock: Clock | None = None) -> FullSandbox:
    return FullSandbox(of or host(), clock or LoopClock())


def children_of_ours() -> set[int]:
    """The processes of which this one is the parent, dead and unreaped ones too."""
    processes = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return {int(entry.name) for entry in processes if _parent(entry) == os.getpid()}


def _parent(entry: Path) -> int | None:
    try:
        return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def members(session: int) -> list[Path]:
    """The processes of a session, as their folders in proc."""
    return [entry for entry in Path("/proc").iterdir() if entry.name.isdigit() and session_of(entry) == session]


def session_of(entry: Path) -> int | None:
    """The number of a process's session."""
    try:
        return int((entry / "stat").read_text().rpartition(")")[2].split()[3])
    except (FileNotFoundError, ProcessLookupError):
        return None
