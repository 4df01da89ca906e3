"""The `ctx` of a step that is replayed: every call is answered from its record; none is made, nothing is written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from pydantic import BaseModel

from runtime.approvals.items import words_of
from runtime.approvals.port import Answer, Question
from runtime.bounded import RecordLimits
from runtime.budgets.port import Left
from runtime.calls import RecordKind
from runtime.context import Services, StepContext
from runtime.contract import Files, Json, MonikerError
from runtime.differences import first_difference
from runtime.guard.judgement import Judgement, passed
from runtime.guard.onstep import StepGuard
from runtime.guard.port import AgentType, Channel, Passage
from runtime.guard.stored import judgement_of
from runtime.llm.port import ChatReply, ChatRequest
from runtime.sandbox.sealkey import SealKey
from runtime.sandbox.walls import Walls
from runtime.session import LiveSession
from runtime.stepcalls import StepCalls, asked_key
from runtime.tools.offer import ToolOffer
from runtime.usage import Bill
from store.actions import find_by_idempotency_key
from store.answers import question_digest
from store.database import TenantStore
from store.records import Record

T = TypeVar("T")

#: rows that say something about a call but hold no result of it
_NO_RESULT = frozenset({RecordKind.INTENT, RecordKind.REPEAT, RecordKind.FAIL, RecordKind.ASKED, RecordKind.FAILED})


class NotRecordedError(MonikerError):
    """The step asked for something that its records do not hold."""


class StepClock:
    """Stands still at the moment at which the step was stored."""

    def __init__(self, moment: datetime) -> None:
        self._moment = moment

    def now(self) -> datetime:
        return self._moment

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        """Return at once: a wait of the past is over."""


class NoLog:
    """A log that keeps nothing."""

    def bind(self, **_: Any) -> NoLog:
        return self

    def info(self, event: str, **_: Any) -> None:
        pass

    def warning(self, event: str, **_: Any) -> None:
        pass


class NoModel:
    """A model that cannot be asked: recorded answers never reach it."""

    label = "replay"

    async def chat(self, request: ChatRequest) -> ChatReply:
        raise NotRecordedError(f"the call {request.purpose!r} was not recorded")


@dataclass(frozen=True, slots=True)
class Recorded:
    """What is known of a step's calls: their results by key, oldest first."""

    by_key: dict[str, list[Record]]

    @classmethod
    def of(cls, records: Iterable[Record]) -> Recorded:
        found: defaultdict[str, list[Record]] = defaultdict(list)
        for record in records:
            if record.kind not in _NO_RESULT:
                found[record.key].append(record)
        return cls(dict(found))


class ReplayCalls(StepCalls):
    """The calls of a step, answered from its records. `problem` is what was asked for in vain first."""

    def __init__(self, db: TenantStore, session: LiveSession, moment: datetime, recorded: Recorded) -> None:
        super().__init__(db, session, StepClock(moment), limits=RecordLimits(), look_for_records=False)
        self._given = recorded
        self.problem: str | None = None

    async def recorded(
        self,
        key: str,
        fn: Callable[[], Awaitable[T]],
        *,
        kind: str,
        digest: str = "",
        facts: Callable[[T], Json | None] | None = None,
        bill: Bill | None = None,
    ) -> T:
        """The newest result for `key` whose request was this one; `fn` is never called."""
        known = self._given.by_key.get(key, [])
        for record in reversed(known):
            if record.digest == digest:
                return record.result  # type: ignore[no-any-return]
        if known:
            raise self.failing(f"the recorded call {key!r} was asked with another request")
        raise self.failing(f"asked for the call {key!r}, which was not recorded")

    async def recorded_once(
        self,
        key: str,
        fn: Callable[[], Awaitable[T]],
        *,
        kind: str,
        facts: Callable[[T], Json | None] | None = None,
        bill: Bill | None = None,
    ) -> T:
        """As `recorded`: nothing is called."""
        return await self.recorded(key, fn, kind=kind)

    async def answers(self, questions: Mapping[str, Question]) -> dict[str, Answer]:
        """What people answered then, to these very questions."""
        found = {}
        for key, question in questions.items():
            known, digest = self._given.by_key.get(asked_key(key), []), question_digest(words_of(question))
            same = [record for record in known if record.digest == digest]
            if not same:
                what = "another question was answered under its key" if known else "it was not answered"
                raise self.failing(f"asked the question {key!r}, but {what}")
            found[key] = Answer.model_validate(same[-1].result)
        return found

    async def left(self) -> Left | None:
        """What it was told then; a step that was told of no budget has no record of that."""
        known = self._given.by_key.get(f"budget:{self.next_number('budget')}")
        found: Left | None = known[-1].result if known else None
        return found or None

    def failing(self, problem: str) -> NotRecordedError:
        """The error that says so; the first one is kept, even if the moniker catches it."""
        self.problem = self.problem or problem
        return NotRecordedError(problem)


class ReplayGuard(StepGuard):
    """The guard as it decided then. A check that left no record let the text pass as it was."""

    def __init__(self, calls: ReplayCalls, agent_type: str, recorded: Recorded) -> None:
        super().__init__(calls, None, AgentType(agent_type))
        self._replayed = calls
        self._keys = frozenset(recorded.by_key)

    def see(self, channel: Channel) -> bool:
        """Always: which records there are says the rest."""
        return True

    async def _judged(self, key: str, digest: str, passage: Passage) -> Judgement:
        if key not in self._keys:
            return passed(passage.text)

        async def never() -> Json:
            raise NotRecordedError(key)

        stored = await self._replayed.recorded(key, never, kind=RecordKind.GATE, digest=digest)
        return judgement_of(stored, passage.text)


class ReplayContext(StepContext):
    """A `StepContext` over records."""

    __slots__ = ("_db", "_replayed", "_requests")

    def __init__(
        self,
        db: TenantStore,
        session: LiveSession,
        config: BaseModel,
        *,
        files: Files,
        moment: datetime,
        recorded: Recorded,
        tools: ToolOffer,
    ) -> None:
        self._db = db
        self._replayed = ReplayCalls(db, session, moment, recorded)
        self._requests = 0
        clock = StepClock(moment)
        services = Services(db, NoModel(), files, clock, NoLog(), tools=tools, walls=Walls(clock, SealKey(None)))
        super().__init__(services, self._replayed, config)
        self.guard = ReplayGuard(self._replayed, self.moniker, recorded)

    @property
    def problem(self) -> str | None:
        """What was asked for in vain first, even if the moniker caught it."""
        return self._replayed.problem

    async def emit(self, kind: str, data: Json) -> None:
        """Events are for those who watched; nobody does."""

    async def enqueue(self, kind: str, *, session_id: str, payload: Json) -> str:
        """The id of the action that the step asked for then; it must have been asked for in the same words."""
        self._requests += 1
        action = await find_by_idempotency_key(self._db, f"{self.session_id}:{self.iteration}:asked:{self._requests}")
        if action is None:
            raise self._replayed.failing(f"asked for {kind!r} of session {session_id!r}, which is not in the queue")
        asked = {"kind": kind, "session_id": session_id, "payload": payload}
        stored = {"kind": action.kind.value, "session_id": action.session_id, "payload": action.payload}
        if (place := first_difference(stored, asked)) is not None:
            asked_now = f"at {place.path} {place.new!r}, not {place.stored!r}"
            raise self._replayed.failing(f"asked for another action than {action.id}: {asked_now}")
        return action.id
