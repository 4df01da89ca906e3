"""What waits for its session: it stays open in the queue, and is read again when the session can take it.

Two kinds wait: inputs whose session is held up (`Parked`), and whatever was asked of a session whose create or fork is
still open. Nothing of this is stored: after a crash every open action is read anyhow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from runtime.busy import Parked
from store.actions import CREATING_KINDS, Action
from store.ids import ActionId, SessionId

Reread = Callable[[SessionId, Sequence[ActionId]], None]


class Waiting:
    """What waits, and who is told to read it again."""

    def __init__(self) -> None:
        self.parked = Parked()
        self._reread: list[Reread] = []
        #: sessions of which something was asked while their create was still open, and the actions that asked
        self._awaited: set[SessionId] = set()
        self._early: dict[ActionId, SessionId] = {}

    def on_resume(self, reread: Reread) -> None:
        """Have `reread` called for each session that goes on or is ended: its parked actions have to be read again."""
        self._reread.append(reread)

    def read_again(self, session_id: SessionId) -> None:
        """Have everything that waits for a session read again."""
        action_ids = self.parked.nameless(session_id)
        for reread in self._reread:
            reread(session_id, action_ids)

    def await_create(self, session_id: SessionId) -> None:
        """From here on the end of the session's create is noticed."""
        self._awaited.add(session_id)

    def stop_awaiting(self, session_id: SessionId) -> None:
        """The session has no open create; it is awaited still if some other action waits for one."""
        if session_id not in self._early.values():
            self._awaited.discard(session_id)

    def note_early(self, action: Action, session_id: SessionId) -> None:
        """An action came before its session's create has ended."""
        self._early[action.id] = session_id

    def ended(self, action: Action, *, stored: bool) -> None:
        """An action is in hand no more; `stored` when it has ended for good."""
        if stored and action.kind in CREATING_KINDS and action.session_id in self._awaited:
            self._awaited.discard(action.session_id)
            self.read_again(action.session_id)
        early_for = self._early.pop(action.id, None)
        if early_for is not None and early_for not in self._awaited:  # the create ended while this one was parked
            self.read_again(early_for)
