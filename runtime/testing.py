"""Fakes for everything that a moniker touches, and a small player of steps; they ship for authors of monikers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from runtime.approvals.port import Answer, Question
from runtime.contract import (
    Json,
    Moniker,
    MonikerInputError,
    StepFrame,
    StepInput,
    StepOut,
    WaitForApproval,
    WaitForInput,
    WaitUntil,
)
from runtime.guard.fake import FakeGuard
from runtime.llm.offline import OfflineModel
from runtime.llm.port import (
    ChatModel,
    ChatReply,
    ChatRequest,
    EmbeddingModel,
    EmbeddingReply,
    LlmError,
    Model,
    Stream,
    StreamEnd,
    StreamingModel,
    StreamRestart,
    TextDelta,
    Usage,
)
from runtime.memory.fake import FakeMemory
from runtime.sandbox.fake import FakePrograms
from runtime.sandbox.port import Programs
from runtime.tools.fake import FakeTools
from runtime.tools.port import Tools
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
        self.shown: list[str] = []
        self.embedded: list[tuple[str, ...]] = []

    def apart(self, name: str) -> ScriptedModel:
        """The same model: nothing is recorded here."""
        return self

    async def chat(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        if not self._answers:
            raise AssertionError(f"no answer left for call {len(self.requests)} ({request.purpose})")
        answer = self._answers.pop(0)
        if isinstance(answer, LlmError):
            raise answer
        text = answer if isinstance(answer, str) else answer(request)
        return ChatReply(text=text, model=self.label, usage=Usage(input_tokens=1, output_tokens=1, calls=1))

    async def live(self, request: ChatRequest) -> ChatReply:
        """As `chat`; `shown` keeps the texts."""
        reply = await self.chat(request)
        self.shown.append(reply.text)
        return reply

    async def stream(self, request: ChatRequest, *, restart: bool = False) -> Stream:
        """The answer in two parts, and its end."""
        reply = await self.chat(request)
        half = (len(reply.text) + 1) // 2
        for piece in filter(None, (reply.text[:half], reply.text[half:])):
            yield TextDelta(text=piece)
        yield StreamEnd(reply=reply)

    async def embed(self, texts: Sequence[str], *, deadline_s: float = 60.0) -> EmbeddingReply:
        """Vectors as the offline model makes them; `embedded` keeps the texts."""
        self.embedded.append(tuple(texts))
        return await OfflineModel().embed(texts, deadline_s=deadline_s)


class FakeModel:
    """`ctx.llm` without a store: any chat model. `shown` is the live text, a list of pieces for each live call."""

    def __init__(self, model: ChatModel | None = None, embedder: EmbeddingModel | None = None) -> None:
        self._model = model or OfflineModel()
        self._embedder = embedder or OfflineModel()
        self.label = self._model.label
        self.shown: list[list[str]] = []

    def apart(self, name: str) -> FakeModel:
        """The same model: nothing is recorded here."""
        return self

    async def chat(self, request: ChatRequest) -> ChatReply:
        return await self._model.chat(request)

    async def live(self, request: ChatRequest) -> ChatReply:
        """As `chat`; a model that cannot stream shows its answer in one piece."""
        self.shown.append([])
        if not isinstance(self._model, StreamingModel):
            reply = await self._model.chat(request)
            self.shown[-1].append(reply.text)
            return reply
        async with aclosing(self._model.stream(request, restart=True)) as parts:
            async for part in parts:
                if isinstance(part, TextDelta):
                    self.shown[-1].append(part.text)
                elif isinstance(part, StreamRestart):
                    self.shown[-1].clear()
                elif isinstance(part, StreamEnd):
                    return part.reply
        raise AssertionError(f"the stream of {self.label} has no end")

    async def embed(self, texts: Sequence[str], *, deadline_s: float = 60.0) -> EmbeddingReply:
        return await self._embedder.embed(texts, deadline_s=deadline_s)


@dataclass
class FakeCtx(Generic[ConfigT]):
    """A `Ctx` without a store: records, emitted events and enqueued actions are kept in lists."""

    config: ConfigT
    task: str = ""
    llm: Model = field(default_factory=FakeModel)
    files: FakeFiles = field(default_factory=FakeFiles)
    clock: FakeClock = field(default_factory=FakeClock)
    log: FakeLog = field(default_factory=FakeLog)
    guard: FakeGuard = field(default_factory=FakeGuard)
    session_id: str = "session-1"
    agent_id: str = "agent-1"
    conversation_id: str | None = None
    iteration: int = 0
    records: dict[str, Any] = field(default_factory=dict)
    emitted: list[tuple[str, Json]] = field(default_factory=list)
    enqueued: list[tuple[str, str, Json]] = field(default_factory=list)
    #: what people say, by the key of the question; a missing one is a `KeyError`
    answers: dict[str, Answer] = field(default_factory=dict)
    asked: list[tuple[str, Question]] = field(default_factory=list)
    #: none, unless a test gives some: `FakeTools(ScriptedTool(...), clock=ctx.clock, log=ctx.log)`
    tools: Tools = field(default_factory=lambda: FakeTools(clock=FakeClock(), log=FakeLog()))
    sandbox: Programs = field(default_factory=FakePrograms)
    memory: FakeMemory = field(default_factory=lambda: FakeMemory(FakeClock()))
    #: what is left of its budgets; None when it has none
    budget_left: Mapping[str, int | float | str] | None = None

    def call_key(self, key: str) -> str:
        """The same key for the same call of a step."""
        return f"{self.session_id}:{self.iteration}:{key}"

    async def record(
        self, key: str, fn: Callable[[], Awaitable[T]], *, kind: str = "tool", safe_to_repeat: bool = True
    ) -> T:
        """Run `fn` once a key; a second call gives the first result."""
        if key not in self.records:
            self.records[key] = await fn()
        result: T = self.records[key]
        return result

    async def ask(self, key: str, question: Question) -> Answer:
        """The answer that a test put into `answers`."""
        self.asked.append((key, question))
        return self.answers[key]

    async def ask_all(self, questions: Mapping[str, Question]) -> dict[str, Answer]:
        """The answers that a test put into `answers`."""
        return {key: await self.ask(key, question) for key, question in questions.items()}

    async def left(self) -> Mapping[str, int | float | str] | None:
        """What a test put into `budget_left`."""
        return self.budget_left

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
    #: the answers to the `WaitForApproval` of the step before, by key
    answers: Mapping[str, Answer] = field(default_factory=dict)


async def play(
    moniker: Moniker[ConfigT], ctx: FakeCtx[ConfigT], *, steps: int, said: Mapping[int, Said] | None = None
) -> list[StepOut]:
    """Carry `moniker` through at most `steps` steps as a runner does, without a store.

    Stops early when a step is done and the moniker says so, or waits for input or answers and nothing is `said` before
    the next step. A wait for a time moves the clock there.
    """
    outs: list[StepOut] = []
    token, state = moniker.first_step, dict[str, Any]()
    for number in range(steps):
        heard = (said or {}).get(number, Said())
        if outs and _rests(outs[-1], heard, moniker, ctx.clock):
            break
        ctx.iteration, ctx.records = number, {}
        inputs = _inputs(heard.inputs)
        frame = StepFrame(step=token, state=state, guidance=heard.guidance, inputs=inputs, answers=heard.answers)
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
    if isinstance(last.wait, WaitForApproval):
        return not (heard.answers or spoken_to)
    return isinstance(last.wait, WaitForInput) and not spoken_to
