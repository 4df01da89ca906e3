"""The contract between a runner and a moniker: StepFrame in, StepOut out, everything else through `Ctx`.

A moniker is one async function, `step(ctx, frame) -> StepOut`, with a pydantic model for its config and a name.
It does no I/O but through `ctx`, so a step can be run again after a crash without paying for it twice:
what `ctx.llm` and `ctx.record` returned once is read back from the store.

`step` and `next_step` are the moniker's own string cursor ("4.2", "review/1"); the runner's `iteration` is a rising
integer and no part of this contract (spec 1, "StepFrame contract").
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, Literal, NewType, Protocol, TypeVar

from pydantic import AwareDatetime, BaseModel, Field

from runtime.approvals.port import Answer, Question
from runtime.guard.judgement import StepGates
from runtime.llm.port import Model
from runtime.memory.port import Memory
from runtime.ports import Clock, Files, FrozenModel, Json, Log, MonikerError, MonikerInputError
from runtime.sandbox.port import Programs
from runtime.tools.port import Tools

__all__ = [
    "MAX_TEXT_CHARS",
    "MAX_TOKEN_CHARS",
    "Answer",
    "Clock",
    "Ctx",
    "Files",
    "FrozenModel",
    "Json",
    "Log",
    "Moniker",
    "MonikerError",
    "MonikerInputError",
    "MonikerName",
    "Question",
    "StepFn",
    "StepFrame",
    "StepInput",
    "StepOut",
    "Wait",
    "WaitForApproval",
    "WaitForInput",
    "WaitUntil",
]

MonikerName = NewType("MonikerName", str)

MAX_TEXT_CHARS = 1_000_000
MAX_TOKEN_CHARS = 200


class StepInput(FrozenModel):
    """One thing said to the session since its last step: a turn's text or a message of its thread."""

    text: str
    data: Json | None = None
    sender: str | None = None
    message_id: str | None = None


class StepFrame(FrozenModel):
    """What a moniker is given for one step."""

    step: str
    state: Json = Field(default_factory=dict)
    guidance: Any = None
    inputs: tuple[StepInput, ...] = ()
    #: what was answered to the items of the `WaitForApproval` of the step before, by their keys; one that an interrupt
    #: ended early has fewer
    answers: Mapping[str, Answer] = Field(default_factory=dict)


class WaitForInput(FrozenModel):
    """Wait until somebody posts to the session; costs no memory meanwhile."""

    kind: Literal["input"] = "input"
    prompt: str | None = None


class WaitUntil(FrozenModel):
    """Wait until a moment (UTC). Interrupts, inputs and control actions end the wait early."""

    kind: Literal["until"] = "until"
    time: AwareDatetime


class WaitForApproval(FrozenModel):
    """Wait until a person has answered every item; the next step reads the answers in its frame.

    An item is a `Question` as an object, with a `key` of its own; one that is none fails the step.
    """

    kind: Literal["approval"] = "approval"
    items: tuple[Json, ...]


Wait = Annotated[WaitForInput | WaitUntil | WaitForApproval, Field(discriminator="kind")]


class StepOut(FrozenModel):
    """What a moniker answers for one step. `state` replaces the old state whole."""

    step: Annotated[str, Field(max_length=MAX_TOKEN_CHARS)]
    next_step: Annotated[str, Field(max_length=MAX_TOKEN_CHARS)]
    state: Json = Field(default_factory=dict)
    text: Annotated[str, Field(max_length=MAX_TEXT_CHARS)] | None = None
    data: Json | None = None
    done: bool = False
    notes: str | None = None
    wait: Wait | None = None


ConfigT = TypeVar("ConfigT", bound=BaseModel)
ConfigT_co = TypeVar("ConfigT_co", bound=BaseModel, covariant=True)
T = TypeVar("T")


