"""A server as a child process: JSON lines over its standard input and output, every pipe bounded.

The library's own transport is not used: it hands the child six variables of our environment, keeps a line of any
length in memory, and lets the child write to our standard error. Here the child gets the variables that the operator
named and no others (S42), a line that is too long ends the connection, and standard error is read and forgotten but for
its end.

When the context ends the child's whole process group is ended (`process.py`), however often the caller is cancelled
meanwhile. A worker that is killed leaves children whose standard input has ended.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from runtime.tools.mcp.config import Stdio
from runtime.tools.mcp.failures import CannotConnect
from runtime.tools.mcp.process import ChildProcess, start

Incoming = SessionMessage | Exception
Streams = tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]
Ended = Callable[[str], None]

#: lines that are no messages: some servers greet
_MOST_GARBAGE = 100
#: messages that wait for a server that does not read; a caller that gives up is not held by them
_WAITING = 64
_WRITE_S = 30.0
_KEPT_ERROR_BYTES = 2_000
_CHUNK = 64 * 1024


@dataclass(slots=True)
class _Child:
    """A running server, and what it has said on standard error of late."""

    process: ChildProcess
    incoming: MemoryObjectSendStream[Incoming]
    outgoing: MemoryObjectReceiveStream[SessionMessage]
    ended: Ended
    max_bytes: int
    said: bytearray = field(default_factory=bytearray)
    #: it is us who end it
    leaving: bool = False

    async def read(self) -> None:
        """Hand on its messages until it ends or breaks the rules; says why."""
        reason = "it closed its standard output"
        try:
            async with self.incoming:
                reason = await self._messages() or reason
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError) as error:
            reason = f"its standard output broke ({type(error).__name__})"
        finally:
            self._end(reason)

    async def _messages(self) -> str | None:
        stdout, garbage = self.process.stdout, 0
        while True:
            try:
                line = await stdout.readline()
            except ValueError:
                return f"it sent a message of more than {self.max_bytes:,} bytes"
            if not line:
                return None
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                garbage += 1
                if garbage > _MOST_GARBAGE:
                    return f"it wrote {garbage} lines that are no messages to its standard output"
                continue
            await self.incoming.send(SessionMessage(message))

    async def write(self) -> None:
        """Hand it our messages until it stops reading."""
        stdin = self.process.stdin
        try:
            async with self.outgoing:
                async for item in self.outgoing:
                    stdin.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                    async with asyncio.timeout(_WRITE_S):
                        await stdin.drain()
        except TimeoutError:
            self._end(f"it has not read its standard input for {_WRITE_S:g} s")
        except (ConnectionError, OSError):
            self._end("it closed its standard input")

    async def drain_errors(self) -> None:
        """Read its standard error, however much it writes, and keep the end."""
        while chunk := await self.process.stderr.read(_CHUNK):
            self.said = (self.said + chunk)[-_KEPT_ERROR_BYTES:]

    def _end(self, reason: str) -> None:
        if not self.leaving:
            self.ended(reason)


@asynccontextmanager
async def stdio_transport(
    server: Stdio, environ: Mapping[str, str], *, max_bytes: int, ended: Ended, last_words: Ended
) -> AsyncIterator[Streams]:
    """Start a server and give its streams; it is stopped when the context ends.

    `ended` is told why, when the server ends by itself or is not listened to any more; `last_words`, after it was
    stopped, what it wrote to standard error last, without the values that it was given. Raises `CannotConnect`.
    """
    given = given_variables(server.env, environ)
    process = await _started(server, given, environ, max_bytes)
    incoming, inbox = anyio.create_memory_object_stream[Incoming](0)
    outbox, outgoing = anyio.create_memory_object_stream[SessionMessage](_WAITING)
    child = _Child(process, incoming, outgoing, ended, max_bytes)
    tasks = [asyncio.create_task(work) for work in (child.read(), child.write(), child.drain_errors())]
    try:
        yield inbox, outbox
    finally:
        child.leaving = True
        await _to_its_end(_closed(process, tasks))
        for stream in (inbox, outbox, incoming, outgoing):
            stream.close()
        if child.said:
            last_words(_redacted(child.said.decode("utf-8", "replace"), given))


def given_variables(names: tuple[str, ...], environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of these names. Raises `CannotConnect` when one is not set."""
    if missing := [name for name in names if name not in environ]:
        raise CannotConnect(f"the environment variables {', '.join(missing)} are not set; set them for the worker")
    return {name: environ[name] for name in names}


async def _started(server: Stdio, given: Mapping[str, str], environ: Mapping[str, str], max_bytes: int) -> ChildProcess:
    program = shutil.which(server.command, path=environ.get("PATH"))
    if program is None:
        raise CannotConnect(
            f"there is no program {server.command!r} (looked for in the worker's PATH); install it, or give its whole "
            "path, with what follows it in args"
        )
    try:
        return await start(program, server.args, given, line_bytes=max_bytes)
    except OSError as error:
        raise CannotConnect(f"{server.command!r} cannot be started: {error.strerror or error}") from error


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Wait for `work` however often the caller is cancelled meanwhile; that is passed on afterwards."""
    doing = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        while not doing.done():
            try:
                await asyncio.wait([doing])
            except asyncio.CancelledError as error:
                cancelled = error
    doing.result()
    if cancelled is not None:
        raise cancelled


async def _closed(process: ChildProcess, tasks: Sequence[asyncio.Task[None]]) -> None:
    await process.stop()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _redacted(text: str, given: Mapping[str, str]) -> str:
    for name, value in given.items():
        if value:
            text = text.replace(value, f"[{name}]")
    return text
