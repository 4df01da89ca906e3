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
from datetime import datetime
from typing import Annotated, Any, Generic, Literal, NewType, Protocol, TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from runtime.llm.port import ChatModel

MonikerName = NewType("MonikerName", str)

Json = dict[str, Any]

MAX_TEXT_CHARS = 1_000_000
MAX_TOKEN_CHARS = 200


class FrozenModel(BaseModel):
    """A pydantic model that cannot be changed and refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


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


class WaitForInput(FrozenModel):
    """Wait until somebody posts to the session; costs no memory meanwhile."""

    kind: Literal["input"] = "input"
    prompt: str | None = None


class WaitUntil(FrozenModel):
    """Wait until a moment (UTC). Interrupts, inputs and control actions end the wait early."""

    kind: Literal["until"] = "until"
    time: AwareDatetime


class WaitForApproval(FrozenModel):
    """Wait until a person has answered every item."""

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


class Clock(Protocol):
    """The one source of time; tests set it."""

    def now(self) -> datetime:
        """The current time in UTC with microseconds."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean something."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`; a cancelled step leaves at once."""
        ...


class Files(Protocol):
    """Read-only access to the folders that the operator allowed (`STEPWELL_FILES`)."""

    async def read_text(self, path: str) -> str:
        """The UTF-8 text of one file.

        Raises `MonikerInputError` when the path leaves the allowed folders, is missing, too large or not text.
        """
        ...


class Log(Protocol):
    """A structured logger that already carries the session's ids."""

    def info(self, event: str, **fields: Any) -> Any: ...

    def warning(self, event: str, **fields: Any) -> Any: ...


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
    def llm(self) -> ChatModel:
        """The configured model. Every finished call is a record: after a crash it is read, not paid again."""
        ...

    @property
    def files(self) -> Files: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def log(self) -> Log: ...

    async def record(self, key: str, fn: Callable[[], Awaitable[T]], *, kind: str = "tool") -> T:
        """Run `fn` once and store its JSON result under `key` before it is used.

        `key` is unique within the step. Crash before the commit: `fn` runs again when the step is repeated.
        Crash after it: the stored result is returned and `fn` is not called.
        """
        ...

    async def emit(self, kind: str, data: Json) -> None:
        """Append a short-lived event (progress, token) to the session's live feed."""
        ...

    async def enqueue(self, kind: str, *, session_id: str, payload: Json) -> str:
        """Ask for an action on another session; returns its id. Repeating the step asks only once."""
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
    #: the config field that `task` fills when the field is left out
    task_field: str | None = None
    example: Mapping[str, Any] = field(default_factory=dict)


class MonikerError(Exception):
    """A moniker could not do its step."""


class MonikerInputError(MonikerError):
    """The session's config or input cannot be worked with; trying again will not help."""
