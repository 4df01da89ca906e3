"""Taking the turns of one step: the engine is made anew from the state, and what it knows goes back into it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from monikers.copilot.agent import BaseAgent
from monikers.copilot.blackboard import Blackboard
from monikers.copilot.callbacks import AgentCallbackHandler
from monikers.copilot.engine import AgentEngine
from monikers.copilot.moniker.asks import Ask
from monikers.copilot.moniker.config import CopilotConfig
from monikers.copilot.moniker.desk import Desk
from monikers.copilot.moniker.roster import serving
from monikers.copilot.moniker.scene import scene_of
from monikers.copilot.moniker.state import CopilotState
from monikers.copilot.moniker.telling import InsightIds, Recorder, Teller, Told, durations_of, insight_row
from monikers.copilot.turnrecord import TurnRecord
from runtime.contract import Clock, Ctx, Json, MonikerError
from runtime.guard.port import Channel

#: items of a queue on the board; the oldest are dropped beyond that many
MAX_QUEUED = 1_000
_LIVE = "insight"


class StillClock:
    """The runtime's clock, standing still at the moment of the turn: whoever is due then, is due when it is taken
    again."""

    def __init__(self, moment: datetime) -> None:
        self._moment = moment

    def now(self) -> datetime:
        return self._moment

    def monotonic(self) -> float:
        return self._moment.timestamp()

    async def sleep(self, seconds: float) -> None:
        """Nobody waits for a clock that stands still."""
        raise NotImplementedError("the moment of a turn does not pass; wait for the runtime's clock")


@dataclass
class Taken:
    """What the turns of a step came to."""

    traces: list[Json] = field(default_factory=list)
    insights: list[Json] = field(default_factory=list)

    @property
    def ran(self) -> int:
        """How many runs of agents there were."""
        return sum(len(phase["ran"]) for trace in self.traces for phase in trace["phases"])


class Table:
    """The engine of one step, with the board of its session on it."""

    def __init__(self, ctx: Ctx[CopilotConfig], state: CopilotState, moment: datetime) -> None:
        self._ctx = ctx
        self._state = state
        self._moment = moment
        #: of a model call, by agent, where the definition has one
        self._timeouts: dict[str, float | None] = {}
        #: which of its versions serves the session, by agent that has some
        self._versions: dict[str, str] = {}
        self.board = Blackboard.from_dict(state.board)
        self.engine = self._engine(moment, ctx.clock)
        self.engine.import_session(ctx.session_id, state.engine)

    @property
    def agents(self) -> Sequence[BaseAgent]:
        """Who may be asked, in the order of registration."""
        return [agent for agent in self.engine.agents if self._may_ask(agent.config.id)]

    @property
    def kept_segments(self) -> int:
        """How much of the transcript is kept."""
        return self._ctx.config.kept_segments

    @property
    def allowed(self) -> list[str] | None:
        """The session's allow-list."""
        return self._ctx.config.allowed_agent_ids

    def _engine(self, moment: datetime, timer: Clock) -> AgentEngine:
        config = self._ctx.config
        engine = AgentEngine(
            max_phases=config.max_phases,
            agent_timeout=None,  # a model's deadline ends a call, and is a record; an engine's would be none
            insight_window=config.insight_window_s,
            clock=StillClock(moment),
            timer=timer,
            new_client=lambda **_: None,
        )
        engine.replace_agents(self._agents())
        for group in config.groups_off:
            engine.groups.switch(group, on=False)
        for group, on in self._state.groups.items():
            engine.groups.switch(group, on=on)
        return engine

    def _agents(self) -> Iterator[BaseAgent]:
        for definition in self._state.definitions(self._ctx.config).values():
            agent, version = serving(definition, self._ctx.session_id)
            self._timeouts[agent.config.id] = agent.config.timeout
            if version is not None:
                self._versions[agent.config.id] = version
            agent.config = copy.copy(agent.config)
            agent.config.timeout = None
            yield agent

    def _may_ask(self, agent_id: str) -> bool:
        return self.allowed is None or agent_id in self.allowed

    async def take(self, asks: Sequence[Ask]) -> Taken:
        """Take the turns, one after the other, and put what the engine knows into the state."""
        taken = Taken()
        if asks:
            self._state.turn += 1
        for number, ask in enumerate(asks, start=1):
            await self._take_one(number, ask, taken)
        self._drop_oldest()
        self._state.board = self.board.to_dict()
        self._state.engine = self.engine.export_session(self._ctx.session_id)
        return taken

    def _drop_oldest(self) -> None:
        """A queue that nobody takes from does not grow for ever: each step stores it."""
        for queue in self.board.queues.values():
            if len(queue) > MAX_QUEUED:
                del queue[:-MAX_QUEUED]

    async def _take_one(self, number: int, ask: Ask, taken: Taken) -> None:
        ctx, name = self._ctx, f"{number}"
        step_id = f"{ctx.session_id}:{ctx.iteration}"
        desk = Desk(ctx.llm.apart(name), ctx.config.agent_timeout_s)
        self._seat(desk)
        recorder = Recorder()
        handlers: list[AgentCallbackHandler] = [recorder]
        if not ctx.guard.see(Channel.OUTPUT):  # what a gate has not seen is shown to nobody
            handlers.append(Teller(InsightIds(step_id, number), self._state.turn, self._tell(desk)))
        self.engine.callbacks = handlers
        await self._processed(ask)
        if desk.broken is not None:
            raise desk.broken
        if recorder.record is None:
            raise MonikerError("the engine told nothing of its turn; take the step again")
        await self._keep(number, recorder.record, InsightIds(step_id, number), taken)

    def _seat(self, desk: Desk) -> None:
        """Give each agent the model for this turn."""
        for agent in self.engine.agents:
            agent.llm = desk.of(agent.config.id, self._timeouts[agent.config.id])

    def _tell(self, desk: Desk) -> Any:
        async def tell(row: Json) -> None:
            if desk.broken is None and not self._is_said_again(row):
                await self._ctx.emit(_LIVE, row)

        return tell

    def _is_said_again(self, row: Json) -> bool:
        return self._state.is_said_again(row, self._moment, self._ctx.config.insight_window_s)

    async def _processed(self, ask: Ask) -> None:
        ids = ask.agent_ids
        if ids is not None and self.allowed is not None:
            ids = [agent_id for agent_id in ids if agent_id in self.allowed]
        await self.engine.process_turn(
            scene_of(self._ctx.session_id, self._ctx.config, self._state, self.board),
            allowed_agent_ids=self.allowed if ids is None else ids,
            trigger_type=ask.trigger,
            trigger_metadata=ask.metadata,
        )

    async def _keep(self, number: int, record: TurnRecord, ids: InsightIds, taken: Taken) -> None:
        async def measured() -> dict[str, int]:
            return durations_of(record)

        has_run = any(phase.runs for phase in record.phases)
        ms = await self._ctx.record(f"ms:{number}", measured, kind="clock") if has_run else {}
        told = Told(record, ids, ms, self._versions, is_news=lambda row: not self._is_said_again(row))
        self._state.complain(told.insights, self._moment)
        taken.traces.append(told.trace)
        taken.insights += [*told.insights, *await self._held(record, ids)]

    async def _held(self, record: TurnRecord, ids: InsightIds) -> list[Json]:
        """The insights of this turn that wait for a person; the state keeps them until one has decided."""
        places = {agent.config.id: place for place, agent in enumerate(self.engine.agents)}
        held = sorted(
            self.engine.held_insights(self._ctx.session_id), key=lambda one: places.get(one.insight.agent_id, 0)
        )
        rows = []
        for one in held:
            row = insight_row(one.insight, ids.next_held(one.insight.agent_id), record.turn_count, 1, record.trigger)
            rows.append({**row, "status": "held"})
            await self.engine.decide(one.held_id, agreed=False)  # the engine need not keep it any more
        self._state.hold(rows)
        return rows