class Ctx(Protocol[ConfigT_co]):
    """Everything a moniker may use. One object a step; a small fake ships in `runtime.testing`."""

    @property
    def config(self) -> ConfigT_co: ...

    @property
    def task(self) -> str: ...

    @property
    def session_id(self) -> str: ...

    @property
    def agent_id(self) -> str: ...

    @property
    def conversation_id(self) -> str | None: ...

    @property
    def iteration(self) -> int: ...

    @property
    def llm(self) -> Model:
        """The configured model. Every finished call is a record: after a crash it is read, not paid again."""
        ...

    @property
    def tools(self) -> Tools:
        """The tools that the session's type of agent may use."""
        ...

    @property
    def sandbox(self) -> Programs:
        """Runs programs that a model wrote; they call the same tools. `MonikerError` in a worker without a sandbox."""
        ...

    @property
    def memory(self) -> Memory:
        """What this agent's sessions have kept, and a place to keep more."""
        ...

    @property
    def guard(self) -> StepGates:
        """The gates of this deployment, for texts that reach the moniker by ways of its own."""
        ...

    @property
    def files(self) -> Files: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def log(self) -> Log: ...

    async def record(
        self, key: str, fn: Callable[[], Awaitable[T]], *, kind: str = "tool", safe_to_repeat: bool = True
    ) -> T:
        """Run `fn` once and store its JSON result under `key` before it is used.

        `key` is unique within the step. Crash before the commit: `fn` runs again when the step is repeated.
        Crash after it: the stored result is returned and `fn` is not called. A step that failed and is tried again
        reads the results of the failed try.

        With `safe_to_repeat=False` that `fn` is about to run is stored first. A step that is tried again and finds
        that, but no result, does not run it: the session waits until a person says "repeat", "done" (with the result)
        or "fail", which raises `MonikerError` here. Let what this raises pass: the runner needs it.
        """
        ...

    async def ask(self, key: str, question: Question) -> Answer:
        """A person's answer to `question`; the session waits for it, however long, and costs no memory meanwhile.

        `key` is unique within the step. The step is cut short and taken again with the answer: what was called before
        is read from its records, so put effects that must not be repeated into `record`. Let what this raises pass:
        the runner needs it. Crash at any time: asked once, answered once.
        """
        ...

    async def ask_all(self, questions: Mapping[str, Question]) -> dict[str, Answer]:
        """As `ask`, for several questions at once: people see all of them, and the step goes on with all answers."""
        ...

    async def left(self) -> Mapping[str, int | float | str] | None:
        """How much is left of each limit (`tokens`, `money` as text, `calls`, `steps`, `time_s`, `unpriced_calls`).

        The least of all budgets that apply to the session; None when there are none. It is a record: a step that is
        tried again reads what it was told first.
        """
        ...

    def call_key(self, key: str) -> str:
        """The idempotency key to hand to a tool with its call `key`: the same however often the step is tried."""
        ...

    async def emit(self, kind: str, data: Json) -> None:
        """Append a short-lived event (progress, token) to the session's live feed."""
        ...

    async def enqueue(self, kind: str, *, session_id: str, payload: Json) -> str:
        """Ask for an action on another session; returns its id. Repeating the step asks only once.

        Raises `MonikerError` when sessions have passed the matter on too often (`STEPWELL_MAX_HOPS`).
        """
        ...


StepFn = Callable[[Ctx[ConfigT], StepFrame], Awaitable[StepOut]]


@dataclass(frozen=True, slots=True)
class Moniker(Generic[ConfigT]):
    """One entry of the catalogue: a named step function and what the runner must know about it."""

    name: MonikerName
    summary: str
    config_model: type[ConfigT]
    step: StepFn[ConfigT]
    first_step: str = "1"
    #: end the session when a step answers `done`; an agent may override it
    stop_on_done: bool = True
    #: when an `agent_input` reaches a session: at its next step, or not before it waits for input or a moment
    takes_input: Literal["any_step", "at_wait"] = "at_wait"
    #: who has inputs, guidance and answers pass the guard: the runner, or the moniker itself (`ctx.guard`)
    gates: Literal["runner", "own"] = "runner"
    #: the config field that `task` fills when the field is left out
    task_field: str | None = None
    example: Mapping[str, Any] = field(default_factory=dict)
