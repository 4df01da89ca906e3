"""Fakes for everything that a moniker touches, and a small player of steps; they ship for authors of monikers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from runtime.contract import Json, Moniker, MonikerInputError, StepFrame, StepInput, StepOut, WaitForInput, WaitUntil
from runtime.llm.offline import OfflineModel
from runtime.llm.port import ChatModel, ChatReply, ChatRequest, LlmError, Usage
from store.clock import SystemClock

ConfigT = TypeVar("ConfigT", bound=BaseModel)
T = TypeVar("T")

START = datetime(2026, 1, 1, tzinfo=UTC)

Scripted = str | LlmError | Callable[[ChatRequest], str]


class FakeClock:
    """Time that moves only when somebody sleeps or a test says so."""

    def __init__(self, start: datetime = START) -> None:
        self._now = start
        self.slept: list[float] = []

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return (self._now - START).total_seconds()

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Move on by `seconds`."""
        self._now += timedelta(seconds=seconds)


class LeapClock:
    """Real time that a test moves ahead: whoever sleeps until a moment that was leapt over wakes at once.

    For tests of whole workers, where helpers wait for milliseconds and sessions for days.
    """

    def __init__(self) -> None:
        self._real = SystemClock()
        self._ahead = 0.0
        self._leapt = asyncio.Event()

    def now(self) -> datetime:
        return self._real.now() + timedelta(seconds=self._ahead)

    def monotonic(self) -> float:
        return self._real.monotonic() + self._ahead

    async def sleep(self, seconds: float) -> None:
        until = self.monotonic() + seconds
        while (left := until - self.monotonic()) > 0:
            try:
                async with asyncio.timeout(left):
                    await self._leapt.wait()
            except TimeoutError:
                return
        await asyncio.sleep(0)

    def leap(self, seconds: float) -> None:
        """Move on by `seconds`."""
        self._ahead += seconds
        leapt, self._leapt = self._leapt, asyncio.Event()
        leapt.set()


class FakeFiles(dict[str, str]):
    """Files by path; a missing one is refused as the real ones are."""

    async def read_text(self, path: str) -> str:
        if path not in self:
            raise MonikerInputError(f"{path}: no such file in the allowed folders")
        return self[path]


class FakeLog:
    """Keeps what was logged, as `(level, event, fields)`."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, Any]]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.lines.append(("info", event, fields))

    def warning(self, event: str, **fields: Any) -> None:
        self.lines.append(("warning", event, fields))


class ScriptedModel:
    """Answers what it was told to, in order: a text, an error to raise, or a function of the request.

    `requests` keeps what it was asked. Running out of answers is an `AssertionError`.
    """

    label = "scripted"

    def __init__(self, *answers: Scripted) -> None:
        self._answers = list(answers)
        self.requests: list[ChatRequest] = []

    async def chat(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        if not self._answers:
            raise AssertionError(f"no answer left for call {len(self.requests)} ({request.purpose})")
        answer = self._answers.pop(0)
        if isinstance(answer, LlmError):
            raise answer
        text = answer if isinstance(answer, str) else answer(request)
        return ChatReply(text=text, model=self.label, usage=Usage(input_tokens=1, output_tokens=1, calls=1))


@dataclass
class FakeCtx(Generic[ConfigT]):
    """A `Ctx` without a store: records, emitted events and enqueued actions are kept in lists."""

    config: ConfigT
    task: str = ""
    llm: ChatModel = field(default_factory=OfflineModel)
    files: FakeFiles = field(default_factory=FakeFiles)
    clock: FakeClock = field(default_factory=FakeClock)
    log: FakeLog = field(default_factory=FakeLog)
    session_id: str = "session-1"
    agent_id: str = "agent-1"
    conversation_id: str | None = None
    iteration: int = 0
    records: dict[str, Any] = field(default_factory=dict)
    emitted: list[tuple[str, Json]] = field(default_factory=list)
    enqueued: list[tuple[str, str, Json]] = field(default_factory=list)

    async def record(self, key: str, fn: Callable[[], Awaitable[T]], *, kind: str = "tool") -> T:
        """Run `fn` once a key; a second call gives the first result."""
        if key not in self.records:
            self.records[key] = await fn()
        result: T = self.records[key]
        return result

    async def emit(self, kind: str, data: Json) -> None:
        self.emitted.append((kind, data))

    async def enqueue(self, kind: str, *, session_id: str, payload: Json) -> str:
        self.enqueued.append((kind, session_id, payload))
        return f"action-{len(self.enqueued)}"


@dataclass(frozen=True, slots=True)
class Said:
    """What reaches a session before one of its steps."""

    inputs: tuple[str, ...] = ()
    guidance: Any = None


async def play(
    moniker: Moniker[ConfigT], ctx: FakeCtx[ConfigT], *, steps: int, said: Mapping[int, Said] | None = None
) -> list[StepOut]:
    """Carry `moniker` through at most `steps` steps as a runner does, without a store.

    Stops early when a step is done and the moniker says so, or waits for input and nothing is `said` before the next
    step. A wait for a time moves the clock there.
    """
    outs: list[StepOut] = []
    token, state = moniker.first_step, dict[str, Any]()
    for number in range(steps):
        heard = (said or {}).get(number, Said())
        if outs and _rests(outs[-1], heard, moniker, ctx.clock):
            break
        ctx.iteration, ctx.records = number, {}
        frame = StepFrame(step=token, state=state, guidance=heard.guidance, inputs=_inputs(heard.inputs))
        outs.append(await moniker.step(ctx, frame))
        token, state = outs[-1].next_step, outs[-1].state
    return outs


def _inputs(texts: Iterable[str]) -> tuple[StepInput, ...]:
    return tuple(StepInput(text=text) for text in texts)


def _rests(last: StepOut, heard: Said, moniker: Moniker[Any], clock: FakeClock) -> bool:
    """True when a runner would not take another step after `last`."""
    if last.done and moniker.stop_on_done:
        return True
    spoken_to = bool(heard.inputs) or heard.guidance is not None
    if isinstance(last.wait, WaitUntil) and not spoken_to:
        clock.advance((last.wait.time - clock.now()).total_seconds())
    return isinstance(last.wait, WaitForInput) and not spoken_to
