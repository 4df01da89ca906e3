"""Which steps belong together: those of a turn, and those that a session takes by itself.

    turn        the steps of one `agent_input`, from the one that reads it to the one after which the session waits
    own steps   what a session does without one: from its create, or from a moment that woke it, until it waits or ends

A row of the journal says what it read and whether its turn goes on; so the owner of a step follows from its row and the
row before it. A step that asks a person is not the end of anything: the session goes on with the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from store.agent_steps import AgentStep, StepStatus, is_rollback
from store.ids import ActionId


def owner_of(step: AgentStep, before: AgentStep | None) -> ActionId | None:
    """The input whose turn a step belongs to; None for one that the session took by itself."""
    read = _read(step)
    if is_rollback(step):
        taken: ActionId | None = read.get("turn_taken_back")
        return taken
    if reads_input(step):
        return step.action_id
    here: ActionId | None = read.get("turn")
    return here or goes_on_with(before)


def goes_on_with(step: AgentStep | None) -> ActionId | None:
    """The input whose turn goes on after a step."""
    if step is None or is_rollback(step):
        return None
    turn: ActionId | None = _read(step).get("turn")
    return turn


def reads_input(step: AgentStep) -> bool:
    """Whether an input was handed to the step; posts that a session pulls belong to nobody's turn."""
    read = _read(step)
    return bool(read.get("inputs")) and "pulled_to" not in read


def ends_stretch(step: AgentStep) -> bool:
    """Whether the session waits, or has ended, after the step."""
    return step.status is not StepStatus.RUNNING and not _read(step).get("again")


def of_turn(steps: Sequence[AgentStep], turn: ActionId) -> list[AgentStep]:
    """The steps of a turn among a session's steps, which are in order and without a gap."""
    return [step for step, before in _with_before(steps) if owner_of(step, before) == turn]


@dataclass(frozen=True, slots=True)
class Stretch:
    """What a session did from one wait to the next."""

    #: the iteration that it begins with, as far as it is known
    first: int
    #: whether that is known
    whole: bool
    #: whether its last step says that it is over
    ended: bool
    #: those that belong to no turn
    own: tuple[AgentStep, ...]


def last_stretch(steps: Sequence[AgentStep]) -> Stretch:
    """The stretch that the last of `steps` belongs to; `steps` are in order, without a gap, and at least one."""
    ends = [place for place, step in enumerate(steps[:-1]) if ends_stretch(step)]
    first = ends[-1] + 1 if ends else 0
    own = [step for step, before in _with_before(steps)[first:] if owner_of(step, before) is None]
    whole = bool(ends) or steps[0].iteration == 0
    return Stretch(steps[first].iteration, whole, ends_stretch(steps[-1]), tuple(own))


def _with_before(steps: Sequence[AgentStep]) -> list[tuple[AgentStep, AgentStep | None]]:
    return list(zip(steps, [None, *steps[:-1]], strict=True))


def _read(step: AgentStep) -> dict[str, Any]:
    return step.guidance if isinstance(step.guidance, dict) else {}
