"""Replay: takes the stored steps of a session again, from their records, and finds the first one that is different now.

    stored step ─▶ its frame (state before, token, what it read) ─▶ moniker, calls answered from records ─▶ compare

No model and no tool is called and nothing is written. The clock stands at the time of the step. A wait for a moment is
compared by its kind: the moment depends on when the moniker looked at the clock. A wait for answers is compared by its
questions. Rows that no moniker made are known:
a fork's first row is compared with the step that it began from; a rollback and a question to a person are passed over.
A failed step has to fail in the same words, or at a call that never got a result. A file that a config names is read
again: its text is no record.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

from runtime.approvals.items import bare
from runtime.contract import Answer, Files, Json, Moniker, StepFrame, StepInput, StepOut
from runtime.differences import ABSENT, first_difference
from runtime.gatedstep import gated_step, read_wait
from runtime.registry import MonikerCatalogue
from runtime.replaycontext import Recorded, ReplayContext
from runtime.session import LiveSession, session_of_row, taint_of, taint_row
from runtime.tools.offer import ToolOffer
from runtime.trying import words_of
from store.agent_state import get_agent_state
from store.agent_steps import AgentStep, StepFilter, StepStatus, find_step, list_agent_steps
from store.database import TenantStore
from store.ids import SessionId
from store.records import list_records
from store.stepstates import is_changes

_PAGE = 100
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Difference:
    """The first thing that is not as it was."""

    iteration: int
    what: str

    def __str__(self) -> str:
        return f"iteration {self.iteration}: {self.what}"


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a replay found. `passed_over` counts rows that are no steps, or whose state before is gone."""

    steps: int = 0
    passed_over: int = 0
    difference: Difference | None = None


async def replay_session(
    db: TenantStore,
    catalogue: MonikerCatalogue,
    files: Files,
    session_id: SessionId,
    *,
    first: int = 0,
    last: int | None = None,
    tools: ToolOffer | None = None,
) -> Replayed:
    """Replay the steps from iteration `first` up to and with `last`, until one is different.

    Raises `NotFoundError` for an unknown session, `MonikerInputError` when its moniker or config is not known here.
    """
    session = session_of_row(await get_agent_state(db, session_id=session_id), owner="", epoch=0)
    moniker = catalogue.get(session.spec.moniker)
    config = catalogue.check(moniker, session.spec.config, session.spec.task)
    player = _Player(db, session, moniker, config, files, tools or ToolOffer())
    found, before = Replayed(), await find_step(db, session_id, first - 1) if first else None
    async for step in _steps(db, session_id, first, last):
        played = await player.play(before, step)
        found = replace(found, steps=found.steps + played.steps, passed_over=found.passed_over + played.passed_over)
        if played.difference is not None:
            return replace(found, difference=played.difference)
        before = step
    return found


async def _steps(db: TenantStore, session_id: SessionId, first: int, last: int | None) -> AsyncIterator[AgentStep]:
    wanted, cursor = StepFilter(session_id, min_iteration=first, max_iteration=last), None
    while True:
        page = await list_agent_steps(db, wanted, limit=_PAGE, cursor=cursor)
        for step in page.items:
            yield step
        cursor = page.next_cursor
        if cursor is None:
            return


_PASSED_OVER = Replayed(passed_over=1)


