"""Carries one program through: turn by turn, with a deadline around each that nothing in the program can move.

A turn begins when the program is given something and ends when it calls, ends or breaks. Only turns are charged to its
time. When the deadline passes, the process is left to its owner, who kills it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, TypeVar, assert_never

from runtime.ports import Clock
from runtime.sandbox.child import Child
from runtime.sandbox.errors import HostWaitsError, SnapshotRefusedError
from runtime.sandbox.hostcalls import Ask, Raise, Stop, Value, carry_out, judge, order
from runtime.sandbox.output import Output
from runtime.sandbox.port import (
    Failed,
    FailureKind,
    Finished,
    Host,
    HostCall,
    Limits,
    Outcome,
    Suspended,
    Usage,
)
from runtime.sandbox.wire import Broke, Called, Done, Dumped, NonsenseError, Printed, Ready

T = TypeVar("T")
Heard: TypeAlias = Ready | Called | Dumped | Done | Broke
Decided: TypeAlias = Callable[[], Awaitable[Value | Raise]]
Asked: TypeAlias = Callable[["Carrying", HostCall], Awaitable[Suspended | Raise]]


class Diagnose(Protocol):
    """Turns what broke a program into its outcome's kind."""

    def __call__(self, broke: Broke) -> FailureKind: ...


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for one run, from its first turn to its last."""

    host: Host
    limits: Limits
    functions: tuple[str, ...]
    diagnose: Diagnose
    asked: Asked
    grace: float
    """Seconds past the limit that the program's own engine gets to end it with a better message."""
    mark: str | None = None
    """The word that every message has to bear."""
    suspends: bool = True
    """Whether a program can be put away while a host function waits for somebody."""


