"""The calls of one step: what its earlier tries left, what this one makes, and what a person has to be asked.

Every service of `ctx` goes through here, so all of them keep the same promise: a finished call is stored before its
result is used, and a step that is run again reads it instead of paying twice. Crash before the record's commit: the
call is made again. After: it is read.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from runtime.approvals.items import asked_item, item_id, words_of
from runtime.approvals.port import Answer, Question, QuestionKind
from runtime.bounded import RecordLimits
from runtime.budgets.port import NO_BUDGETS, Budgets, BudgetSpentError, Left, SpentBudget
from runtime.calls import PAID_KINDS, KnownCalls, RecordKind, known_calls, used_by
from runtime.guard.secretsgate import Secrets
from runtime.guard.taint import Taint
from runtime.llm.money import CallCosts
from runtime.llm.port import Usage
from runtime.ports import Clock, Json, MonikerError
from runtime.session import LiveSession, taint_of
from runtime.usage import Bill, Used
from store import spending
from store.answers import question_digest
from store.database import TenantStore
from store.records import Record, append_record, list_records

T = TypeVar("T")

_NOTHING_USED = Used()
#: the bill of the model call that the running task is inside of
_PAYING: ContextVar[Bill | None] = ContextVar("_PAYING", default=None)
#: what cut the step short inside of the call that the running task makes
_CUT: ContextVar[list[Exception] | None] = ContextVar("_CUT", default=None)
_SAID_CHARS = 2_000
#: what a moniker may not call its own records
RESERVED_KINDS = frozenset(RecordKind) - {RecordKind.TOOL, RecordKind.MODEL}


class AwaitsPersonError(Exception):
    """The step cannot go on before a person has answered the questions with these `keys`: the session asks."""

    def __init__(self, message: str, keys: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.keys = frozenset(keys)


@contextmanager
def _cuts_told_to(cut: list[Exception] | None) -> Iterator[None]:
    outer = _CUT.set(cut)
    try:
        yield
    finally:
        _CUT.reset(outer)


def may_wait() -> AbstractContextManager[None]:
    """Whoever catches `AwaitsPersonError` around this has a result of his own that says so: it is worth a record."""
    return _cuts_told_to(None)


async def always_owned() -> None:
    """The session is this worker's: there is no other."""


