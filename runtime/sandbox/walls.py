"""The sandboxes of a worker: in which mode, with which key, and how many programs run at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal, assert_never

from runtime.ports import Clock
from runtime.sandbox.full import FullSandbox
from runtime.sandbox.monty import MontySandbox
from runtime.sandbox.port import Host, Sandbox
from runtime.sandbox.sealkey import SealKey

Mode = Literal["light", "full"]


class Walls:
    """Makes sandboxes for hosts, all of one `mode`. Nothing is started and no key is read before the first program."""

    def __init__(
        self, clock: Clock, key: SealKey, *, mode: Mode = "light", most_running: int = 2, path: str | None = None
    ) -> None:
        self.mode = mode
        self._clock = clock
        self._key = key
        self._path = path
        self._places = asyncio.Semaphore(most_running)

    @asynccontextmanager
    async def sandbox(self, host: Host) -> AsyncIterator[Sandbox]:
        """A sandbox for `host`, when one of the worker's places for programs is free.

        Raises `SettingError` when there is no key. Nothing is ever run outside of the walls of `mode` (S32).
        """
        async with self._places:
            yield self._sandbox(host)

    def _sandbox(self, host: Host) -> Sandbox:
        match self.mode:
            case "light":
                return MontySandbox(host, self._key.read(), self._clock)
            case "full":
                return FullSandbox(host, self._clock, self._path)
            case _:
                assert_never(self.mode)
