"""Servers on this machine that answer as they are told, byte for byte, and a name server in memory."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

HOST = "127.0.0.1"
Script = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Server:
    """Where a server is, and the heads of the requests that it was sent."""

    port: int = 0
    asked: list[bytes] = field(default_factory=list)
    gone: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def serving(script: Script | bytes, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """A server that answers each connection by `script`, or with these bytes; it closes the connection after that."""
    server = Server()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            server.asked.append(head)
            if isinstance(script, bytes):
                writer.write(script)
            else:
                await script(head, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            server.gone.set()
        finally:
            writer.close()

    listening = await asyncio.start_server(connected, HOST, 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()


def answer(body: bytes = b"hello", status: str = "200 OK", content_type: str = "text/plain", **headers: str) -> bytes:
    """A whole answer. Headers by keyword: `content_encoding="gzip"`."""
    named = {"Content-Type": content_type, "Content-Length": str(len(body))}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode("latin-1") + body


def redirect(location: str, status: str = "302 Found") -> bytes:
    return answer(b"", status, location=location)


@dataclass
class Names:
    """A name server: each question for a name is answered with the next of its answers, the last one for ever."""

    known: dict[str, list[Sequence[str]]]
    asked: list[str] = field(default_factory=list)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        answers = self.known.get(host, [])
        if not answers:
            raise OSError(f"{host} is not known")
        return answers.pop(0) if len(answers) > 1 else answers[0]
