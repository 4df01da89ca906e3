"""What every stream keeps to: it ends at its deadline, and a caller may have the whole of it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from runtime.llm.port import ChatReply, LlmError, LlmErrorKind, Stream, StreamEnd, StreamRestart, TextDelta


async def until_deadline(parts: Stream, until: float, label: str) -> Stream:
    """`parts` until the moment `until` of the loop's clock.

    Raises `LlmError` (TIMEOUT) then, with the text that came; the request behind `parts` is closed by that. The
    deadline counts only while a part is awaited, so that it never cancels what the caller does in between.
    """
    came: list[str] = []
    async with aclosing(parts):
        while True:
            try:
                async with asyncio.timeout_at(until):
                    part = await anext(parts, None)
            except TimeoutError:
                said = f"{label}: the stream did not end in time"
                raise LlmError(LlmErrorKind.TIMEOUT, said, partial="".join(came)) from None
            if part is None:
                return
            if isinstance(part, TextDelta):
                came.append(part.text)
            yield part


async def whole_stream(parts: Stream) -> ChatReply:
    """The reply at the end of a stream. Raises `LlmError` as the stream does, MALFORMED when it has no end."""
    async with aclosing(parts):
        async for part in parts:
            if isinstance(part, StreamEnd):
                return part.reply
            if isinstance(part, StreamRestart):
                continue
    raise LlmError(LlmErrorKind.MALFORMED, "the stream ended without its last part")
