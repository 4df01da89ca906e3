"""A process of its own for one program: started with nothing, spoken with over one socket, killed whole.

It gets no environment, no open file but its line and a place for noise, and a session of its own, so that killing that
session by its number reaches whatever was started inside.

It is not started by the event loop: uvloop forks this process, with LanceDB's threads in it, and runs Python in the
fork before the program begins, which can stand still for ever. `subprocess` starts a program without that (`vfork`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.sandbox.errors import SandboxUnavailableError
from runtime.sandbox.wire import Broke, Called, Done, Dumped, NonsenseError, Printed, Ready, read


@dataclass(frozen=True, slots=True)
class _Started:
    """A process, and what it writes to its standard output and error."""

    process: subprocess.Popen[bytes]
    text: asyncio.StreamReader
    reading: asyncio.BaseTransport


class Child:
    """One running process."""

    def __init__(self, started: _Started, lines: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._process = started.process
        self._reading = started.reading
        self._ended = False
        self.text = started.text
        """What was written to the standard output and the standard error in there."""
        self._lines = lines
        self._writer = writer

    @property
    def pid(self) -> int:
        """The process's number, which is also that of its session."""
        return self._process.pid

    async def say(self, do: str, **fields: Any) -> None:
        """Send an order; it may be lost when the process has died, which `hear` then tells."""
        with contextlib.suppress(ConnectionError):
            self._writer.write(json.dumps({"do": do, **fields}).encode() + b"\n")
            await self._writer.drain()

    async def hear(self) -> Ready | Printed | Called | Dumped | Done | Broke | None:
        """The next message; None when the process has closed its end. Raises NonsenseError."""
        try:
            line = await self._lines.readline()
        except ConnectionError:
            return None
        except ValueError:
            raise NonsenseError("a line longer than any message") from None
        return read(line) if line.endswith(b"\n") else None

    async def end(self) -> None:
        """Kill the process and all that it started, and wait until it is gone. May be called again."""
        if not self._ended:
            self._ended = True
            # Also when the process itself has died already, since what it started may live on. The number of a session
            # is not given away while one member lives; that it is given away in the instant after the last one died
            # is left out of account.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        self._writer.close()
        await asyncio.to_thread(self._process.wait)
        self._reading.close()


@contextlib.asynccontextmanager
async def child(
    command: Callable[[int], Sequence[str]], max_line: int, more: Sequence[int] = ()
) -> AsyncIterator[Child]:
    """Start `command(number of its socket)`; it is dead and reaped when the block is left, however it is left.

    Lines longer than `max_line` bytes are nonsense, so it cannot fill our memory. `more` are further open files that it
    inherits. Raises SandboxUnavailableError when it cannot be started.
    """
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            made = await _start(command(theirs.fileno()), (theirs.fileno(), *more))
    except BaseException:
        ours.close()
        raise
    lines, writer = await asyncio.open_connection(sock=ours, limit=max_line)
    started = Child(made, lines, writer)
    try:
        yield started
    finally:
        await _whole(started.end())


async def _whole(ending: Coroutine[Any, Any, None]) -> None:
    """Wait for an end also when cancelled meanwhile: a cancelled run must not leave its process behind."""
    task = asyncio.ensure_future(ending)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


async def _start(command: Sequence[str], descriptors: Sequence[int]) -> _Started:
    # Not in a thread, though it takes some milliseconds: a caller that is cancelled must not lose what it started.
    try:
        process = _popen(command, descriptors)
    except OSError as error:
        raise SandboxUnavailableError(f"cannot start {command[0]!r}: {error}; nothing was run") from error
    try:
        text = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        reading, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(text), process.stdout)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
        raise
    return _Started(process, text, reading)


def _popen(command: Sequence[str], descriptors: Sequence[int]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
        cwd="/",
        env={},
        pass_fds=descriptors,
        start_new_session=True,
    )
