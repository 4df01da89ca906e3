"""Starts the processes of a race or a crash test on a store, lets them begin together, and reads what they report."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
PATIENCE_S = 60


class Child:
    """A process that plays one role (tests/crash/store_child.py)."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, role: str, folder: Path, *, under: Sequence[str] = (), **options: Any) -> Child:
        """Start the process, perhaps `under` another program, and wait until it stands at the barrier."""
        program = [*under, sys.executable, "-m", "tests.crash.store_child", role, str(folder), json.dumps(options)]
        child = cls(await asyncio.create_subprocess_exec(*program, cwd=ROOT, stdin=PIPE, stdout=PIPE, limit=2**24))
        assert await child._line() == {"ready": True}
        return child

    def go(self) -> None:
        """Let it begin, or let one that goes on until it is told end."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")

    async def stopped(self) -> list[dict[str, Any]]:
        """Everything it reports until it stops at its stop point."""
        facts = []
        while (fact := await self._line()) is not None and "stopped" not in fact:
            facts.append(fact)
        assert fact is not None, facts
        return facts

    def stop(self) -> None:
        """Let it stand still, whatever it is doing and holding."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let one that stands still go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, which: signal.Signals) -> None:
        if self._process.returncode is None:
            self._process.send_signal(which)

    async def reports(self) -> list[dict[str, Any]]:
        """Everything it reports until its end; it must end well."""
        facts = await self._rest()
        assert await self._process.wait() == 0, facts
        assert facts[-1] == {"end": True}
        return facts[:-1]

    async def reports_until_killed(self) -> list[dict[str, Any]]:
        """Everything it reports until its death, which must be at its crash point."""
        facts = await self._rest()
        assert await self._process.wait() == -signal.SIGKILL, facts
        return facts

    async def _rest(self) -> list[dict[str, Any]]:
        facts = []
        while (fact := await self._line()) is not None:
            facts.append(fact)
        return facts

    async def _line(self) -> dict[str, Any] | None:
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), PATIENCE_S)
        return json.loads(line) if line else None

    def kill(self) -> None:
        """End a process that is still there."""
        if self._process.returncode is None:
            self._process.kill()


async def start_all(*children: Any) -> list[Child]:
    """Start several processes; all of them stand at the barrier when this returns."""
    return list(await asyncio.gather(*children))
