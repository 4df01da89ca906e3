"""One turn, from what the host gives to what it gets (docs/copilot.md, "The way of a turn").

The awaits are: the agents of phase 1, those of phase 2, and the callbacks at the end. Everything between is done at
once, so turns that overlap on one session see each other's phases whole or not at all. A turn that is cancelled cancels
its agents; a phase that was merged before stays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

from monikers.copilot.agent import BaseAgent
from monikers.copilot.blackboard import Blackboard
from monikers.copilot.board import MEMORY_PREFIX, is_reserved
from monikers.copilot.clock import Clock, new_id
from monikers.copilot.deduplication import news
from monikers.copilot.findings import Findings, Taker
from monikers.copilot.frozen import copied
from monikers.copilot.merging import in_order, merge
from monikers.copilot.models import AgentContext, AgentInsight, AgentResponse, InsightType, ShownContext, TriggerType
from monikers.copilot.phase import AgentRun, run_all
from monikers.copilot.records import Event
from monikers.copilot.routing import Asked, Router, Skip
from monikers.copilot.sessions import AgentSlot, Moment, Session
from monikers.copilot.settling import Abandoned
from monikers.copilot.telling import Teller
from monikers.copilot.turnrecord import PhaseRecord, TurnRecord


class TurnRules(NamedTuple):
    """What an engine decides for all its turns. Times are in seconds."""

    max_phases: int
    agent_timeout_s: float | None
    #: the same words of the same agent within this time count once; 0: always
    insight_window_s: float


class TurnServices(NamedTuple):
    """What a turn works with."""

    #: when a turn takes place: cooldowns and the like
    clock: Clock
    #: how long things take: deadlines and durations
    timer: Clock
    router: Router
    teller: Teller
    abandoned: Abandoned
    #: takes an insight that waits for a person; see `approval.py`
    hold: Callable[[str, AgentInsight], None]


class Turn:
    """One call of `process_turn`."""

    def __init__(
        self,
        agents: Sequence[BaseAgent],
        context: AgentContext,
        session: Session,
        rules: TurnRules,
        services: TurnServices,
    ) -> None:
        self._agents = agents
        self._context = context
        self._session = session
        self._rules = rules
        self._services = services
        self._clock = services.clock
        self._timer = services.timer
        self._teller = services.teller
        self._board = _board_of(context, session)
        self._total = AgentResponse()
        #: this turn's events on the board
        self._events: list[Event] = []
        self._record: TurnRecord | None = None

    async def run(
        self, trigger: TriggerType, metadata: dict[str, Any], allowed: Collection[str] | None
    ) -> AgentResponse:
        """All phases; the response. The turn's events have left the board, however it ends."""
        self._trigger, self._metadata, self._allowed = trigger, metadata, allowed
        self._moment = Moment.of(self._clock)
        self._began = self._timer.monotonic()
        try:
            self._begin()
            await self._phase(1, _names(self._events) if trigger is TriggerType.EVENT else ())
            if self._rules.max_phases > 1 and (woken := self._woken_by()):
                await self._phase(2, woken)
        finally:
            self._board.drop_events(self._events)
        return self._end()

    # --- beginning and end -------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        context = self._context
        hear_shared_state(context, self._board, [agent.config.id for agent in self._agents])
        self._turn_count = self._session.count_turn(
            context.turn_count if "turn_count" in context.model_fields_set else None
        )
        self._board.set_sys("turn_count", self._turn_count)
        self._board.set_sys("session_id", context.session_id)
        self._board.set_sys("trigger_type", self._trigger.value)
        self._take_up([event for event in self._board.events if id(event) not in self._board.taken])
        if self._teller.hears("on_turn_record"):
            self._record = self._new_record()
        self._teller.tell("on_turn_start", context)

    def _take_up(self, events: Iterable[Event]) -> None:
        """Make events on the board this turn's: no turn that overlaps will act on them too."""
        for event in events:
            self._events.append(event)
            self._board.taken.add(id(event))

    def _new_record(self) -> TurnRecord:
        return TurnRecord(
            turn_id=new_id(),
            began_at=self._clock.now(),
            context=self._context,
            trigger=self._trigger.value,
            metadata=self._metadata,
            turn_count=self._turn_count,
            initial=self._board.snapshot(),
            agent_configs=[_described(agent) for agent in self._agents],
        )

    def _end(self) -> AgentResponse:
        duration = self._timer.monotonic() - self._began
        self._teller.tell("on_turn_end", self._total, duration)
        if self._record is not None:
            self._record.final = self._board.snapshot()
            self._record.response, self._record.duration_s = self._total, duration
            self._teller.tell("on_turn_record", self._record)
        return self._total

    def _woken_by(self) -> list[str]:
        """The names of the events that phase 2 answers to: what phase 1 emitted and, unless they were what the host
        asked about, the host's."""
        emitted = self._total.events
        return _names(
            emitted if self._trigger is TriggerType.EVENT else [*self._events[: -len(emitted) or None], *emitted]
        )

    # --- a phase -----------------------------------------------------------------------------------------------------

    async def _phase(self, number: int, event_names: Sequence[str]) -> None:
        began = self._timer.monotonic()
        phase = PhaseRecord(number, event_names)
        runs = self._runs(self._asked(number, event_names), phase)
        if number > 1 and not runs and not phase.skipped:
            return
        if self._record is not None:
            self._record.phases.append(phase)
        names = [run.due.agent.config.name for run in runs]
        self._teller.tell("on_phase_start", number, names)
        findings = await self._answers(runs)
        self._merge(findings, phase)
        if self._record is not None:
            phase.runs = _timed(findings, runs)
        phase.duration_s = self._timer.monotonic() - began
        self._teller.tell("on_phase_end", number, phase.emitted)

    def _asked(self, number: int, event_names: Sequence[str]) -> Asked:
        return Asked(
            context=self._context,
            board=self._board,
            session=self._session,
            moment=self._moment if number == 1 else Moment.of(self._clock),
            trigger=self._trigger if number == 1 or self._trigger is TriggerType.FORCE else TriggerType.EVENT,
            metadata=self._metadata,
            turn_count=self._turn_count,
            phase=number,
            event_names=event_names,
            allowed=self._allowed,
        )

    def _runs(self, asked: Asked, phase: PhaseRecord) -> list[AgentRun]:
        """Who is due, each with a context of its own and all with one picture of the board."""

        def skipped(agent: BaseAgent, reason: Skip) -> None:
            phase.skipped.append((agent.config.id, reason))
            self._teller.tell("on_agent_skipped", agent.config.name, reason.value)

        due = self._services.router.due(self._agents, asked, skipped)
        phase.eligible = [one.agent.config.id for one in due]
        view = self._board.snapshot() if due else None
        trigger = TriggerType.EVENT if asked.phase > 1 else asked.trigger
        contexts = ShownContext.several(
            self._context,
            self._metadata,
            blackboard=view,
            trigger_type=trigger,
            turn_count=self._turn_count,
            phase=asked.phase,
        )
        runs = []
        for one, context in zip(due, contexts, strict=False):  # as many contexts as are asked for
            limit = one.agent.config.timeout
            runs.append(AgentRun(one, context, self._rules.agent_timeout_s if limit is None else limit, self._timer))
        return runs

    async def _answers(self, runs: Sequence[AgentRun]) -> list[Findings]:
        """What all found, in the order of the merge."""
        found: list[Findings] = []
        taker = Taker([agent.config.id for agent in self._agents], self._timestamp())
        for run in runs:
            self._teller.tell("on_agent_start", run.due.agent.config.name, run.context)
        await run_all(
            runs,
            lambda run: found.append(self._finished(run, taker)),
            clock=self._timer,
            abandoned=self._services.abandoned,
        )
        return in_order(found)

    def _timestamp(self) -> float:
        """Seconds since the session began, as its transcript counts them; without one, since its first turn."""
        segments = self._context.recent_segments
        return segments[-1].timestamp if segments else self._clock.monotonic() - self._session.began

    # --- an agent has finished ---------------------------------------------------------------------------------------

    def _finished(self, run: AgentRun, taker: Taker) -> Findings:
        """Take what an agent found, and tell of it at once."""
        agent, slot = run.due.agent, run.due.slot
        if run.error is not None:
            # Its traceback holds the run: a run that held it too would keep its picture alive for long.
            error, run.error = run.error, None
            found = taker.failed(agent, run.due.place, error)
            self._teller.tell("on_agent_error", agent.config.name, error)
            del error
            response: AgentResponse | None = AgentResponse(
                insights=list(found.insights), source_agent_id=found.agent_id
            )
        else:
            found, response = taker.taken(agent, run.due.place, run.response), run.response
            agent.keep(slot, run.due.evaluation)
            if isinstance(response, AgentResponse):
                response.source_agent_id = found.agent_id
        if found.usage:
            slot.add_usage(found.usage)
        if found.insights:
            found.insights = self._shown(found, agent, slot)
        self._teller.tell("on_agent_finish", agent.config.name, response, run.duration_s)
        for insight in found.insights:
            self._teller.tell("on_insight", insight, run.context)
        return found

    def _shown(self, found: Findings, agent: BaseAgent, slot: AgentSlot) -> Sequence[AgentInsight]:
        """The insights that people see now: not what was said before, and not what a person has to agree to."""
        new = self._new(found, slot)
        if not agent.config.needs_approval:
            return new
        for insight in new:
            if insight.type is not InsightType.ERROR:
                self._services.hold(self._session.session_id, insight)
        return [insight for insight in new if insight.type is InsightType.ERROR]

    def _new(self, found: Findings, slot: AgentSlot) -> Sequence[AgentInsight]:
        window = self._rules.insight_window_s
        if window <= 0 or not found.insights:
            return found.insights
        slot.said = {} if slot.said is None else slot.said
        return news(found.insights, slot.said, self._clock.monotonic(), window)

    def _merge(self, findings: Sequence[Findings], phase: PhaseRecord) -> None:
        merge(findings, self._board, self._total)
        emitted = [event for found in findings for event in found.events]
        phase.emitted = _names(emitted)
        if phase.number == 1:
            for event in emitted:
                self._board.emit_event(event)
            self._take_up(self._board.events[len(self._board.events) - len(emitted) :])


