"""What a program prints, up to a bound."""

from __future__ import annotations

import asyncio
import codecs


class Output:
    """Text that grows until it would pass `max_bytes`; from then on `overflow` is set and nothing more is kept."""

    def __init__(self, max_bytes: int, before: str = "") -> None:
        self.overflow = asyncio.Event()
        self._left = max_bytes - len(before.encode())
        self._parts = [before]

    @property
    def text(self) -> str:
        """All that was kept, in order."""
        return "".join(self._parts)

    def add(self, text: str) -> None:
        """Keep `text`, or what of it has room."""
        encoded = text.encode(errors="replace")
        if len(encoded) > self._left:
            self.overflow.set()
        kept = encoded[: max(self._left, 0)]
        self._left -= len(kept)
        self._parts.append(kept.decode(errors="ignore"))

    async def drain(self, reader: asyncio.StreamReader) -> None:
        """Keep all that comes from `reader`, until its end or the bound."""
        decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        while not self.overflow.is_set() and (data := await reader.read(2**14)):
            self.add(decode(data))
