"""An OpenAI-compatible server that does what a test scripts, over real sockets: answers, streams, fails, cuts, hangs.

It keeps what it was asked and sees when whoever asked has gone. Each connection is answered in the order of its
requests; answers are taken from the script in the order in which requests arrive.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

HOST = "127.0.0.1"
USAGE = {"prompt_tokens": 7, "completion_tokens": 3}


@dataclass(frozen=True)
class Answer:
    """One scripted answer.

    `pieces` are sent as chunks of a stream, each when the one before it was written. `cut` closes the connection
    before the end, `hang` keeps it open and silent until the client leaves, after the pieces if there are any. `pace`
    is awaited before each piece.
    """

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    pieces: tuple[bytes, ...] | None = None
    cut: bool = False
    hang: bool = False
    pace: Callable[[], Awaitable[None]] | None = None


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def key(self) -> str:
        """The key that it was sent with."""
        return self.headers.get("authorization", "").removeprefix("Bearer ")


Script = Callable[[Asked], Answer]


class LlmServer:
    """A running server. `answers` are given in order; when they are used up, `otherwise` answers."""

    def __init__(self) -> None:
        self.url = ""
        self.answers: list[Answer | Script] = []
        self.otherwise: Answer | Script | None = None
        self.asked: list[Asked] = []
        self.hanging = asyncio.Event()
        self.left = asyncio.Event()
        self.running = 0
        self.most_running = 0

    def script(self, *answers: Answer | Script) -> None:
        """Answer so from now on."""
        self.answers = list(answers)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client closed the connection, which is its right
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        asked = await _read(reader)
        self.asked.append(asked)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            return await self._answer(self._next(asked), reader, writer)
        finally:
            self.running -= 1

    def _next(self, asked: Asked) -> Answer:
        found = self.answers.pop(0) if self.answers else self.otherwise
        if found is None:
            return refused(599, "the script has no answer left")
        return found if isinstance(found, Answer) else found(asked)

    async def _answer(self, answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if answer.pieces is not None:
            await _stream(answer, writer)
        elif not answer.hang:
            writer.write(_whole(answer))
            await writer.drain()
        if answer.hang:
            self.hanging.set()
            await reader.read()
            self.left.set()
            return False
        return not answer.cut


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.strip().split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(first.split()[1], headers, json.loads(body))


def _whole(answer: Answer) -> bytes:
    body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
    head = [f"HTTP/1.1 {answer.status} X", "content-type: application/json", f"content-length: {len(body)}"]
    head += [f"{name}: {value}" for name, value in answer.headers.items()]
    return "\r\n".join([*head, "", ""]).encode() + (body[:-5] if answer.cut else body)


async def _stream(answer: Answer, writer: asyncio.StreamWriter) -> None:
    head = [f"HTTP/1.1 {answer.status} X", "content-type: text/event-stream", "transfer-encoding: chunked"]
    writer.write("\r\n".join([*head, "", ""]).encode())
    for piece in answer.pieces or ():
        if answer.pace is not None:
            await answer.pace()
        writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        await writer.drain()
    if not answer.cut and not answer.hang:
        writer.write(b"0\r\n\r\n")
    await writer.drain()


@asynccontextmanager
async def llm_server() -> AsyncIterator[LlmServer]:
    """A running server on a port of its own."""
    it = LlmServer()
    server = await asyncio.start_server(it.serve, HOST, 0)
    it.url = f"http://{HOST}:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield it
    finally:
        server.close()
        await server.wait_closed()


# --- what it can say -------------------------------------------------------------------------------------------------


def said(content: Any = "ha", finish: str | None = "stop", model: str = "m-2", **more: Any) -> Answer:
    """A whole completion."""
    choice = {"message": {"role": "assistant", "content": content, **more}, "finish_reason": finish}
    return Answer({"model": model, "choices": [choice], "usage": USAGE})


def refused(status: int, message: str = "no", headers: dict[str, str] | None = None, **error: Any) -> Answer:
    """An error as the API tells it."""
    return Answer({"error": {"message": message, **error}}, status, headers or {})


def event(data: Any) -> bytes:
    """One event of a stream."""
    return b"data: " + (data if isinstance(data, bytes) else json.dumps(data).encode()) + b"\n\n"


def piece(content: str | None = None, finish: str | None = None, **delta: Any) -> bytes:
    """One event with a piece of a completion."""
    said_here = {"content": content, **delta} if content is not None else delta
    return event({"model": "m-2", "choices": [{"index": 0, "delta": said_here, "finish_reason": finish}]})


def call_piece(index: int | None, name: str | None, arguments: str, call_id: str | None = None) -> bytes:
    """One event with a piece of a tool call."""
    call = {"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}}
    return piece(tool_calls=[call])


def streamed(*contents: str, finish: str = "stop", done: bool = True) -> Answer:
    """A whole stream of texts, with its usage at the end."""
    pieces = [piece(content) for content in contents]
    pieces += [piece(finish=finish), event({"choices": [], "usage": USAGE})]
    return Answer(pieces=(*pieces, *([event(b"[DONE]")] if done else [])))


def vectors(rows: Sequence[Sequence[float]], **more: Any) -> Answer:
    """An answer with vectors, in the order given."""
    data = [{"object": "embedding", "index": index, "embedding": list(row)} for index, row in enumerate(rows)]
    return Answer({"data": data, "model": "e-2", "usage": {"prompt_tokens": 5, "total_tokens": 5}, **more})
