"""What each kind of action does to a session.

A handler returns when the action's effect is stored. It raises `RefusedError` for an action that cannot be carried out
as asked and `ParkedError` for one that has to wait; the dispatcher marks the row. Handlers are repeatable: an action
whose mark was lost in a crash comes again, and its handler finds what it did before.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from runtime.cancelling import Cancels
from runtime.control import Control
from runtime.creating import Creating
from runtime.inputs import Inputs
from runtime.opening import Opening
from runtime.projector import Projector
from runtime.registry import MonikerCatalogue, Registry
from runtime.rehydration import Recovered
from runtime.waiting import Reread, Waiting
from store.actions import CREATING_KINDS, Action, ActionKind
from store.database import TenantStore
from store.ids import SessionId

Handler = Callable[[Action], Awaitable[None]]


class Handlers:
    """The handlers of one worker."""

    def __init__(
        self,
        *,
        db: TenantStore,
        registry: Registry,
        projector: Projector,
        catalogue: MonikerCatalogue,
        recovered: Recovered,
        stop_grace_s: float,
    ) -> None:
        self._registry = registry
        self._recovered = recovered
        self._waiting = Waiting()
        self.cancels = Cancels(db, registry, recovered)
        opening = Opening(db, registry, projector, self.cancels, self._waiting)
        self._creating = Creating(db, registry, projector, catalogue, recovered, opening)
        self._inputs = Inputs(db, registry, projector, recovered, opening, self._waiting)
        self._control = Control(db, registry, projector, recovered, opening, self._waiting, stop_grace_s=stop_grace_s)

    def on_resume(self, reread: Reread) -> None:
        """Have `reread` called for each session that goes on or is ended: its parked actions have to be read again."""
        self._waiting.on_resume(reread)

    def read_again(self, session_id: SessionId) -> None:
        """A session goes on by itself: have what waits for it read again."""
        self._waiting.read_again(session_id)

    def table(self) -> Mapping[ActionKind, Handler]:
        """The handler of each kind."""
        return {
            ActionKind.CREATE: self._creating.create,
            ActionKind.FORK: self._creating.create,
            ActionKind.INPUT: self._inputs.input,
            ActionKind.INTERRUPT: self._inputs.interrupt,
            ActionKind.PAUSE: self._control.pause,
            ActionKind.RESUME: self._control.resume,
            ActionKind.DESTROY: self._control.destroy,
            ActionKind.APPROVAL: self._control.approval,
            ActionKind.CANCEL: self.cancels.cancel,
        }

    def announce(self, action: Action) -> None:
        """Called when an action is taken up: from here on a new session is its agent's latest."""
        if action.kind in CREATING_KINDS and action.agent_id is not None and action.session_id is not None:
            self._registry.remember_latest(action.agent_id, action.session_id)

    def ended(self, action: Action, *, stored: bool) -> None:
        """Called when an action is in hand no more; `stored` when it has ended for good."""
        self.cancels.forget(action.id)
        if stored:
            self._recovered.forget(action.id)
        else:
            self._recovered.note_tried(action.id)
        self._waiting.ended(action, stored=stored)
