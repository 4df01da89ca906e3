"""A child process of a server: started from a list of words, with three pipes, and ended with all that it started.

It is not started by the event loop: uvloop forks this process, with LanceDB's threads in it, and runs Python in the
fork before the program begins, which can stand still for ever. `subprocess` starts a program without that (`vfork`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO

#: seconds that a program has to end by itself, after it is asked to, and to be gone after it is killed
_LEAVE_S = 1.0


@dataclass(frozen=True, slots=True)
class ChildProcess:
    """A running program and its pipes. `stop` it in any case."""

    process: subprocess.Popen[bytes]
    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader
    reading: tuple[asyncio.BaseTransport, ...]

    async def stop(self) -> None:
        """Close its input, then end its process group, then kill it. Takes three times `_LEAVE_S` at most."""
        self.stdin.close()
        for sign in (None, signal.SIGTERM, signal.SIGKILL):
            if sign is not None:
                # Also when the program itself has gone: what it started is in its group.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.process.pid, sign)
            await asyncio.to_thread(self._gone)
        for transport in (self.stdin.transport, *self.reading):
            transport.close()
        await asyncio.sleep(0)  # the loop closes pipes in its next turn

    def _gone(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_LEAVE_S)


async def start(program: str, args: Sequence[str], env: Mapping[str, str], *, line_bytes: int) -> ChildProcess:
    """Start a program with this environment and no other, in a session of its own. Raises `OSError`.

    A line of more than `line_bytes` on its standard output is a `ValueError` for whoever reads it.
    """
    # Not in a thread, though it takes some milliseconds: a caller that is cancelled must not lose what it started.
    process = _popen([program, *args], dict(env))
    unread = [process.stderr, process.stdin]
    reading: list[asyncio.BaseTransport] = []
    try:
        stdout, transport = await _reader(process.stdout, line_bytes)
        reading.append(transport)
        stderr, transport = await _reader(unread.pop(0), line_bytes)
        reading.append(transport)
        stdin = await _writer(unread.pop(0))
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(_LEAVE_S)
        for transport in reading:
            transport.close()
        for pipe in unread:  # the loop closes those that it was given
            if pipe is not None:
                pipe.close()
        raise
    return ChildProcess(process, stdin, stdout, stderr, tuple(reading))


def _popen(command: list[str], env: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        env=env,
        start_new_session=True,
    )


async def _reader(pipe: IO[bytes] | None, limit: int) -> tuple[asyncio.StreamReader, asyncio.BaseTransport]:
    reader = asyncio.StreamReader(limit=limit)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader, transport


async def _writer(pipe: IO[bytes] | None) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    # The protocol is used for its flow control; nothing is ever read from this pipe.
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), pipe
    )
    return asyncio.StreamWriter(transport, protocol, None, loop)
