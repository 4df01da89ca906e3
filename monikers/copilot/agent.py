"""What an agent is: its configuration, and the one method that it has to write (spec 2 §4.2, §9).

The engine decides who is due and keeps cooldowns, memory and deadlines; `evaluate` is all the agent's own. `process` is
for whoever runs an agent without an engine: it keeps the agent's cooldown and turns an error into an insight.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from monikers.copilot.clock import Clock, MachineClock
from monikers.copilot.errors import AgentConfigurationError
from monikers.copilot.limits import RateLimit
from monikers.copilot.models import (
    DEFAULT_EXPIRY_S,
    AgentContext,
    AgentInsight,
    AgentResponse,
    InsightType,
    TriggerType,
)
from monikers.copilot.running import Evaluation, evaluating, evaluation_of, own_copy
from monikers.copilot.sessions import AgentSlot, Moment, Sessions
from monikers.copilot.telling import Teller

if TYPE_CHECKING:
    from monikers.copilot.callbacks import AgentCallbackHandler

DEFAULT_MODEL = "gpt-4o-mini"
#: a modifier never makes an agent faster than this, in seconds
FASTEST_BY_MODIFIER = 5.0
MAX_ERROR_CHARS = 300


class AgentConfig:
    """When an agent is asked, with what model, and what its word weighs. Everything may be changed at any time.

    Times are in seconds. `timeout` is how long one evaluation may take, None for the engine's. `trigger_interval` is
    for the host that calls `INTERVAL` turns. `groups`, `rate_limit` (within a session) and `needs_approval` are the
    engine's. A list of one may be given as the one. Raises `AgentConfigurationError` for a trigger that is not known.
    """

    def __init__(
        self,
        name: str,
        id: str | None = None,
        trigger_interval: float | None = None,
        cooldown: float = 10,
        model: str = DEFAULT_MODEL,
        trigger_types: Iterable[TriggerType | str] | None = None,
        trigger_keywords: Iterable[str] | None = None,
        silence_threshold: float | None = None,
        priority: int = 0,
        output_format: str = "default",
        trigger_conditions: Mapping[str, Any] | None = None,
        subscribed_events: Iterable[str] | None = None,
        timeout: float | None = None,
        max_tokens: int | None = None,
        model_params: Mapping[str, Any] | None = None,
        *,
        groups: Iterable[str] = (),
        rate_limit: RateLimit | None = None,
        needs_approval: bool = False,
    ) -> None:
        self.name = name
        self.id = id or name.lower().replace(" ", "_")
        self.trigger_interval = trigger_interval
        self.cooldown = cooldown
        self.model = model
        self.trigger_types = _triggers(name, _listed(trigger_types)) or [TriggerType.TURN_BASED]
        self.trigger_keywords = _listed(trigger_keywords)
        self.silence_threshold = silence_threshold
        self.priority = priority
        self.output_format = output_format
        self.trigger_conditions = trigger_conditions
        self.subscribed_events = _listed(subscribed_events)
        self.timeout = timeout
        self.max_tokens = max_tokens
        self.model_params = dict(model_params or {})
        self.groups = _listed(groups)
        self.rate_limit = rate_limit
        self.needs_approval = needs_approval

    def cooldown_in(self, context: AgentContext) -> float:
        """Seconds between two starts, as the context's override for this agent has it."""
        override = context.agent_config_overrides.get(self.id)
        if override is None or not override.cooldown_modifier:
            return self.cooldown
        return max(self.cooldown + override.cooldown_modifier, min(FASTEST_BY_MODIFIER, self.cooldown))


def _listed(named: Iterable[str] | None) -> list[str]:
    """Names as a list; a text alone is one name, not its letters."""
    return [named] if isinstance(named, str) else list(named or ())


def _triggers(name: str, named: Iterable[str]) -> list[TriggerType]:
    try:
        return [TriggerType(one) for one in named]
    except ValueError as error:
        known = ", ".join(TriggerType)
        raise AgentConfigurationError(f"trigger_types of {name!r}: {error}: use {known}") from error