class _EndError(Exception):
    """The run is over, from whatever depth; carries its kind, message and line."""

    def __init__(self, kind: FailureKind, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.kind, self.message, self.line = kind, message, line


class Carrying:
    """One program on its way, as the worker sees it."""

    def __init__(self, child: Child, terms: Terms, clock: Clock, output: Output, usage: Usage) -> None:
        self.child = child
        self.output = output
        self.usage = usage
        self._terms = terms
        self._clock = clock

    async def carry(self, do: str, **fields: Any) -> Outcome:
        """Give the program its first order and take it to its end, or to a question."""
        return await self._judged(self._carry(do, fields))

    async def carry_on(self, call: HostCall, decided: Decided, **fields: Any) -> Outcome:
        """Load the program, which stands at `call`, tell it what was decided, and take it on as `carry` does.

        Raises SnapshotRefusedError when it does not come back to its call.
        """
        return await self._judged(self._carry_on(call, decided, fields))

    async def _carry_on(self, call: HostCall, decided: Decided, fields: dict[str, Any]) -> Outcome:
        heard = await self.turn("load", **fields)
        if not isinstance(heard, Called) or heard.name != call.name:
            said = heard.message if isinstance(heard, Broke) else heard.say
            raise SnapshotRefusedError(f"the snapshot does not stand at its call ({said}); run the program again")
        answer = await self._or_suspended(call, decided())
        if isinstance(answer, Suspended):
            return answer
        do, told = order(answer)
        return await self._carry(do, told)

    async def _judged(self, carrying: Awaitable[Outcome]) -> Outcome:
        """The outcome of `carrying`, also when it ended in the middle."""
        try:
            return await carrying
        except _EndError as end:
            return Failed(end.kind, end.message, end.line, self.output.text, self.usage)
        except NonsenseError as error:
            message = f"something wrote to the line of the results, which is not for programs: {error}"
            return Failed(FailureKind.REFUSED, message, None, self.output.text, self.usage)

    async def _carry(self, do: str, fields: dict[str, Any]) -> Outcome:
        while True:
            heard = await self.turn(do, **fields)
            match heard:
                case Done():
                    return Finished(heard.result, self.output.text, self.usage)
                case Broke():
                    raise _EndError(self._terms.diagnose(heard), heard.message, heard.line)
                case Called():
                    answer = await self._answer(heard)
                    if isinstance(answer, Suspended):
                        return answer
                    do, fields = order(answer)
                case Ready() | Dumped():
                    raise NonsenseError(f"{heard.say!r} where nobody asked for it")
                case _:
                    assert_never(heard)

    async def _answer(self, called: Called) -> Value | Raise | Suspended:
        verdict = judge(called, self._terms.host, self._terms.functions, self._terms.limits, self.usage.host_calls)
        match verdict:
            case Stop():
                raise _EndError(verdict.kind, verdict.message, verdict.line)
            case Ask():
                self._count_call()
                return await self._terms.asked(self, verdict.call)
            case HostCall():
                self._count_call()
                return await self._or_suspended(verdict, carry_out(self._terms.host, verdict))
            case _:
                assert_never(verdict)

    async def _or_suspended(self, call: HostCall, answering: Awaitable[Value | Raise]) -> Value | Raise | Suspended:
        """The answer to a call at which the program stands, or the program when the answer has to wait."""
        try:
            return await answering
        except HostWaitsError:
            if not self._terms.suspends:
                raise
            return await self._terms.asked(self, call)

    def flooded(self) -> Failed:
        """The outcome of a program that printed too much."""
        return Failed(FailureKind.TOO_MUCH_OUTPUT, self._flood(), None, self.output.text, self.usage)

    def _flood(self) -> str:
        return f"it printed more than {self._terms.limits.output_bytes} bytes: print less"

    def _count_call(self) -> None:
        self.usage = replace(self.usage, host_calls=self.usage.host_calls + 1)

    async def turn(self, do: str, **fields: Any) -> Heard:
        """Give an order and wait for what the program does next, within the time that is left to it."""
        since = self._clock.monotonic()
        try:
            return await within(self._clock, self._left(), self._turn(do, fields))
        except TimeoutError:
            limit = f"{self._terms.limits.seconds:g} s are over"
            raise _EndError(FailureKind.OUT_OF_TIME, f"{limit}: the program was killed; do less in one run") from None
        finally:
            self.usage = replace(self.usage, seconds=self.usage.seconds + self._clock.monotonic() - since)

    def _left(self) -> float:
        return max(self._terms.limits.seconds - self.usage.seconds, 0) + self._terms.grace

    async def _turn(self, do: str, fields: dict[str, Any]) -> Heard:
        await self.child.say(do, **fields)
        while True:
            heard = await self._hear()
            if isinstance(heard, Printed):
                self.output.add(heard.text)
            if self.output.overflow.is_set():
                raise _EndError(FailureKind.TOO_MUCH_OUTPUT, self._flood())
            if heard is None:
                raise _EndError(
                    FailureKind.CRASHED, "its process died without a word: it may have used too much memory"
                )
            if not isinstance(heard, Printed):
                return heard

    async def _hear(self) -> Heard | Printed | None:
        """The next message; None also when the output has overflown meanwhile."""
        hearing = asyncio.ensure_future(self.child.hear())
        flood = asyncio.ensure_future(self.output.overflow.wait())
        try:
            await asyncio.wait({hearing, flood}, return_when=asyncio.FIRST_COMPLETED)
            if not hearing.done():
                return None
            heard = hearing.result()
        finally:
            await dropped(hearing, flood)
        if heard is not None and not _is_marked(heard.mark, self._terms.mark):
            raise NonsenseError("without the run's mark")
        return heard


async def within(clock: Clock, seconds: float, doing: Awaitable[T]) -> T:
    """What `doing` gives, unless `seconds` of the clock pass first: then it is cancelled and TimeoutError raised."""
    work = asyncio.ensure_future(doing)
    bell = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({work, bell}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise TimeoutError
        return work.result()
    finally:
        await dropped(work, bell)


async def dropped(*tasks: asyncio.Future[Any]) -> None:
    """Cancel `tasks` and see them end; what they still had to say is of no interest any more."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _is_marked(mark: str | None, wanted: str | None) -> bool:
    return wanted is None or (mark is not None and secrets.compare_digest(mark.encode(), wanted.encode()))