class _Player:
    """Plays steps of one session."""

    def __init__(
        self,
        db: TenantStore,
        session: LiveSession,
        moniker: Moniker[Any],
        config: Any,
        files: Files,
        tools: ToolOffer,
    ) -> None:
        self._db = db
        self._session = session
        self._moniker = moniker
        self._config = config
        self._files = files
        #: the steps before this one that failed or asked: a try that comes after them reads their calls
        self._tools = tools
        #: the first of the failed and asking steps before this one: the try that comes after them reads their calls
        self._failed_since: int | None = None

    async def play(self, before: AgentStep | None, step: AgentStep) -> Replayed:
        """Play one step; `before` is the row in front of it."""
        if _origin(step) is not None:
            return await self._fork(step)
        read = step.guidance if isinstance(step.guidance, dict) else {}
        if "rolled_back" in read:
            return _PASSED_OVER
        first_try = step.iteration if self._failed_since is None else self._failed_since
        asks = bool(read.get("again"))
        self._failed_since = first_try if asks or step.status is StepStatus.ERROR else None
        if asks:
            return _PASSED_OVER
        if not _follows(before, step):
            return _PASSED_OVER
        if before is not None and before.next_step_token != step.step_token:
            return _different(step, "step_token", before.next_step_token, step.step_token)
        _put_behind(self._session, before)
        context = await self._context(before, step, read, first_try)
        try:
            out = await gated_step(self._moniker, context, _frame(before, step, read))
        except Exception as error:  # whatever a moniker raises is compared with what the step says
            return _failed(step, context, error)
        return self._compare(step, context, out)

    async def _context(self, before: AgentStep | None, step: AgentStep, read: Json, first_try: int) -> ReplayContext:
        self._session.iteration = step.iteration - 1
        self._session.tried_from = first_try
        self._session.usage = _usage_at(before, read)
        recorded = await list_records(self._db, step.session_id, step.iteration, since_iteration=first_try)
        return ReplayContext(
            self._db,
            self._session,
            self._config,
            files=self._files,
            moment=step.created_at,
            recorded=Recorded.of(recorded),
            tools=self._tools,
        )

    def _compare(self, step: AgentStep, context: ReplayContext, out: StepOut) -> Replayed:
        if context.problem is not None:
            return _unlike(step, context.problem)
        if step.status is StepStatus.ERROR:
            return _different(step, "error", step.error, None)
        stored = {
            "next_step_token": step.next_step_token,
            "state": step.state,
            "text": step.text,
            "data": step.data,
            "notes": step.notes,
            "wait": _wait(step.wait),
            "done": step.status is StepStatus.DONE,
        }
        new = {
            "next_step_token": out.next_step,
            "state": out.state,
            "text": out.text,
            "data": out.data,
            "notes": out.notes,
            "wait": None if out.wait is None else _wait(out.wait.model_dump(mode="json")),
            "done": out.done and self._stops_when_done(),
        }
        place = first_difference(stored, new)
        return Replayed(1) if place is None else _unlike(step, _said(place.path[2:], place.stored, place.new))

    def _stops_when_done(self) -> bool:
        chosen = self._session.spec.stop_on_done
        return self._moniker.stop_on_done if chosen is None else chosen

    async def _fork(self, step: AgentStep) -> Replayed:
        """A fork's first row is the step that it began from; where that is gone there is nothing to compare."""
        origin = _origin(step) or {}
        source = await find_step(self._db, SessionId(str(origin.get("session_id"))), int(origin.get("iteration", -1)))
        if source is None or is_changes(source):
            return _PASSED_OVER
        stored = {"state": step.state, "step_token": step.step_token, "next_step_token": step.next_step_token}
        new = {"state": source.state, "step_token": source.step_token, "next_step_token": source.next_step_token}
        place = first_difference(stored, new)
        return Replayed(1) if place is None else _unlike(step, _said(place.path[2:], place.stored, place.new))


def _put_behind(session: LiveSession, before: AgentStep | None) -> None:
    """Have the session wait as it did after `before`: a step that was not taken up goes on waiting so."""
    read = before.guidance if before is not None and isinstance(before.guidance, dict) else {}
    session.wait = read_wait(before.wait if before is not None else None)
    session.again = read.get("inputs", []) if read.get("again") else []


def _frame(before: AgentStep | None, step: AgentStep, read: Json) -> StepFrame:
    inputs = tuple(StepInput.model_validate(item) for item in read.get("inputs", ()))
    state = before.state if before is not None and isinstance(before.state, dict) else {}
    answers = {key: Answer.model_validate(answer) for key, answer in read.get("answers", {}).items()}
    return StepFrame(step=step.step_token, state=state, guidance=read.get("guidance"), inputs=inputs, answers=answers)


def _usage_at(before: AgentStep | None, read: Json) -> Json:
    """The session's totals when the step began, with what it read."""
    usage: Json = {} if before is None else before.usage
    return {**usage, **taint_row(taint_of(usage).joined(taint_of(read)))}


def _follows(before: AgentStep | None, step: AgentStep) -> bool:
    """Whether the state in front of the step is known."""
    if before is None:
        return step.iteration == 0
    return before.iteration == step.iteration - 1 and not is_changes(before) and not is_changes(step)


def _origin(step: AgentStep) -> Json | None:
    data = step.data if step.iteration == 0 and isinstance(step.data, dict) else {}
    origin = data.get("forked_from")
    return origin if isinstance(origin, dict) and step.notes is not None and step.latency_ms == 0.0 else None


def _failed(step: AgentStep, context: ReplayContext, error: Exception) -> Replayed:
    if step.status is not StepStatus.ERROR:
        return _unlike(step, context.problem or _said("error", None, words_of(error)))
    if context.problem is not None or (step.error or "").startswith(words_of(error)):
        return Replayed(1)
    return _different(step, "error", step.error, words_of(error))


def _wait(wait: Any) -> Any:
    match wait:
        case {"kind": "until"}:
            return {"kind": "until"}
        case {"kind": "approval", "items": list() as items}:
            return {"kind": "approval", "items": bare(items)}
        case _:
            return wait


def _different(step: AgentStep, field: str, stored: Any, new: Any) -> Replayed:
    return _unlike(step, _said(field, stored, new))


def _unlike(step: AgentStep, what: str) -> Replayed:
    return Replayed(difference=Difference(step.iteration, what))


def _said(field: str, stored: Any, new: Any) -> str:
    return f"{field}: stored {_short(stored)}, new {_short(new)}"


def _short(value: Any) -> str:
    text = str(value) if value is ABSENT else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
