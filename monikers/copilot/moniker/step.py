"""One step of a `copilot` session: hear what was said, take the turns that it calls for, wait for the next."""

from __future__ import annotations

from datetime import datetime

from monikers.copilot.models import TranscriptSegment
from monikers.copilot.moniker.asks import Ask, asks_of_command, asks_of_segment, asks_of_timers
from monikers.copilot.moniker.command import Decision, Heard, UnusableInputError
from monikers.copilot.moniker.config import CopilotConfig
from monikers.copilot.moniker.state import CopilotState
from monikers.copilot.moniker.taking import Table, Taken
from monikers.copilot.moniker.timers import timers
from monikers.copilot.records import Event
from monikers.words import KEPT_GUIDANCE, MAX_GUIDANCE_CHARS, as_words, clip
from runtime.contract import Ctx, Json, StepFrame, StepOut, Wait, WaitForInput, WaitUntil

LISTEN = "listen"
_PROMPT = "a segment of the conversation"


async def step(ctx: Ctx[CopilotConfig], frame: StepFrame) -> StepOut:
    """Take up one input, or what a timer asks for.

    An input that cannot be used changes nothing: the step's text says why. Raises what keeps a step from being taken at
    all: a spent budget, a store that is away.
    """
    state = CopilotState.read(frame.state, ctx.config)
    try:
        heard = [Heard(said) for said in frame.inputs]
        return await _listened(ctx, frame, state, heard)
    except UnusableInputError as error:
        return _not_taken_up(ctx, frame, str(error))


async def _listened(ctx: Ctx[CopilotConfig], frame: StepFrame, state: CopilotState, heard: list[Heard]) -> StepOut:
    moment = await _moment(ctx)
    if frame.guidance is not None:
        words = clip(as_words(frame.guidance).strip(), MAX_GUIDANCE_CHARS)
        state.guidance = [*state.guidance, words][-KEPT_GUIDANCE:]
    told: Json = {"segment": None}
    decided = [row for one in heard if one.command.decide for row in _decide(state, one.command.decide)]
    for one in heard:
        _obey(one, state)
    table = Table(ctx, state, moment)
    asks = _asks(table, state, heard, moment, told)
    if not heard and frame.guidance is None and not ctx.config.dry_run:
        due = [timer for timer in timers(table.agents, state, ctx.config.quiet_after_s) if timer.at <= moment]
        asks += asks_of_timers(due, state, moment)
    taken = await table.take(asks)
    return _answer(ctx, frame, state, table, told, asks, taken, decided)


async def _moment(ctx: Ctx[CopilotConfig]) -> datetime:
    """When the step takes place: the same however often it is taken."""

    async def now() -> str:
        return ctx.clock.now().isoformat()

    return datetime.fromisoformat(await ctx.record("moment", now, kind="clock"))


def _obey(heard: Heard, state: CopilotState) -> None:
    """What a command changes for good, but for the board."""
    command = heard.command
    if command.agents or command.remove_agents:
        state.take_agents(command.agents, command.remove_agents)
    state.groups = {**state.groups, **command.groups}
    state.overrides = {**state.overrides, **command.overrides}


def _decide(state: CopilotState, decision: Decision) -> list[Json]:
    """The insight that a person has decided about, as people see it from now on."""
    held = state.decided(decision.insight_id)
    if held is None:
        raise UnusableInputError(
            f"decide.insight_id: {decision.insight_id[:300]!r} does not wait for anybody; it may have been decided "
            "about already"
        )
    by = {} if decision.by is None else {"decided_by": decision.by}
    return [{**held, "status": "shown" if decision.agreed else "refused", "metadata": {**held["metadata"], **by}}]


def _asks(table: Table, state: CopilotState, heard: list[Heard], moment: datetime, told: Json) -> list[Ask]:
    """The turns that inputs call for; what they say goes into the transcript and onto the board."""
    asks: list[Ask] = []
    for one in heard:
        for name, value in one.command.variables.items():
            table.board.set_var(name, value)
        for event in one.command.events:
            table.board.emit_event(Event(name=event.name, payload=event.payload, source_agent="host"))
        if one.is_segment:
            segment = _segment(one, state, moment)
            state.say(segment, moment, table.kept_segments)
            told["segment"] = segment.model_dump(mode="json")
            asks += asks_of_segment(table.engine, segment, table.allowed)
        asks += asks_of_command(one.command, is_segment=one.is_segment)
    return asks


def _segment(heard: Heard, state: CopilotState, moment: datetime) -> TranscriptSegment:
    by = heard.by
    assert by is not None  # noqa: S101  # `is_segment` says so
    since = 0.0 if state.began_at is None else (moment - state.began_at).total_seconds()
    timestamp = round(max(since, 0.0), 3) if by.timestamp is None else by.timestamp
    return TranscriptSegment(speaker=by.speaker, text=heard.text, timestamp=timestamp, is_final=by.is_final)


def _answer(
    ctx: Ctx[CopilotConfig],
    frame: StepFrame,
    state: CopilotState,
    table: Table,
    told: Json,
    asks: list[Ask],
    taken: Taken,
    decided: list[Json],
) -> StepOut:
    insights = [*decided, *taken.insights]
    return StepOut(
        step=LISTEN,
        next_step=LISTEN,
        state=state.row(),
        data={
            "turn": state.turn,
            "trigger": asks[-1].trigger.value if asks else None,
            **told,
            "turns": taken.traces,
            "insights": insights,
        },
        notes=_notes(taken, insights),
        wait=_wait(ctx, state, table),
        done=_has_been_tried(ctx, frame),
    )


def _notes(taken: Taken, insights: list[Json]) -> str | None:
    if not taken.traces:
        return None
    return f"{taken.ran} of the agents ran, {len(insights)} insights"


def _has_been_tried(ctx: Ctx[CopilotConfig], frame: StepFrame) -> bool:
    """Whether a dry run has had its one input, be it one that could not be taken up. What else it did is no try."""
    return ctx.config.dry_run and bool(frame.inputs)


def _wait(ctx: Ctx[CopilotConfig], state: CopilotState, table: Table) -> Wait:
    """A dry run waits for its input alone: no timer comes before it, and none is paid for if it never comes."""
    if ctx.config.dry_run:
        return WaitForInput(prompt=_PROMPT)
    found = timers(table.agents, state, ctx.config.quiet_after_s)
    return WaitUntil(time=found[0].at) if found else WaitForInput(prompt=_PROMPT)


def _not_taken_up(ctx: Ctx[CopilotConfig], frame: StepFrame, problem: str) -> StepOut:
    state = CopilotState.read(frame.state, ctx.config)
    return StepOut(
        step=LISTEN,
        next_step=LISTEN,
        state=frame.state,
        text=f"This was not taken up: {problem}",
        data={"turn": state.turn, "trigger": None, "segment": None, "turns": [], "insights": [], "problem": problem},
        wait=_wait(ctx, state, Table(ctx, state, ctx.clock.now())),
        done=_has_been_tried(ctx, frame),
    )