def _described(agent: BaseAgent) -> dict[str, Any]:
    try:
        return agent.description()
    except Exception as error:  # an agent's own code: the trace goes without it
        return {"kind": type(agent).__qualname__, "id": agent.config.id, "error": type(error).__name__}


def _names(events: Iterable[Event]) -> list[str]:
    """Their names, each once, in the order in which they came."""
    return list(dict.fromkeys(event.name for event in events))


def _timed(findings: Sequence[Findings], runs: Sequence[AgentRun]) -> list[tuple[Findings, float]]:
    durations = {run.due.place: run.duration_s for run in runs}
    return [(found, durations[found.place]) for found in findings]


def _board_of(context: AgentContext, session: Session) -> Blackboard:
    """The host's board; for a host that brings none that of the session, which it finds in its context from then on.

    Raises `TypeError` for a view: a turn has to write.
    """
    if context.blackboard is None:
        context.blackboard = session.board
    if not isinstance(context.blackboard, Blackboard):
        raise TypeError(f"a turn needs a Blackboard, not {type(context.blackboard).__name__}: pass the live board")
    return context.blackboard


def hear_shared_state(context: AgentContext, board: Blackboard, agent_ids: Collection[str]) -> None:
    """Take in what a host of version 1 says in `shared_state` (spec 2 §13.3.1).

    Only what it says anew: what it said before does not undo what agents wrote since. What it no longer says goes.
    `memory_<id>` of an agent is that agent's memory.
    """
    if "shared_state" not in context.model_fields_set:
        return
    said = {key: value for key, value in context.shared_state.items() if not is_reserved(key)}
    for key in [key for key in board.heard if key not in said]:
        del board.heard[key]
        board.delete_var(key)
    for key, value in said.items():
        if key in board.heard and board.heard[key] == value:
            continue
        board.heard[key] = copied(value)
        owner = key.removeprefix(MEMORY_PREFIX)
        if owner != key and owner in agent_ids and isinstance(value, dict):
            board.set_memory(owner, value)
        else:
            board.set_var(key, value)
