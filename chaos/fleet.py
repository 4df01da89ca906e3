"""The processes under fire: started here, watched here, and all of them ended here, by their ids."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from chaos.ledger import Blow, Harm, Ledger
from chaos.standin import HOST
from chaos.website import be_website
from chaos.worker import be_worker

WEB = "web"
_LOOK_EVERY_S = 0.01
_KILLED = -signal.SIGKILL
#: a life that is asked to end before it has set out ends by the signal itself
_IN_ORDER = (0, -signal.SIGTERM)


@dataclass(slots=True)
class Life:
    """One life of one process; `name` is "worker-1.4" for the fourth of worker 1."""

    name: str
    place: str
    process: ForkServerProcess
    crash_at: str | None
    #: why it is going to end, when that is our doing
    doomed: Harm | None = None
    ended: bool = False

    @property
    def pid(self) -> int:
        """Its process id."""
        if self.process.pid is None:
            raise RuntimeError(f"{self.name} was never started")
        return self.process.pid


@dataclass(slots=True)
class Fleet:
    """The web process and the workers by place: "web", "worker-0", "worker-1" and so on."""

    folder: Path
    ledger: Ledger
    settings: Mapping[str, str]
    port: int
    lives: dict[str, Life] = field(default_factory=dict)
    _born: int = 0

    def start(self, place: str, crash_at: str | None = None) -> Life:
        """Start a new life in a place whose last one has ended."""
        self._born += 1
        name = f"{place}.{self._born}"
        said = self.folder / "logs" / f"{name}.log"
        target = be_website if place == WEB else be_worker
        process = _context().Process(target=target, args=(str(said), self._environment(name, crash_at)), name=name)
        process.start()
        life = Life(name, place, process, crash_at)
        self.lives[place] = life
        return life

    def _environment(self, name: str, crash_at: str | None) -> dict[str, str]:
        # The model's name is the worker's, so that the stand-ins know which life asks.
        own = {"STEPWELL_MODEL": name, "STEPWELL_PORT": str(self.port), "STEPWELL_HOST": HOST}
        return {**self.settings, **own, **({} if crash_at is None else {"STEPWELL_CRASH_AT": crash_at})}

    def kill(self, life: Life) -> None:
        """`kill -9`; `watch` notes the death."""
        if not life.ended:
            life.doomed = Harm.KILL
            self.send(life, signal.SIGKILL)

    def send(self, life: Life, number: signal.Signals) -> None:
        """Send a signal to a life that has not ended by now."""
        if life.process.exitcode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(life.pid, number)

    async def watch(self) -> None:
        """Note every death in the ledger until cancelled."""
        while True:
            for life in self.lives.values():
                self._look_at(life)
            await asyncio.sleep(_LOOK_EVERY_S)

    def _look_at(self, life: Life) -> None:
        code = life.process.exitcode
        if life.ended or code is None:
            return
        life.ended = True
        if code == _KILLED and life.doomed is Harm.KILL:
            self.ledger.blows.append(Blow(Harm.KILL, life.name, time.monotonic()))
        elif code == _KILLED and life.crash_at is not None:
            self.ledger.blows.append(Blow(Harm.POINT, life.name, time.monotonic(), life.crash_at))
        elif life.doomed is not Harm.RESTART or code not in _IN_ORDER:
            self.ledger.broken.append(f"{life.name} ended by itself with exit code {code}; see logs/{life.name}.log")

    async def ended(self, life: Life, within_s: float) -> bool:
        """Whether a life has ended, waiting for it at most so long."""
        until = time.monotonic() + within_s
        while not life.ended and time.monotonic() < until:
            await asyncio.sleep(_LOOK_EVERY_S)
        return life.ended

    async def stop_all(self, within_s: float) -> None:
        """Ask everybody to end in order: what the last moments leave behind is part of what is checked."""
        running = [life for life in self.lives.values() if not life.ended]
        for life in running:
            life.doomed = Harm.RESTART
            self.send(life, signal.SIGTERM)
        for life in running:
            if not await self.ended(life, within_s):
                self.ledger.broken.append(f"{life.name} was asked to end and did not within {within_s:g} s")

    def end(self) -> None:
        """Kill whoever is left, stopped ones too."""
        for life in self.lives.values():
            if life.process.exitcode is None:
                life.process.kill()
            life.process.join()


def _context() -> multiprocessing.context.ForkServerContext:
    """Forks of a process that has imported everything: a start takes a fraction of a second."""
    # LanceDB warns of forks at each of them; this is the fork server that it recommends.
    os.environ.setdefault("PYTHONWARNINGS", "ignore:lancedb fork support:RuntimeWarning")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["chaos.worker", "chaos.website"])
    return context


@asynccontextmanager
async def fleet(folder: Path, ledger: Ledger, settings: Mapping[str, str], port: int) -> AsyncIterator[Fleet]:
    """A fleet without ships; whatever happens inside, nothing of it is left afterwards."""
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    ships = Fleet(folder, ledger, settings, port)
    watching = asyncio.create_task(ships.watch())
    try:
        yield ships
    finally:
        watching.cancel()
        await asyncio.to_thread(ships.end)
