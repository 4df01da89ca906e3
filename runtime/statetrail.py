"""How a session's state is stored from step to step: whole, or as what changed since the step before.

A small state is stored whole: that costs least. A larger one is a chain: a snapshot, then changes. A new snapshot comes
when the changes together would be longer than the state, or after `MAX_CHANGES`, so that a state is rebuilt from at
most about twice its size. The trail is stored with the session's row and follows the journal as the state does, so a
session that is opened again goes on with its chain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from runtime.contract import Json
from store.agent_steps import AgentStep
from store.jsontext import json_dumps, safe_json_loads
from store.statechanges import changes_between, with_changes
from store.stepstates import is_changes

#: characters of JSON; a smaller state is always stored whole
SMALL = 1024
MAX_CHANGES = 200


class StoredState(NamedTuple):
    """A step's state, and what stands for it in the journal."""

    state: Any
    changes: Json | None = None
    base: int | None = None


@dataclass(slots=True)
class StateTrail:
    """Where a session's chain stands. `base` is None before the first step."""

    base: int | None = None
    #: characters of the changes since the snapshot
    spent: int = 0
    count: int = 0
    #: a small state and its JSON text: the next frame begins with it
    small: tuple[Any, str] | None = None

    def stored(self, before: Json, state: Json) -> StoredState:
        """How to store `state`, which comes after `before`.

        A state that is not small is given back as JSON has it, and shares nothing with what the moniker holds.
        """
        text = json_dumps(state)
        if len(text) < SMALL:
            self.small = (state, text)
            return StoredState(state)
        self.small, plain = None, safe_json_loads(text)
        if self.base is None or self.count >= MAX_CHANGES:
            return StoredState(plain)
        changes = changes_between(_plain(before), plain, text=text)
        if self.spent + len(json_dumps(changes)) > len(text):
            return StoredState(plain)
        return StoredState(plain, changes, self.base)

    def text_of(self, state: Json) -> str:
        """The JSON text of the session's state."""
        small = self.small
        return small[1] if small is not None and small[0] is state else json_dumps(state)

    def follow(self, step: AgentStep) -> None:
        """Take in a committed step."""
        if step.base is None:
            self.base, self.spent, self.count = step.iteration, 0, 0
        else:
            self.base, self.spent, self.count = step.base, self.spent + len(json_dumps(step.changes)), self.count + 1

    def row(self) -> Json | None:
        """What the session's row keeps of it; nothing when its last step was stored whole."""
        return {"base": self.base, "spent": self.spent, "count": self.count} if self.count else None


def trail_of_row(kept: Any, iteration: int) -> StateTrail:
    """The trail of a session whose row was read; `kept` is what `StateTrail.row` gave."""
    if kept:
        return StateTrail(kept["base"], kept["spent"], kept["count"])
    return StateTrail(iteration if iteration >= 0 else None)


def state_after(before: Json, step: AgentStep) -> Json:
    """The state after a step, be it whole or as its row holds it."""
    state = with_changes(before, step.changes or {}) if is_changes(step) else step.state
    return state if isinstance(state, dict) else {}


def _plain(state: Json) -> Any:
    """A small state is kept in memory as the moniker gave it; changes are between what JSON has of both."""
    text = json_dumps(state)
    return safe_json_loads(text) if len(text) < SMALL else state
