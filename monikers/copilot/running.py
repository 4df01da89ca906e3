"""Which agent is being evaluated, for which session: what `agent.private_state` and `agent.last_run_time` then mean.

One agent object serves many sessions at once; the running evaluation is found by the task that asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Evaluation:
    """One evaluation of one agent."""

    agent: object
    #: a copy, kept when the evaluation succeeds
    private_state: dict[str, Any]
    #: seconds since 1970 at which the agent started before this, 0 if it never did in this session
    last_run_time: float


_CURRENT: ContextVar[Evaluation | None] = ContextVar("evaluation", default=None)


def own_copy(private_state: dict[str, Any]) -> dict[str, Any]:
    """A copy of an agent's private memory; what cannot be copied, a lock or a connection, is in it as it is. Never
    raises."""
    try:
        return deepcopy(private_state)
    except Exception:
        return {key: _copied_or_itself(value) for key, value in private_state.items()}


def _copied_or_itself(value: Any) -> Any:
    try:
        return deepcopy(value)
    except Exception:
        return value


def evaluation_of(agent: object) -> Evaluation | None:
    """The evaluation that the running task belongs to, if it is one of this agent."""
    current = _CURRENT.get()
    return current if current is not None and current.agent is agent else None


def begin_evaluating(evaluation: Evaluation) -> None:
    """Make `evaluation` that of the running task to its end."""
    _CURRENT.set(evaluation)


@contextmanager
def evaluating(evaluation: Evaluation) -> Iterator[None]:
    """Make `evaluation` that of the running task and of the tasks that it starts."""
    token = _CURRENT.set(evaluation)
    try:
        yield
    finally:
        _CURRENT.reset(token)
