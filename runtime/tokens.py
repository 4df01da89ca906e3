"""The text of running model calls, on its way to whoever watches: all sessions' pieces in few commits.

`TokenFeed` is one a worker. What the streams say is collected and appended in one commit, at once when nothing was
said for a while, else `every_s` after the last commit began: at most 20 commits a second, however many sessions stream,
and none when none does. What one call said between two commits is one row.

A row says where it belongs: `call` is the number of the model call in its step, `stream` rises with every stream that
this worker begins, `offset` counts the characters before the row. Of the rows of one call only those of the highest
(`epoch`, `stream`) count: a call that is made again, after a crash, a failure or a cut, begins a new stream, and what
the one before it said is void. So rows may come twice or late and the text is the same.

Live text is no part of the truth. It never holds a model back: `say` only remembers. A store that is slow gets fewer,
larger rows; a stream that it cannot follow at all goes silent, and the step's row shows the whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

from runtime.errors import OwnershipLostError
from runtime.llm.port import LlmErrorKind
from runtime.ports import Clock, Json
from store.agent_events import LIVE_TEXT, AgentEvent, append_events
from store.database import TenantStore
from store.errors import StoreError
from store.ids import SessionId

EVERY_S = 0.05
#: characters of all streams that wait for the store at most; a stream that says more goes silent
MAX_WAITING_CHARS = 4_000_000
#: how long the end of a call waits for its last row; it comes later when the store is slower than that
END_PATIENCE_S = 0.5


@dataclass(frozen=True, slots=True)
class LiveCall:
    """The call that a stream answers. `check_ownership` raises when another worker has the session."""

    session_id: SessionId
    iteration: int
    number: int
    epoch: int
    lane: str
    check_ownership: Callable[[], Awaitable[None]]


class Listener(Protocol):
    """Where a stream's text goes."""

    def say(self, text: str) -> None: ...

    def restart(self, because: LlmErrorKind) -> None: ...

    async def ended(self) -> None: ...

    def leave(self) -> None: ...


class TokenFeed:
    """Collects what the streams of a worker say and stores it. For one event loop."""

    def __init__(self, db: TenantStore, clock: Clock, log: Any, *, every_s: float = EVERY_S) -> None:
        self._db = db
        self._clock = clock
        self._log = log
        self._every_s = every_s
        self._numbers = count(1)
        self._waiting: dict[LiveText, None] = {}
        self._chars = 0
        self._flushing: asyncio.Task[None] | None = None

    def begin(self, call: LiveCall) -> LiveText:
        """A stream of `call` begins."""
        return LiveText(self, call)

    def next_number(self) -> int:
        """The number of a new stream."""
        return next(self._numbers)

    def has_room(self, chars: int) -> bool:
        """Whether so many characters more may wait."""
        return self._chars + chars <= MAX_WAITING_CHARS

    def note(self, text: LiveText, chars: int) -> None:
        """`text` has so many characters more to tell."""
        self._chars += chars
        self._waiting[text] = None
        if self._flushing is None:
            self._flushing = asyncio.create_task(self._flush())

    def forget(self, text: LiveText, chars: int) -> None:
        """`text` tells nothing of what waits."""
        self._chars -= chars
        self._waiting.pop(text, None)

    def tell(self, words: str, call: LiveCall) -> None:
        """Log that a stream is not shown."""
        self._log.warning(words, session_id=call.session_id, iteration=call.iteration)

    async def _flush(self) -> None:
        try:
            # One turn of the loop: what is said at the same moment, by whomever, shares the first commit.
            await asyncio.sleep(0)
            while self._waiting:
                began = self._clock.monotonic()
                await self._store(list(self._waiting))
                await self._clock.sleep(max(0.0, self._every_s - (self._clock.monotonic() - began)))
        finally:
            self._flushing = None

    async def _store(self, texts: list[LiveText]) -> None:
        owned = [text for text in texts if await text.is_owned()]
        rows = [row for text in owned if (row := text.take(self._clock)) is not None]
        try:
            await append_events(self._db, rows)
        except StoreError as error:
            for text in owned:
                text.go_silent(f"live text could not be stored; the step shows it when it ends: {error}")
        for text in owned:
            text.settle()


class LiveText:
    """The text of one call, as far as it has come. Not for two tasks at once."""

    def __init__(self, feed: TokenFeed, call: LiveCall) -> None:
        self._feed = feed
        self._call = call
        self._stream = feed.next_number()
        self._offset = 0
        self._pieces: list[str] = []
        self._chars = 0
        self._because: LlmErrorKind | None = None
        self._is_silent = False
        self._settled = asyncio.Event()
        self._settled.set()

    def say(self, text: str) -> None:
        """The model said `text`. Never waits."""
        if self._is_silent or not text:
            return
        if not self._feed.has_room(len(text)):
            self.go_silent("the store is too slow for live text; the step shows it when it ends")
            return
        self._pieces.append(text)
        self._wait(len(text))

    def restart(self, because: LlmErrorKind) -> None:
        """What was said is void; the model begins anew."""
        if not self._is_silent:
            self._drop()
            self._stream, self._offset, self._because = self._feed.next_number(), 0, because
            self._wait(0)

    async def ended(self) -> None:
        """The model has said all: return when it is stored, or the store has been slow for a while."""
        with suppress(TimeoutError):
            async with asyncio.timeout(END_PATIENCE_S):
                await self._settled.wait()

    def leave(self) -> None:
        """The call came to no end: nothing more is told of it."""
        self._is_silent = True
        self._drop()
        self._settled.set()

    def go_silent(self, why: str) -> None:
        """Tell nothing more, and say so in the log."""
        self.leave()
        self._feed.tell(why, self._call)

    async def is_owned(self) -> bool:
        """Whether the session is still this worker's. A stale owner's text is not told."""
        try:
            await self._call.check_ownership()
        except OwnershipLostError:
            self.leave()
            return False
        return not self._is_silent

    def take(self, clock: Clock) -> AgentEvent | None:
        """What waits, as one row; None when nothing does any more."""
        if self._is_silent:
            return None
        text, because = "".join(self._pieces), self._because
        row = self._row(text, because, clock)
        self._drop()
        self._offset += len(text)
        self._because = None
        return row

    def settle(self) -> None:
        """What was taken is stored."""
        if not self._pieces and self._because is None:
            self._settled.set()

    def _wait(self, chars: int) -> None:
        self._chars += chars
        self._settled.clear()
        self._feed.note(self, chars)

    def _drop(self) -> None:
        self._feed.forget(self, self._chars)
        self._pieces.clear()
        self._chars = 0

    def _row(self, text: str, because: LlmErrorKind | None, clock: Clock) -> AgentEvent:
        call = self._call
        data: Json = {"call": call.number, "stream": self._stream, "offset": self._offset, "text": text}
        return AgentEvent(
            id=f"{call.session_id}:{call.iteration}:{call.epoch}:{self._stream}:{self._offset}",
            created_at=clock.now(),
            session_id=call.session_id,
            iteration=call.iteration,
            event_seq=self._stream,
            kind=LIVE_TEXT,
            data=data if because is None else {**data, "restart": because.value},
            epoch=call.epoch,
            lane=call.lane,
        )