class BaseAgent(ABC):
    """One observer. Write `evaluate`; the same object may be evaluated for many sessions at once.

    `llm` is given by the engine at registration, unless the agent has one: anything with
    `async generate(model=, messages=, ...) -> LLMResult` or `async generate_json(model, messages) -> dict`.
    """

    def __init__(self, config: AgentConfig) -> None:
        self.config = config
        self.llm: Any = None
        self.logger = logging.getLogger(f"Agent.{config.name}")
        self._initial_state: dict[str, Any] = {}
        self._last_run_time = 0.0
        self._resets = 0
        self._alone: Sessions | None = None

    # --- what agents of version 1 read and write ---------------------------------------------------------------------

    @property
    def private_state(self) -> dict[str, Any]:
        """What this agent keeps for itself in the session that it is evaluated for; kept when the evaluation succeeds.

        Outside an evaluation: what it starts with in a session that is new to it.
        """
        evaluation = evaluation_of(self)
        return self._initial_state if evaluation is None else evaluation.private_state

    @private_state.setter
    def private_state(self, state: dict[str, Any]) -> None:
        if not isinstance(state, dict):
            raise TypeError(f"private_state of {self.config.id!r} is a {type(state).__name__}: it has to be a dict")
        evaluation = evaluation_of(self)
        if evaluation is None:
            self._initial_state = state
        else:
            evaluation.private_state = state

    @property
    def first_state(self) -> dict[str, Any]:
        """What the agent starts with in a session that is new to it; not to be changed."""
        return self._initial_state

    @property
    def last_run_time(self) -> float:
        """Seconds since 1970 at which the agent was started before this evaluation in its session, 0 if never.

        Outside an evaluation: the last start in any session. Setting it there holds for all sessions: 0 ends a
        cooldown.
        """
        evaluation = evaluation_of(self)
        return self._last_run_time if evaluation is None else evaluation.last_run_time

    @last_run_time.setter
    def last_run_time(self, seconds: float) -> None:
        evaluation = evaluation_of(self)
        if evaluation is not None:
            evaluation.last_run_time = seconds
        else:
            self._last_run_time = seconds
            self._resets += 1

    # --- for whoever runs it -----------------------------------------------------------------------------------------

    def is_cool(self, session_slot: AgentSlot, cooldown: float, moment: Moment) -> bool:
        """Whether `cooldown` seconds have passed since the start that a session's slot tells of."""
        if session_slot.resets < self._resets:
            return moment.wall - self._last_run_time >= cooldown
        return bool(moment.monotonic - session_slot.started >= cooldown)

    def begin(self, session_slot: AgentSlot, moment: Moment) -> Evaluation:
        """Claim the start of an evaluation: from now on the cooldown runs, whatever becomes of it."""
        kept = self._initial_state if session_slot.private_state is None else session_slot.private_state
        evaluation = Evaluation(self, own_copy(kept) if kept else {}, self._last_start(session_slot))
        session_slot.claim(moment, self._resets)
        self._last_run_time = moment.wall
        return evaluation

    def keep(self, session_slot: AgentSlot, evaluation: Evaluation) -> None:
        """Keep the private memory of an evaluation that succeeded, unless there was none and is none."""
        if evaluation.private_state or session_slot.private_state or self._initial_state:
            session_slot.private_state = evaluation.private_state

    def _last_start(self, session_slot: AgentSlot) -> float:
        return self._last_run_time if session_slot.resets < self._resets else float(session_slot.started_wall)

    async def process(
        self,
        context: AgentContext,
        callbacks: Sequence[AgentCallbackHandler] | None = None,
        *,
        clock: Clock | None = None,
    ) -> AgentResponse | None:
        """Evaluate, unless the cooldown of this session has not passed (then None). An error becomes an ERROR insight.

        Within an engine's turn, which has checked all that, this is `evaluate`.
        """
        if evaluation_of(self) is not None:
            return await self.evaluate(context)
        clock = clock or MachineClock()
        if self._alone is None:
            self._alone = Sessions(clock)
        slot, moment = self._alone.get(context.session_id).slot(self.config.id), Moment.of(clock)
        is_forced = context.trigger_type is TriggerType.FORCE
        if not is_forced and not self.is_cool(slot, self.config.cooldown_in(context), moment):
            return None
        return await self._evaluated_alone(context, slot, moment, Teller.of(callbacks or ()), clock)

    async def _evaluated_alone(
        self, context: AgentContext, slot: AgentSlot, moment: Moment, teller: Teller, clock: Clock
    ) -> AgentResponse | None:
        evaluation = self.begin(slot, moment)
        name, response = self.config.name, None
        teller.tell("on_agent_start", name, context)
        try:
            with evaluating(evaluation):
                response = await self.evaluate(context)
            self.keep(slot, evaluation)
        except Exception as error:
            self.logger.warning("%s failed and gives an ERROR insight instead: %r", name, error)
            teller.tell("on_agent_error", name, error)
            response = AgentResponse(insights=[self.error_insight(error)])
        if response is not None:
            response.source_agent_id = self.config.id
        teller.tell("on_agent_finish", name, response, clock.monotonic() - moment.monotonic)
        await teller.finish()
        return response

    @abstractmethod
    async def evaluate(self, context: AgentContext) -> AgentResponse | None:
        """What the agent has to say about this turn; None for nothing. All it reads is in `context`, all it wants
        changed goes into the response. May raise, which costs this agent its turn and nobody else's."""

    # --- helpers -----------------------------------------------------------------------------------------------------

    def create_insight(
        self,
        content: str,
        type: InsightType = InsightType.SUGGESTION,
        confidence: float = 1.0,
        expiry: int | None = None,
        action_label: str | None = None,
    ) -> AgentInsight:
        """A piece of advice of this agent. `expiry` is in seconds, None for the usual 15."""
        return AgentInsight(
            agent_id=self.config.id,
            agent_name=self.config.name,
            type=type,
            content=content,
            confidence=confidence,
            expiry=DEFAULT_EXPIRY_S if expiry is None else expiry,
            action_label=action_label,
        )

    def serving(self, session_id: str) -> BaseAgent:
        """The agent that a session is really served by; another one where there are versions."""
        return self

    def description(self) -> dict[str, Any]:
        """Everything that makes this agent answer as it does, for the hashes of a replay: kind and configuration. An
        agent with a prompt adds it."""
        return {"kind": type(self).__qualname__, **vars(self.config)}

    def error_insight(self, error: BaseException) -> AgentInsight:
        """What people see when this agent failed."""
        text = f"{self.config.name} failed: {_words_of(error)}"
        insight = self.create_insight(text[:MAX_ERROR_CHARS], InsightType.ERROR)
        insight.metadata = {"exception_type": type(error).__name__}
        return insight


def _words_of(error: BaseException) -> str:
    """What an error says, as text that any encoding takes; its kind if it says nothing or its own code fails."""
    try:
        said = str(error)
    except Exception:
        said = type(error).__name__
    return said.encode("utf-8", "replace").decode() or type(error).__name__
