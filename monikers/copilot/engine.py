"""The engine: agents are registered, turns are processed (spec 2 §4.1, §8)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from monikers.copilot.agent import BaseAgent
from monikers.copilot.approval import ApprovalPort, HeldInsight, Holding
from monikers.copilot.callbacks import AgentCallbackHandler
from monikers.copilot.clock import Clock, MachineClock, new_id
from monikers.copilot.conditions import ConditionEvaluator
from monikers.copilot.costs import Usage
from monikers.copilot.groups import Groups, members
from monikers.copilot.limits import RateLimit
from monikers.copilot.llm import LLMClient
from monikers.copilot.models import AgentContext, AgentInsight, AgentResponse, TriggerType
from monikers.copilot.registry import Registry
from monikers.copilot.routing import Conditions, Router
from monikers.copilot.sessionjson import held_of, session_json, take_up
from monikers.copilot.sessions import MAX_SESSIONS, Moment, Sessions
from monikers.copilot.settling import Abandoned
from monikers.copilot.telling import CALLBACK_TIMEOUT_S, Teller
from monikers.copilot.turn import Turn, TurnRules, TurnServices
from monikers.copilot.versions import VersionedAgent

AGENT_TIMEOUT_S = 60.0
MOST_PHASES = 2

_log = logging.getLogger("AgentEngine")


class AgentEngine:
    """Runs agents over turns. One engine serves any number of sessions, which never see each other, and turns may
    overlap.

    For one event loop. All times are in seconds. `agent_timeout` holds for agents without one of their own, None for no
    deadline; `callback_timeout` is how long the end of a turn waits for a callback; the same words of an agent within
    `insight_window` are shown once (0: always). `clock` is where all time comes from; a host whose clock stands still
    during a turn, so that the turn can be taken again, gives a `timer` for deadlines and durations.

    Raises `ValueError` for a time that is none.
    """

    def __init__(
        self,
        api_key: str | None = None,
        callbacks: Iterable[AgentCallbackHandler] | None = None,
        max_phases: int = MOST_PHASES,
        llm_timeout: float | None = None,
        llm_max_retries: int | None = None,
        llm_max_tokens: int | None = None,
        llm_base_url: str | None = None,
        *,
        agent_timeout: float | None = AGENT_TIMEOUT_S,
        callback_timeout: float = CALLBACK_TIMEOUT_S,
        insight_window: float = 0.0,
        approvals: ApprovalPort | None = None,
        max_sessions: int = MAX_SESSIONS,
        conditions: Conditions | None = None,
        clock: Clock | None = None,
        timer: Clock | None = None,
        new_client: Callable[..., Any] = LLMClient,
    ) -> None:
        _check_seconds(agent_timeout, callback_timeout, insight_window)
        self.callbacks = list(callbacks or ())
        self.max_phases = min(max(max_phases, 1), MOST_PHASES)
        if self.max_phases != max_phases:
            _log.warning("max_phases=%s is not possible: %s is taken (1 or 2)", max_phases, self.max_phases)
        self.agent_timeout = agent_timeout
        self.callback_timeout = callback_timeout
        self.insight_window = insight_window
        self.groups = Groups()
        self._clock = clock or MachineClock()
        self._timer = timer or self._clock
        self._registry = Registry()
        self._abandoned = Abandoned()
        self._hung: dict[int, Any] = {}
        self._holding = Holding()
        self._sessions = Sessions(self._clock, max_sessions, forgotten=self._holding.forget)
        self._approvals = approvals
        self.condition_evaluator = conditions or ConditionEvaluator()
        self._router = Router(self.condition_evaluator, self.groups)
        self._llm_settings = _given(
            timeout=llm_timeout, max_retries=llm_max_retries, max_tokens=llm_max_tokens, base_url=llm_base_url
        )
        self._new_client = new_client
        self.llm_client: Any = new_client(api_key=api_key, **self._llm_settings)

    # --- agents ------------------------------------------------------------------------------------------------------

    @property
    def agents(self) -> list[BaseAgent]:
        """The agents in the order of registration. The list is never changed: a registration puts another in its
        place."""
        return self._registry.agents

    @agents.setter
    def agents(self, agents: Iterable[BaseAgent]) -> None:
        self.replace_agents(agents)

    def register_agent(self, agent: BaseAgent) -> None:
        """Add an agent, with the engine's model client unless it has one.

        Raises `AgentConfigurationError` when its id is taken.
        """
        self._registry.register(agent)
        self._equip([agent])

    def unregister_agent(self, agent_id: str) -> bool:
        """Take an agent away; whether it was there. A turn that runs goes on with it."""
        return self._registry.unregister(agent_id)

    def replace_agents(self, agents: Iterable[BaseAgent]) -> None:
        """Have these agents and no others. With `AgentConfigurationError` everything stays as it was."""
        new = list(agents)
        self._registry.replace(new)
        self._equip(new)

    def update_api_key(self, api_key: str | None) -> None:
        """Make a new model client with the settings of the old one, and give it to the agents that had that. Calls
        under way end with the old one."""
        old, self.llm_client = self.llm_client, self._new_client(api_key=api_key, **self._llm_settings)
        for agent in _with_versions(self.agents):
            if agent.llm is old:
                agent.llm = self.llm_client

    def _equip(self, agents: Iterable[BaseAgent]) -> None:
        for agent in _with_versions(agents):
            if agent.llm is None:
                agent.llm = self.llm_client

    def get_agents_by_trigger_type(self, trigger_type: TriggerType) -> list[BaseAgent]:
        """The agents that answer to a trigger."""
        return self._registry.of_trigger_type(trigger_type)

    def get_agents_with_keywords(self) -> list[BaseAgent]:
        """The agents that wait for words."""
        return self._registry.with_keywords()

    def get_agents_with_silence_threshold(self) -> list[BaseAgent]:
        """The agents that wait for a silence of some length."""
        return self._registry.with_silence_threshold()

    def get_event_subscribers(self, event_names: Iterable[str]) -> list[BaseAgent]:
        """The agents that answer to `EVENT` and subscribed to one of these names."""
        return self._registry.subscribers(event_names)

    def check_keyword_triggers(
        self, text: str, allowed_agent_ids: Collection[str] | None = None
    ) -> list[tuple[BaseAgent, str]]:
        """Each allowed agent of which a keyword stands in a text, with the first such. For the host: a `KEYWORD` turn
        for these agents is its decision."""
        return self._registry.keyword_matches(text, allowed_agent_ids)

    def ids_of_groups(self, *groups: str) -> list[str]:
        """The ids of the agents in any of these groups: an allow-list for `process_turn`."""
        return members(self.agents, *groups)

    # --- turns -------------------------------------------------------------------------------------------------------

    async def process_turn(
        self,
        context: AgentContext,
        allowed_agent_ids: Collection[str] | None = None,
        trigger_type: TriggerType = TriggerType.TURN_BASED,
        trigger_metadata: Mapping[str, Any] | None = None,
    ) -> AgentResponse:
        """Ask the agents that are due, merge what they found into the board, and return all of it.

        `allowed_agent_ids` is a hard allow-list: None is everybody, an empty one nobody. `trigger_metadata` is added to
        that of the context. The context stays as it is, but for a board where it had none. What an agent does wrong
        costs that agent only. Raises what the engine or the host did wrong, after telling `on_chain_error`. Cancelled,
        it cancels all agents of the phase and merges nothing of it.
        """
        teller = self._teller()
        session = self._sessions.get(context.session_id)
        session.running += 1
        try:
            turn = Turn(self.agents, context, session, self._rules(), self._services(teller))
            metadata = {**context.trigger_metadata, **(trigger_metadata or {})}
            response = await turn.run(TriggerType(trigger_type), metadata, allowed_agent_ids)
            await teller.finish()
            return response
        except Exception as error:
            teller.tell("on_chain_error", error)
            await teller.finish()
            raise
        finally:
            session.running -= 1
            teller.leave()

    def _teller(self) -> Teller:
        return Teller(
            self.callbacks,
            clock=self._timer,
            timeout_s=self.callback_timeout,
            abandoned=self._abandoned,
            hung=self._hung,
        )

    def _rules(self) -> TurnRules:
        return TurnRules(self.max_phases, self.agent_timeout, self.insight_window)

    def _services(self, teller: Teller) -> TurnServices:
        return TurnServices(self._clock, self._timer, self._router, teller, self._abandoned, self._hold)

    # --- approval ----------------------------------------------------------------------------------------------------

    def _hold(self, session_id: str, insight: AgentInsight) -> None:
        held = HeldInsight(new_id(), session_id, insight)
        self._holding.hold(held)
        if self._approvals is not None:
            try:
                self._approvals.ask(held)
            except Exception:
                _log.warning("the port for approvals failed; the insight %s is held", held.held_id, exc_info=True)

    def held_insights(self, session_id: str) -> list[HeldInsight]:
        """The insights of a session that wait for a person, oldest first."""
        return self._holding.of(session_id)

    async def decide(self, held_id: str, *, agreed: bool) -> AgentInsight | None:
        """Decide about a held insight, once: agreed, it is told to `on_insight` and returned. None when it is refused,
        or not held any more."""
        held = self._holding.take(held_id)
        if held is None or not agreed:
            return None
        teller = self._teller()
        teller.tell("on_insight", held.insight, AgentContext(session_id=held.session_id))
        await teller.finish()
        return held.insight

    # --- sessions ----------------------------------------------------------------------------------------------------

    def end_session(self, session_id: str) -> bool:
        """Forget what is kept for a session: cooldowns, private memory, counters, held insights. Whether there was
        any."""
        self._holding.forget(session_id)
        return self._sessions.end(session_id)

    def export_session(self, session_id: str) -> dict[str, Any]:
        """What of a session has to survive a restart beside its board, as JSON; empty for one that is not known.

        The turn counter; for each agent its last start, the starts that its rate limit counts, what it said within
        `insight_window`, its usage, its private memory; the insights that wait for a person.
        """
        session = self._sessions.known(session_id)
        if session is None:
            return {}
        configs = [agent.serving(session_id).config for agent in self.agents]
        return session_json(
            session,
            self._holding.of(session_id),
            Moment.of(self._clock),
            window_s=self.insight_window,
            limits={config.id: config.rate_limit for config in configs if isinstance(config.rate_limit, RateLimit)},
        )

    def import_session(self, session_id: str, data: Any) -> None:
        """Go on with a session as `export_session` described it, in place of what is known of it; the time in between
        counts. Held insights keep their ids, and the port for approvals is not told of them again.

        Never raises, whatever the data is: what is malformed is left out, and nothing of nothing is taken up.
        """
        if not isinstance(data, Mapping) or not data:
            return
        take_up(self._sessions.get(session_id), data, Moment.of(self._clock))
        self._holding.take_up(session_id, held_of(data, session_id))

    def usage(self, session_id: str, agent_id: str | None = None) -> Usage:
        """What the model calls of a session used, of one agent or of all."""
        session, total = self._sessions.known(session_id), Usage()
        for owner, slot in session.agents.items() if session else ():
            if agent_id is None or owner == agent_id:
                total.add(slot.usage)  # None, of an agent that told nothing, adds nothing
        return total

    @property
    def session_count(self) -> int:
        """How many sessions are kept."""
        return len(self._sessions)


def _check_seconds(agent_timeout: float | None, callback_timeout: float, insight_window: float) -> None:
    if agent_timeout is not None and not agent_timeout > 0:
        raise ValueError(
            f"agent_timeout={agent_timeout} lets no agent answer: give seconds above 0, or None for no end"
        )
    for name, seconds in (("callback_timeout", callback_timeout), ("insight_window", insight_window)):
        if not seconds >= 0:
            raise ValueError(f"{name}={seconds} is no time: give seconds, 0 or more")


def _given(**settings: Any) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


def _with_versions(agents: Iterable[BaseAgent]) -> list[BaseAgent]:
    """The agents, with all versions of those that have some."""
    found: list[BaseAgent] = []
    for agent in agents:
        found.append(agent)
        if isinstance(agent, VersionedAgent):
            found += [version.agent for version in agent.versions]
    return found
