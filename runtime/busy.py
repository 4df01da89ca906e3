"""Double texting: what an input asks for when its session is busy, and which inputs of a session are parked."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from typing import Any

from runtime.errors import RefusedError
from store.actions import Action, WhenBusy
from store.ids import ActionId, SessionId

_MAX_REMEMBERED = 20_000


def when_busy_of(action: Action) -> WhenBusy:
    """What an input asks for; raises `RefusedError` for a word that is none of the four."""
    asked = action.payload.get("when_busy") if isinstance(action.payload, dict) else None
    try:
        return WhenBusy.ENQUEUE if asked is None else WhenBusy(asked)
    except ValueError as error:
        known = ", ".join(WhenBusy)
        raise RefusedError(f"when_busy {asked!r} is not known; give one of: {known}") from error


def guidance_of(action: Action) -> Any:
    """An input as guidance: its text, with its data where there is some."""
    payload = action.payload if isinstance(action.payload, dict) else {}
    text, data = str(payload.get("text") or ""), payload.get("data")
    return text if data is None else {"text": text, "data": data}


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a parked input stands among others."""

    order: tuple[int, str]
    #: it names only its agent, so it is not found by its session
    nameless: bool


class Parked:
    """Inputs that were taken up and had to wait for their session. They are open in the queue, not in memory."""

    def __init__(self) -> None:
        self._inputs: defaultdict[SessionId, dict[ActionId, _Place]] = defaultdict(dict)
        self._deferred: OrderedDict[ActionId, None] = OrderedDict()

    def note(self, action: Action, session_id: SessionId) -> None:
        """An input waits for its session."""
        self._inputs[session_id][action.id] = _Place(_order(action), action.session_id is None)

    def take(self, action: Action, session_id: SessionId) -> None:
        """An input is taken up again."""
        mine = self._inputs.get(session_id, {})
        mine.pop(action.id, None)
        if not mine:
            self._inputs.pop(session_id, None)

    def any_of(self, session_id: SessionId) -> bool:
        """Whether inputs wait for a session."""
        return session_id in self._inputs

    def nameless(self, session_id: SessionId) -> list[ActionId]:
        """Those that name only their agent."""
        return [action_id for action_id, place in self._inputs.get(session_id, {}).items() if place.nameless]

    def defers(self, action: Action, session_id: SessionId) -> bool:
        """Whether an input would overtake older ones that are parked. It is held up once: they may never come back."""
        older = any(place.order < _order(action) for place in self._inputs.get(session_id, {}).values())
        if not older or action.id in self._deferred:
            return False
        self._deferred[action.id] = None
        if len(self._deferred) > _MAX_REMEMBERED:
            self._deferred.popitem(last=False)
        return True


def _order(action: Action) -> tuple[int, str]:
    return -action.urgency, action.id
