"""Server-sent events, of which a model's stream uses the `data` field alone."""

from __future__ import annotations

from collections.abc import AsyncIterator

MAX_LINE_BYTES = 4_000_000


class BadEventError(ValueError):
    """The stream is no stream of events, or one line of it is without end."""


async def event_data(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The data of each event, as it arrives, however the bytes were cut.

    Lines end with LF, CRLF or CR and nothing else (WHATWG HTML, 9.2.6): Unicode's separators may stand inside JSON.
    An event that the stream's end cuts is left out. Raises `BadEventError`.
    """
    data: list[bytes] = []
    async for line in _lines(chunks):
        if not line:
            if data:
                yield b"\n".join(data)
                data = []
        elif line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
        elif not line.startswith((b":", b"event:", b"id:", b"retry:", b"data", b"event", b"id")):
            raise BadEventError(f"not a line of an event stream: {line[:80]!r}")


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest, seen = b"", False
    async for chunk in chunks:
        # a CR at the very end may be half of a CRLF: it waits for the next byte
        text = rest + chunk
        held = b"\r" if text.endswith(b"\r") else b""
        text = text.removesuffix(held) if held else text
        *lines, rest = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        rest += held
        if len(rest) > MAX_LINE_BYTES:
            raise BadEventError(f"a line of the stream is longer than {MAX_LINE_BYTES} bytes")
        for line in lines:
            seen = True
            yield line
    # what is cut says nothing, but a body of one line may be a page or an error that is no stream at all
    if rest.endswith(b"\r") or (rest and not seen):
        yield rest.removesuffix(b"\r")
