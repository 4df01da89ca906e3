"""Who is asked in a phase, and why the others are not (spec 2 §7, §8.2, §8.6).

All gates are passed and the cooldown is claimed without an await in between, so turns that overlap cannot start one
agent twice.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from monikers.copilot.agent import AgentConfig, BaseAgent
from monikers.copilot.board import Board
from monikers.copilot.errors import AgentConfigurationError
from monikers.copilot.groups import Groups
from monikers.copilot.models import AgentContext, TriggerType
from monikers.copilot.registry import subscribes
from monikers.copilot.running import Evaluation
from monikers.copilot.sessions import AgentSlot, Moment, Session

_log = logging.getLogger(__name__)


class Conditions(Protocol):
    """Evaluates `trigger_conditions` (spec 2 §7.4)."""

    def evaluate(self, conditions: Any, blackboard: Any, meta: Any, agent_id: str) -> bool:
        """Whether they hold; never raises."""
        ...


class Skip(StrEnum):
    """Why an agent is not asked, in the order in which the gates stand."""

    NOT_ALLOWED = "not_allowed"
    GROUP_OFF = "group_off"
    #: it does not answer to this trigger, or did not subscribe to these events
    TRIGGER = "trigger_type_mismatch"
    SILENCE = "silence_threshold_not_reached"
    COOLDOWN = "cooldown"
    RATE_LIMIT = "rate_limit"
    CONDITIONS = "conditions_not_met"
    #: what was put into its configuration after it was made cannot be understood
    MISCONFIGURED = "misconfigured"


class Asked(NamedTuple):
    """What the agents of one phase are asked about."""

    context: AgentContext
    board: Board
    session: Session
    moment: Moment
    trigger: TriggerType
    metadata: Mapping[str, Any]
    turn_count: int
    phase: int
    event_names: Sequence[str]
    #: None for everybody
    allowed: Collection[str] | None

    @property
    def is_forced(self) -> bool:
        """Whether trigger type, cooldown and conditions do not count."""
        return self.trigger is TriggerType.FORCE

    @property
    def meta(self) -> dict[str, Any]:
        """What conditions may ask of the turn: what the trigger told, under what the engine knows."""
        return {
            **self.metadata,
            "turn_count": self.turn_count,
            "trigger_type": self.trigger.value,
            "phase": self.phase,
            "session_id": self.context.session_id,
        }


class Due(NamedTuple):
    """An agent that is asked, its start claimed."""

    agent: BaseAgent
    #: its place in the merge: ascending priority, then registration
    place: tuple[int, int]
    slot: AgentSlot
    evaluation: Evaluation


#: stands for what a session keeps of an agent that it has never asked; nobody writes it
_UNKNOWN = AgentSlot()
Skipped = Callable[[BaseAgent, Skip], None]


class Router:
    """Passes agents through the gates."""

    def __init__(self, conditions: Conditions, groups: Groups) -> None:
        self._conditions = conditions
        self._groups = groups

    def due(self, agents: Iterable[BaseAgent], asked: Asked, skipped: Skipped) -> list[Due]:
        """The agents that are asked now, in the order of registration; `skipped` is told of each other one.

        In phase 2 only subscribers of the events count as candidates. An agent whose configuration makes no sense costs
        only itself.
        """
        found = []
        for order, registered in enumerate(agents):
            try:
                agent = registered.serving(asked.context.session_id)
                if asked.phase > 1 and not _is_woken(agent, asked):
                    continue
                reason = self._reason(agent, asked)
                if reason is None:
                    found.append(_claimed(agent, order, asked))
                    continue
            except Exception as error:
                _log.warning("%r cannot be asked: correct its configuration: %s", registered.config.id, error)
                agent, reason = registered, Skip.MISCONFIGURED
            skipped(agent, reason)
        return found

    def _reason(self, agent: BaseAgent, asked: Asked) -> Skip | None:
        config, slot = agent.config, asked.session.agents.get(agent.config.id, _UNKNOWN)
        if asked.allowed is not None and config.id not in asked.allowed:
            return Skip.NOT_ALLOWED
        if self._groups.is_off(agent):
            return Skip.GROUP_OFF
        if not asked.is_forced:
            if not _matches(agent, asked):
                return Skip.TRIGGER
            if _is_silence_too_short(agent, asked):
                return Skip.SILENCE
            if not agent.is_cool(slot, config.cooldown_in(asked.context), asked.moment):
                return Skip.COOLDOWN
        if config.rate_limit is not None and not config.rate_limit.allows(slot.starts, asked.moment.monotonic):
            return Skip.RATE_LIMIT
        if not asked.is_forced and not self._hold(agent, asked):
            return Skip.CONDITIONS
        return None

    def _hold(self, agent: BaseAgent, asked: Asked) -> bool:
        conditions = agent.config.trigger_conditions
        if not conditions:
            return True
        try:
            return self._conditions.evaluate(conditions, asked.board, asked.meta, agent.config.id)
        except Exception:
            _log.warning("the conditions of %r raised and count as not met", agent.config.id, exc_info=True)
            return False


def _matches(agent: BaseAgent, asked: Asked) -> bool:
    if asked.phase > 1 or asked.trigger is TriggerType.EVENT:
        return _is_woken(agent, asked)
    return asked.trigger in agent.config.trigger_types


def _is_woken(agent: BaseAgent, asked: Asked) -> bool:
    return TriggerType.EVENT in agent.config.trigger_types and subscribes(agent, asked.event_names)


def _is_silence_too_short(agent: BaseAgent, asked: Asked) -> bool:
    """A host that does not say how long the silence was has decided by itself that it was long enough."""
    duration, threshold = asked.metadata.get("silence_duration"), agent.config.silence_threshold
    if asked.phase > 1 or asked.trigger is not TriggerType.SILENCE or threshold is None:
        return False
    return isinstance(duration, int | float) and duration < threshold


def _claimed(agent: BaseAgent, order: int, asked: Asked) -> Due:
    _check(agent.config)
    slot = asked.session.slot(agent.config.id)
    evaluation = agent.begin(slot, asked.moment)
    if agent.config.rate_limit is not None:
        slot.starts = agent.config.rate_limit.remembered(slot.starts, asked.moment.monotonic)
    return Due(agent, (agent.config.priority, order), slot, evaluation)


def _check(config: AgentConfig) -> None:
    """Raise `AgentConfigurationError` for what would fail later, in the middle of the turn of all."""
    if not isinstance(config.name, str):
        raise AgentConfigurationError(f"the name of {config.id!r} is {config.name!r}: give it a text")
    if not _is_number(config.priority):
        raise AgentConfigurationError(f"the priority of {config.id!r} is {config.priority!r}: give it a number")
    if config.timeout is not None and not _is_number(config.timeout):
        raise AgentConfigurationError(f"the timeout of {config.id!r} is {config.timeout!r}: give it seconds, or None")


def _is_number(value: Any) -> bool:
    return type(value) is int or (isinstance(value, int | float) and not math.isnan(value))
