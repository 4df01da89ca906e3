"""Carries the faults out, one after the other, until enough processes were killed."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import assert_never

from chaos.clock import BACKWARD, FORWARD
from chaos.disk import fill, free
from chaos.fleet import WEB, Fleet, Life
from chaos.ledger import Blow, Harm, Ledger
from chaos.litter import leave_litter
from chaos.schedule import Fault, Kind

_WORKS_WITHIN_S = 6.0
_END_WITHIN_S = 45.0
_WRONG_CLOCK_S = 3.0
_FULL_DISK_S = 3.0
_AT_LEAST_S = 0.2


class Bombardment:
    """The faults of one run."""

    def __init__(
        self, fleet: Fleet, ledger: Ledger, data: Path, *, workers: int, lease_s: float, tell: Callable[[str], None]
    ) -> None:
        self._fleet = fleet
        self._ledger = ledger
        self._data = data
        self._places = [f"worker-{number}" for number in range(workers)]
        self._lease_s = lease_s
        self._tell = tell

    async def until(self, kills: int, duration_s: float, faults: Iterator[Fault]) -> None:
        """Go on until `kills` processes were killed, spread over `duration_s` seconds; slower if it takes longer."""
        began, told = time.monotonic(), 0
        for fault in faults:
            done = self._ledger.kills
            if done >= kills:
                return
            if done >= told + 10:
                told = done
                self._tell(f"{done} of {kills} kills after {time.monotonic() - began:.0f} s")
            due = began + duration_s * done / kills
            await asyncio.sleep(max(_AT_LEAST_S, due - time.monotonic()))
            self.revive(fault)
            await self._strike(fault)

    def revive(self, fault: Fault | None = None) -> None:
        """Start whoever has died at a crash point since."""
        for place, life in list(self._fleet.lives.items()):
            if life.ended:
                self._start(place, fault)

    def _start(self, place: str, fault: Fault | None) -> Life:
        points = (None, None) if fault is None else (fault.web_crash_at, fault.crash_at)
        return self._fleet.start(place, points[0] if place == WEB else points[1])

    async def _strike(self, fault: Fault) -> None:
        life = self._fleet.lives[self._places[fault.turn % len(self._places)]]
        match fault.kind:
            case Kind.KILL_WORKER:
                await self._kill([life], fault)
            case Kind.KILL_WEB:
                await self._kill([self._fleet.lives[WEB]], fault)
            case Kind.KILL_ALL:
                await self._kill(list(self._fleet.lives.values()), fault)
            case Kind.STALL:
                await self._stall(life)
            case Kind.RESTART:
                await self._restart(life, fault)
            case Kind.CLOCK:
                await self._set_clock(life, forward=fault.forward)
            case Kind.LITTER:
                left = await asyncio.to_thread(leave_litter, self._data, random.Random(fault.turn))
                self._note(Harm.LITTER, "store", f"{left} files")
            case Kind.DISK:
                await self._fill_disk()
            case _:
                assert_never(fault.kind)

    async def _kill(self, lives: list[Life], fault: Fault) -> None:
        for life in lives:
            self._fleet.kill(life)
        for life in lives:
            await self._fleet.ended(life, _END_WITHIN_S)
        await asyncio.sleep(fault.down_s)
        for life in lives:
            await self._works_again(self._start(life.place, fault))

    async def _works_again(self, life: Life) -> None:
        """Wait for the first call of a new life, or its death: a life that never worked has little to lose."""
        until = time.monotonic() + _WORKS_WITHIN_S
        seen = len(self._ledger.asks)
        while life.place != WEB and not life.ended and time.monotonic() < until:
            if any(ask.worker == life.name for ask in self._ledger.asks[seen:]):
                return
            await asyncio.sleep(0.02)

    async def _stall(self, life: Life) -> None:
        if life.ended:
            return
        self._fleet.send(life, signal.SIGSTOP)
        began = time.monotonic()
        try:
            await asyncio.sleep(3 * self._lease_s)
        finally:
            self._ledger.blows.append(Blow(Harm.STALL, life.name, began, until=time.monotonic()))
            self._fleet.send(life, signal.SIGCONT)

    async def _restart(self, life: Life, fault: Fault) -> None:
        if life.ended:
            return
        life.doomed = Harm.RESTART
        self._fleet.send(life, signal.SIGTERM)
        self._note(Harm.RESTART, life.name)
        if await self._fleet.ended(life, _END_WITHIN_S):
            self._start(life.place, fault)

    async def _set_clock(self, life: Life, *, forward: bool) -> None:
        if life.ended or not any(ask.worker == life.name for ask in self._ledger.asks):
            return  # one that has not worked yet may not listen for the signal either, and would die of it
        there, back = (FORWARD, BACKWARD) if forward else (BACKWARD, FORWARD)
        self._fleet.send(life, there)
        self._note(Harm.CLOCK, life.name, "forward" if forward else "back")
        await asyncio.sleep(_WRONG_CLOCK_S)
        self._fleet.send(life, back)

    async def _fill_disk(self) -> None:
        self._note(Harm.DISK, "store")
        try:
            await asyncio.to_thread(fill, self._data)
            await asyncio.sleep(_FULL_DISK_S)
        finally:
            free(self._data)

    def _note(self, harm: Harm, victim: str, note: str = "") -> None:
        self._ledger.blows.append(Blow(harm, victim, time.monotonic(), note))