class StepCalls:
    """The calls of one step of one session."""

    def __init__(
        self,
        db: TenantStore,
        session: LiveSession,
        clock: Clock,
        *,
        limits: RecordLimits,
        look_for_records: bool,
        check_ownership: Callable[[], Awaitable[None]] = always_owned,
        budgets: Budgets = NO_BUDGETS,
        secrets: Secrets | None = None,
    ) -> None:
        self.session = session
        self.clock = clock
        #: returns when the session is still this worker's for certain; raises `OwnershipLostError`
        self.check_ownership = check_ownership
        #: what a person has to answer before the step is taken again, as approval items
        self.questions: list[Json] = []
        self.used = _NOTHING_USED
        #: where the text from outside in the session's context came from; what the step's calls bring is added
        self.taint = taint_of(session.usage)
        #: the budget that kept the step from a model call: the step is cut short, whatever its moniker makes of that
        self.budget_spent: SpentBudget | None = None
        self._budgets = budgets
        self._db = db
        self._limits = limits
        #: what the process is configured with is stored in no record
        self._secrets = secrets or Secrets()
        self._look_for_records = look_for_records or session.was_tried
        self._known = KnownCalls()
        #: the records of which `used` knows
        self._counted: set[str] = set()
        self._looking = asyncio.Lock()
        self._sequence = 0
        self._numbers: Counter[str] = Counter()

    @property
    def iteration(self) -> int:
        """The iteration that the step will be."""
        return self.session.iteration + 1

    @property
    def event_seq(self) -> int:
        """The number of the last event of this try."""
        return self._sequence

    @property
    def usage(self) -> Usage:
        """What the step's model calls have used, those of its earlier tries included."""
        return self.used.usage

    @property
    def costs(self) -> CallCosts:
        """What they have cost."""
        return self.used.costs

    def call_key(self, key: str) -> str:
        """The idempotency key of the call `key`: the same however often the step is tried."""
        return f"{self.session.session_id}:{self.session.tried_from}:{key}"

    def next_number(self, of: str) -> int:
        """How many calls of a sort this try of the step makes, the one about to be made included."""
        self._numbers[of] += 1
        return self._numbers[of]

    def next_event(self) -> int:
        """The number of the event that is about to be stored."""
        self._sequence += 1
        return self._sequence

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
        """The result of `fn`, made now or read.

        A stored result of another `digest` (of what is asked) is not used. `facts` picks from a result what traces
        tell of the call: names and numbers; never what it said. The result must survive a round trip through JSON.

        With a `bill` the call asks a model, and `fn` tells the bill of each answer. It is not begun while a budget is
        spent, and what it takes counts from its end on, in budgets and in the step's usage; once, however often it is
        read. Raises `BudgetSpentError`, which cuts the step short.
        """
        earlier = (await self._calls_known()).results.get(key)
        if earlier is not None and earlier.iteration == self.iteration and earlier.id not in self._counted:
            self._counted.add(earlier.id)
            self.used = self.used.plus(used_by(earlier))  # paid for, also where it answers another request
        if earlier is not None and earlier.digest == digest:
            return earlier.result  # type: ignore[no-any-return]
        return await self._made(key, fn, kind=kind, digest=digest, facts=facts, bill=bill)

    async def recorded_once(
        self,
        key: str,
        fn: Callable[[], Awaitable[T]],
        *,
        kind: str,
        facts: Callable[[T], Json | None] | None = None,
        bill: Bill | None = None,
    ) -> T:
        """As `recorded`, for a call that is never made again without a person's word.

        Crash before the intent is stored: the call was not made. Between intent and result: nobody knows, a person is
        asked. After: the result is read.
        """
        known = await self._calls_known()
        earlier = known.results.get(key)
        if earlier is not None:
            return earlier.result  # type: ignore[no-any-return]
        if key in known.given_up:
            raise MonikerError(f"the call {key!r} was given up by a person, who could not say that it was made")
        if key in known.in_flight:
            self._ask_about(key)
        await self.check_ownership()
        await self._keep(self._record(key, RecordKind.INTENT))
        await self.check_ownership()
        return await self._made(key, fn, kind=kind, digest="", facts=facts, bill=bill)

    async def answers(self, questions: Mapping[str, Question]) -> dict[str, Answer]:
        """People's answers by key. Raises `AwaitsPersonError`, which cuts the step short, while one is missing.

        What was asked is stored before: the calls in front of it are not made again when the step is. An answer is for
        its question to the last byte: a question that reads differently now is put anew.
        """
        known = await self._calls_known()
        words: dict[str, Json] = {key: self._secrets.clean(words_of(question)) for key, question in questions.items()}
        missing = [key for key in words if not _is_answered(known, key, question_digest(words[key]))]
        for key in missing:
            self._put(key, await self._asked(known, key, words[key]))
        if missing:
            said = f"waits for a person's answer: {', '.join(sorted(missing))}"
            raise cutting(AwaitsPersonError(said, missing))
        return {key: Answer.model_validate(known.results[asked_key(key)].result) for key in questions}

    def take_back(self, waits: AwaitsPersonError) -> None:
        """Ask nobody what `waits` was raised for: the step goes on without."""
        self.questions = [item for item in self.questions if item["key"] not in waits.keys]

    async def _asked(self, known: KnownCalls, key: str, words: Json) -> Json:
        """The item of a question, with the moment at which it was put first: its time runs from there."""
        digest, asked = question_digest(words), known.asked.get(asked_key(key))
        if asked is None or asked.digest != digest:
            self._limits.check(asked_key(key), words)
            asked = known.asked[asked_key(key)] = self._record(asked_key(key), RecordKind.ASKED, words, digest=digest)
            await self._keep(asked)
        return asked_item(words, key=key, asked_at=asked.created_at, epoch=self.session.epoch)

    def add_taint(self, sources: Iterable[str]) -> None:
        """Text from `sources` came in, by a call made now or read."""
        self.taint = self.taint.joined(Taint(frozenset(sources)))

    async def asked_in(self, key: str) -> int:
        """The session's epoch when the question `key` was stored first; the present one if it was not asked yet."""
        asked = (await self._calls_known()).asked.get(asked_key(key))
        return self.session.epoch if asked is None else asked.epoch

    async def left(self) -> Left | None:
        """What is left of the budgets that apply, as it was when the step asked first; None when there are none."""
        key = f"budget:{self.next_number('budget')}"
        known = key in (await self._calls_known()).results
        if not known and self._budgets.left(self.session) is None:
            return None

        async def look() -> Json:
            return dict(self._budgets.left(self.session) or {})

        return await self.recorded(key, look, kind=RecordKind.BUDGET) or None

    async def _made(
        self,
        key: str,
        fn: Callable[[], Awaitable[T]],
        *,
        kind: str,
        digest: str,
        facts: Callable[[T], Json | None] | None,
        bill: Bill | None,
    ) -> T:
        # A worker that stood still may have been replaced: it must not call out before it knows.
        await self.check_ownership()
        began = self.clock.monotonic()
        try:
            answer = await self._uncut(lambda: self._limits.call(key, fn) if bill is None else self._paid(fn, bill))
            result: T = self._secrets.clean(answer)
            self._limits.check(key, result)
        except (AwaitsPersonError, BudgetSpentError):
            raise
        except Exception as error:
            await self._keep(self._failed(key, kind, error, self._ms_since(began), bill))
            raise
        told = _told(None if facts is None else facts(result), bill)
        record = self._record(key, kind, result, digest=digest, usage=told, latency_ms=self._ms_since(began))
        await self._keep(record)
        self._counted.add(record.id)
        self._known.in_flight.pop(key, None)
        self._known.results[key] = record
        return result

    async def _uncut(self, make: Callable[[], Awaitable[T]]) -> T:
        """What `make` gives, unless the step was cut short inside of it.

        A tool makes an error of whatever is raised in it. Stored as what the call came to, that would be read when the
        step is taken again, in place of what the call does once the person has answered or the budget is raised.
        """
        cut: list[Exception] = []
        try:
            with _cuts_told_to(cut):
                result = await make()
        except Exception:
            if not cut:
                raise
            raise cutting(cut[0]) from None
        if cut:
            raise cutting(cut[0])
        return result

    async def _paid(self, fn: Callable[[], Awaitable[T]], bill: Bill) -> T:
        """A call that asks a model, unless a budget is spent. What it has used counts from the moment of its end."""
        if (around := _PAYING.get()) is not None:  # admitted already: to wait for that one's end would be for ever
            around.is_told_inside = True
            try:
                return await fn()
            finally:
                self._count(bill)
        if (spent := await self._budgets.admit(self.session)) is not None:
            self.budget_spent = spent
            raise cutting(BudgetSpentError(spent.words))
        outer = _PAYING.set(bill)
        try:
            return await fn()
        finally:
            _PAYING.reset(outer)
            self._budgets.landed(self.session, self._count(bill))

    def _count(self, bill: Bill) -> spending.Spent:
        spent = spending.spent_by_call(bill.told())
        self.used = self.used.plus(bill.used)
        self.session.open = self.session.open.plus(spent)
        return spent

    def _ms_since(self, began: float) -> float:
        return (self.clock.monotonic() - began) * 1000

    def _failed(self, key: str, kind: str, error: Exception, latency_ms: float, bill: Bill | None) -> Record:
        said = {"kind": kind, "error": self._secrets.redact(f"{type(error).__name__}: {error}")[:_SAID_CHARS]}
        return self._record(key, RecordKind.FAILED, said, usage=_told(None, bill), latency_ms=latency_ms)

    def _ask_about(self, key: str) -> None:
        question = (
            f"The call {key!r} may have been made before the step was cut short. "
            "It is not safe to make twice: shall it be repeated, was it done, or has it failed?"
        )
        about = {"call": key, "call_key": self.call_key(key)}
        words: Json = {"kind": QuestionKind.UNSAFE_CALL.value, "question": question, "about": about}
        self._put(key, asked_item(words, key=key, asked_at=self.clock.now(), epoch=self.session.epoch))
        raise cutting(AwaitsPersonError(f"a person has to say whether the call {key!r} was made", [key]))

    def _put(self, key: str, item: Json) -> None:
        """Ask `item` of a person, once."""
        if all((known["key"], known["kind"]) != (key, item["kind"]) for known in self.questions):
            number = len(self.questions)
            self.questions.append(
                {"id": item_id(self.session.session_id, self.iteration, number), "in_step": True, **item}
            )

    async def _keep(self, record: Record) -> None:
        await append_record(self._db, record)

    async def _calls_known(self) -> KnownCalls:
        """The calls of the step's earlier tries; only a step that may have been tried before has any to read."""
        if self._look_for_records:
            async with self._looking:
                await self._look()
        return self._known

    async def _look(self) -> None:
        if not self._look_for_records:
            return
        session = self.session
        rows = await list_records(self._db, session.session_id, self.iteration, since_iteration=session.tried_from)
        self._known = known_calls(rows, self.iteration, session.failed_seq)
        self._sequence = max(self._sequence, self._known.last_seq)
        self.used = self.used.plus(self._known.wasted)
        session.open = session.open.joined(_spent_on(rows, self.iteration))
        self._look_for_records = False

    def _record(
        self, key: str, kind: str, result: Any = None, *, digest: str = "", usage: Any = None, latency_ms: float = 0.0
    ) -> Record:
        sequence, session = self.next_event(), self.session
        return Record(
            id=f"{session.session_id}:{self.iteration}:{session.epoch}:{sequence}:{key}",
            created_at=self.clock.now(),
            session_id=session.session_id,
            iteration=self.iteration,
            event_seq=sequence,
            key=key,
            kind=kind,
            digest=digest,
            result=result,
            usage=usage,
            latency_ms=latency_ms,
            epoch=session.epoch,
        )


def _is_answered(known: KnownCalls, key: str, digest: str) -> bool:
    found = known.results.get(asked_key(key))
    return found is not None and found.digest == digest


def _spent_on(rows: Iterable[Record], iteration: int) -> spending.Spent:
    """What the model calls of one iteration have used, be their answers of use or not."""
    spent = spending.NOTHING_SPENT
    for row in rows:
        if row.iteration == iteration and row.kind in PAID_KINDS:
            spent = spent.plus(spending.spent_by_call(row.usage))
    return spent


def _told(facts: Json | None, bill: Bill | None) -> Json | None:
    """What a record's `usage` says: the facts of the call, and what it paid."""
    return facts if bill is None else {**(facts or {}), **bill.told()} or None


def cutting(error: Exception) -> Exception:
    """`error`, which cuts the step short, noted for the call that the running task is inside of."""
    if (around := _CUT.get()) is not None:
        around.append(error)
    return error


def asked_key(key: str) -> str:
    """The key of the records of a question and its answer."""
    return f"ask:{key}"
