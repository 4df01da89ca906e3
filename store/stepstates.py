"""Whole states of steps that were stored as changes: one extra read for a page, however many of its rows need it.

A row holds its state whole, or `changes` and `base`: the iteration whose row holds the state that its chain begins at.
Every row from there on, up to it, has the same base, so a chain is one span of iterations.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

from store.errors import BadRowError
from store.ids import SessionId
from store.statechanges import states_along


class StateRow(Protocol):
    """A step, as far as its state is concerned."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def session_id(self) -> SessionId: ...

    @property
    def iteration(self) -> int: ...

    @property
    def state(self) -> Any: ...

    @property
    def changes(self) -> Any: ...

    @property
    def base(self) -> int | None: ...


RowT = TypeVar("RowT", bound=StateRow)

#: a row of the journal by session and iteration
Place = tuple[SessionId, int]
Read = Callable[[Sequence[Place]], Awaitable[Iterable[RowT]]]


async def with_states(steps: Sequence[RowT], read: Read[RowT]) -> list[RowT]:
    """`steps` with their states whole. `read` fetches the rows of some places; it is called once, or not at all.

    The state is None where a row of the chain is gone (retention) or damaged.
    """
    chains = _chains(steps)
    if not chains:
        return list(steps)
    rows = {_place(step): step for step in reversed(steps)}
    places = {(chain[0], at) for chain, last in chains.items() for at in range(chain[1], last + 1)}
    for row in await read(sorted(places - rows.keys())) if places - rows.keys() else ():
        rows.setdefault(_place(row), row)
    states: dict[Place, Any] = {}
    for (session_id, base), last in chains.items():
        states.update(_rebuilt(rows, session_id, base, last))
    return [dataclasses.replace(step, state=states.get(_place(step))) if is_changes(step) else step for step in steps]


def is_changes(step: StateRow) -> bool:
    """Whether only the changes of the step's state were read."""
    return step.state is None and step.base is not None


def _chains(steps: Iterable[StateRow]) -> dict[Place, int]:
    """The chains that `steps` belong to, by session and base, each with the last iteration that is asked for."""
    last: defaultdict[Place, int] = defaultdict(int)
    for step in steps:
        if step.state is None and step.base is not None:
            chain = (step.session_id, step.base)
            last[chain] = max(last[chain], step.iteration)
    return last


def _rebuilt(rows: Mapping[Place, StateRow], session_id: SessionId, base: int, last: int) -> dict[Place, Any]:
    """The states of one chain, as far as its rows are there and fit."""
    start = rows.get((session_id, base))
    if start is None or start.base is not None:
        return {}
    changes: list[Any] = []
    for at in range(base + 1, last + 1):
        row = rows.get((session_id, at))
        if row is None or row.base != base:
            break
        changes.append(row.changes)
    states: dict[Place, Any] = {}
    try:
        for at, state in enumerate(states_along(start.state, changes), base + 1):
            states[session_id, at] = state
    except BadRowError:
        return states  # what comes behind a damaged row has no state; `state_at` says so
    return states


def _place(step: StateRow) -> Place:
    return step.session_id, step.iteration
