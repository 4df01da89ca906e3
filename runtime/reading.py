"""What one step reads: what it read before and has to read again, an interrupt, an input, or what a pulling session
has missed.

Nothing is taken out of the store by reading. The step's row says what it read; until that is stored it is read again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from runtime.contract import Json, StepInput
from runtime.guard.taint import CLEAN, Taint
from runtime.session import Guidance, LiveSession, hops_of, taint_in, taint_row
from runtime.turns import Turn, Turns
from store.actions import Action
from store.conversations import Delivery
from store.database import TenantStore
from store.ids import ActionId
from store.messages import posts_after


@dataclass(frozen=True, slots=True)
class Reading:
    """What one step reads."""

    guidance: Guidance | None = None
    #: the turn that the step begins
    turn: Turn | None = None
    inputs: tuple[StepInput, ...] = ()
    pulled_to: int | None = None
    #: what people answered to the wait that ends with it, by key
    answers: Json = field(default_factory=dict)

    def turn_in(self, session: LiveSession) -> ActionId | None:
        """The turn that the step belongs to."""
        return session.turn if self.turn is None else self.turn.action.id

    def action_in(self, session: LiveSession) -> ActionId | None:
        """The action that the step answers: what it reads, else the turn it belongs to, else the create."""
        if self.guidance is not None:
            return self.guidance.action_id
        if self.turn is not None:
            return self.turn.action.id
        create = session.spec.action_id
        return session.turn or (None if create is None else ActionId(create))

    @property
    def taint(self) -> Taint:
        """Where text from outside in what is read came from."""
        if self.guidance is not None:
            return self.guidance.taint
        return CLEAN if self.turn is None else taint_in(self.turn.action)

    def hops_in(self, session: LiveSession) -> int:
        """How often what the session works on was passed on from one session to another."""
        if self.guidance is not None:
            return self.guidance.hops
        if self.turn is not None:
            return hops_of(self.turn.action)
        return int(session.usage.get("hops", 0))

    def row(self, turn: ActionId | None) -> Json | None:
        """What the step's row keeps of it; `turn` goes on after the step."""
        read: Json = {}
        if self.guidance is not None:
            read["guidance"] = self.guidance.value
        if self.inputs:
            read["inputs"] = [item.model_dump(mode="json", exclude_none=True) for item in self.inputs]
        if turn is not None:
            read["turn"] = turn
        if self.pulled_to is not None:
            read["pulled_to"] = self.pulled_to
        if self.answers:
            read["answers"] = self.answers
        read.update(taint_row(self.taint))
        return read or None


async def next_reading(db: TenantStore, session: LiveSession, turns: Turns, interrupt: Guidance | None) -> Reading:
    """Take what the next step reads. A turn that it begins has begun when this returns; nothing of it is stored."""
    reading = await _next(db, session, turns, interrupt)
    return replace(reading, answers=dict(session.answers)) if session.answers else reading


async def _next(db: TenantStore, session: LiveSession, turns: Turns, interrupt: Guidance | None) -> Reading:
    if session.again:
        return Reading(inputs=tuple(StepInput.model_validate(item) for item in session.again))
    if (turn := turns.cut_short) is not None:
        return _beginning(turn)
    if interrupt is not None:
        return Reading(guidance=interrupt)
    if (turn := turns.next()) is not None:
        turns.begin(turn)
        return _beginning(turn)
    if session.spec.delivery is Delivery.PULL:
        return await _pull(db, session)
    return Reading()


def _beginning(turn: Turn) -> Reading:
    return Reading(turn=turn, inputs=(input_of(turn.action),))


async def _pull(db: TenantStore, session: LiveSession) -> Reading:
    conversation_id = session.identity.conversation_id
    if conversation_id is None:
        return Reading()
    posts, reached = await posts_after(db, conversation_id, session.pulled_to)
    inputs = [
        StepInput(text=post.text or "", data=_object(post.data), sender=post.user_id, message_id=post.message_id)
        for post in posts
    ]
    return Reading(inputs=tuple(inputs), pulled_to=reached)


def input_of(action: Action) -> StepInput:
    """An `agent_input` as its step reads it; what has an odd shape is read as near as can be."""
    payload = action.payload if isinstance(action.payload, dict) else {}
    about = action.metadata if isinstance(action.metadata, dict) else {}
    return StepInput(
        text=str(payload.get("text") or ""),
        data=_object(payload.get("data")),
        sender=_text(about.get("sender")),
        message_id=_text(about.get("message_id")),
    )


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _object(value: Any) -> Json | None:
    if value is None or isinstance(value, dict):
        return value
    return {"value": value}
