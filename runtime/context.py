"""What a moniker is given as `ctx`: one object a step, made of small services over the step's calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel

from runtime.approvals.port import Answer, Question
from runtime.bounded import RecordLimits
from runtime.budgets.port import NO_BUDGETS, Budgets, Left
from runtime.calls import RecordKind
from runtime.contract import Clock, Files, Json, Log, MonikerError
from runtime.guard.onstep import GuardService, StepGuard
from runtime.guard.port import AgentType
from runtime.guard.secretsgate import Secrets
from runtime.llm.port import ChatModel, EmbeddingModel, Model, Usage
from runtime.llm.recorded import RecordedModel
from runtime.memory.port import Memory
from runtime.memory.stepmemory import StepMemory
from runtime.sandbox.port import Programs
from runtime.sandbox.recorded import StepPrograms
from runtime.sandbox.walls import Walls
from runtime.session import LiveSession, taint_row
from runtime.stepcalls import RESERVED_KINDS, StepCalls, always_owned
from runtime.tokens import TokenFeed
from runtime.tools.builtin.python import in_step, run_python
from runtime.tools.offer import ToolOffer
from runtime.tools.port import Tools
from runtime.tools.recorded import StepTools
from runtime.usage import Bill
from store.actions import ActionKind
from store.agent_events import AgentEvent, append_event
from store.database import TenantStore
from store.enqueueing import NewAction, enqueue
from store.ids import SessionId

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Services:
    """What every step of every session shares."""

    db: TenantStore
    llm: ChatModel
    files: Files
    clock: Clock
    log: Any
    limits: RecordLimits = field(default_factory=RecordLimits)
    #: sessions pass something on to each other so often at most
    max_hops: int = 25
    #: the model that embeds, if there is one
    embedder: EmbeddingModel | None = None
    #: where live text goes; without it nobody watches
    tokens: TokenFeed | None = None
    tools: ToolOffer = field(default_factory=ToolOffer)
    #: where programs run; None is a worker that runs none
    walls: Walls | None = None
    budgets: Budgets = NO_BUDGETS
    #: None lets every text pass
    guard: GuardService | None = None
    #: what must stand in no row and no log
    secrets: Secrets = field(default_factory=Secrets)


def calls_of(
    services: Services,
    session: LiveSession,
    *,
    look_for_records: bool,
    check_ownership: Callable[[], Awaitable[None]] = always_owned,
) -> StepCalls:
    """The calls of a session's next step."""
    return StepCalls(
        services.db,
        session,
        services.clock,
        limits=services.limits,
        look_for_records=look_for_records,
        check_ownership=check_ownership,
        budgets=services.budgets,
        secrets=services.secrets,
    )


class StepContext:
    """The `Ctx` of one step of one session."""

    __slots__ = (
        "_asked",
        "_config",
        "_hops",
        "_memory",
        "_programs",
        "_services",
        "_session",
        "_tools",
        "calls",
        "guard",
    )

    def __init__(self, services: Services, calls: StepCalls, config: BaseModel, *, hops: int = 0) -> None:
        self.calls = calls
        self._services = services
        self._session = calls.session
        self._config = config
        self._hops = hops
        self._asked = 0
        self._tools: StepTools | None = None
        self._programs: StepPrograms | None = None
        self._memory: Memory | None = None
        #: see `Ctx.guard`; one a step, the gates' turns are counted
        self.guard = StepGuard(calls, services.guard, AgentType(calls.session.agent_type))

    @property
    def config(self) -> Any:
        return self._config

    @property
    def task(self) -> str:
        return self._session.spec.task

    @property
    def session_id(self) -> str:
        return self._session.session_id

    @property
    def agent_id(self) -> str:
        return self._session.identity.agent_id

    @property
    def conversation_id(self) -> str | None:
        return self._session.identity.conversation_id

    @property
    def moniker(self) -> str:
        """The name of what is run."""
        return self._session.spec.moniker

    @property
    def iteration(self) -> int:
        return self.calls.iteration

    @property
    def llm(self) -> Model:
        services = self._services
        return RecordedModel(self.calls, services.llm, embedder=services.embedder, tokens=services.tokens)

    @property
    def tools(self) -> Tools:
        return self._step_tools()

    @property
    def sandbox(self) -> Programs:
        self._step_tools()
        if self._programs is None:
            raise MonikerError("this worker runs no programs: it was given no sandbox")
        return self._programs

    def _step_tools(self) -> StepTools:
        if self._tools is None:
            self._tools = StepTools(self.calls, self._services.tools, self.log, self.guard, self.memory)
            if self._services.walls is not None:
                self._programs = StepPrograms(self.calls, self._tools, self._services.walls)
                self._tools.part_of_step(run_python.name, in_step(self.calls, self._tools, self._programs))
        return self._tools

    @property
    def memory(self) -> Memory:
        if self._memory is None:
            self._memory = StepMemory(self.calls, self._services.db, self._services.embedder, gates=self.guard)
        return self._memory

    @property
    def files(self) -> Files:
        return self._services.files

    @property
    def clock(self) -> Clock:
        return self._services.clock

    @property
    def log(self) -> Log:
        bound: Log = self._services.log.bind(session_id=self.session_id, iteration=self.iteration)
        return bound

    @property
    def questions(self) -> list[Json]:
        """What a person has to answer before the step is taken again, as approval items."""
        return self.calls.questions

    @property
    def usage(self) -> Usage:
        """What the step's calls have used."""
        return self.calls.usage

    @property
    def event_seq(self) -> int:
        """The number of the last event of this try."""
        return self.calls.event_seq

    def call_key(self, key: str) -> str:
        """See `Ctx.call_key`."""
        return self.calls.call_key(key)

    async def record(
        self, key: str, fn: Callable[[], Awaitable[T]], *, kind: str = "tool", safe_to_repeat: bool = True
    ) -> T:
        """See `Ctx.record`. The result must survive a round trip through JSON."""
        if kind in RESERVED_KINDS:
            raise MonikerError(f"a record cannot be of kind {kind!r}; that word is the runtime's own")
        bill = Bill() if kind == RecordKind.MODEL else None
        made = fn if bill is None else _billed(fn, bill)
        if safe_to_repeat:
            return await self.calls.recorded(key, made, kind=kind, bill=bill)
        return await self.calls.recorded_once(key, made, kind=kind, bill=bill)

    async def ask(self, key: str, question: Question) -> Answer:
        """See `Ctx.ask`."""
        return (await self.calls.answers({key: question}))[key]

    async def ask_all(self, questions: Mapping[str, Question]) -> dict[str, Answer]:
        """See `Ctx.ask_all`."""
        return await self.calls.answers(questions)

    async def left(self) -> Left | None:
        """See `Ctx.left`."""
        return await self.calls.left()

    async def emit(self, kind: str, data: Json) -> None:
        """See `Ctx.emit`."""
        await self.calls.check_ownership()
        sequence = self.calls.next_event()
        event = AgentEvent(
            id=f"{self.session_id}:{self.iteration}:{sequence}",
            created_at=self.clock.now(),
            session_id=self._session.session_id,
            iteration=self.iteration,
            event_seq=sequence,
            kind=kind,
            data=self._services.secrets.clean(data),
            epoch=self._session.epoch,
            lane=self._session.lane,
        )
        await append_event(self._services.db, event)

    async def enqueue(self, kind: str, *, session_id: str, payload: Json) -> str:
        """See `Ctx.enqueue`."""
        await self.calls.check_ownership()
        # Counted apart: a step that is repeated skips the numbers of the records it finds, not those of its requests.
        self._asked += 1
        key = f"{self.session_id}:{self.iteration}:asked:{self._asked}"
        hops = self._hops + 1
        if hops > self._services.max_hops:
            raise MonikerError(
                f"sessions have passed this on {self._hops} times, one asking another; STEPWELL_MAX_HOPS allows no more"
            )
        new = NewAction(
            kind=ActionKind(kind),
            session_id=SessionId(session_id),
            payload=payload,
            metadata={"hops": hops, **taint_row(self.calls.taint)},
            idempotency_key=key,
        )
        return (await enqueue(self._services.db, new)).id


def _billed(fn: Callable[[], Awaitable[T]], bill: Bill) -> Callable[[], Awaitable[T]]:
    """A model call that the moniker makes by itself: its answer says what it used."""

    async def call() -> T:
        answer = await fn()
        bill.add_told(answer)
        return answer

    return call
