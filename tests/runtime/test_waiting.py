"""Whoever waits for a session is read again when the session is there, however it comes to be."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from runtime.waiting import Waiting
from store.actions import ActionKind
from store.ids import ActionId, SessionId
from tests.store.rows import an_action

S = SessionId("s")


class Reader:
    """Notes which sessions were read again."""

    def __init__(self) -> None:
        self.read: list[SessionId] = []

    def __call__(self, session_id: SessionId, action_ids: Sequence[ActionId]) -> None:
        self.read.append(session_id)


def waiting() -> tuple[Waiting, Reader]:
    found, reader = Waiting(), Reader()
    found.on_resume(reader)
    return found, reader


@pytest.mark.parametrize("kind", [ActionKind.CREATE, ActionKind.FORK])
def test_the_end_of_what_makes_a_session_has_what_came_early_read_again(kind: ActionKind) -> None:
    early, reader = waiting()
    early.await_create(S)
    early.ended(an_action(kind=kind, session_id=S), stored=False)
    assert reader.read == []
    early.ended(an_action(kind=kind, session_id=S), stored=True)
    assert reader.read == [S]


def test_other_actions_wake_nobody() -> None:
    early, reader = waiting()
    early.await_create(S)
    early.ended(an_action(kind=ActionKind.INPUT, session_id=S), stored=True)
    early.ended(an_action(kind=ActionKind.CREATE, session_id=SessionId("other")), stored=True)
    assert reader.read == []


def test_a_create_that_ended_while_an_action_was_parked_has_it_read_again() -> None:
    early, reader = waiting()
    action = an_action(kind=ActionKind.INPUT, session_id=S)
    early.await_create(S)
    early.note_early(action, S)
    early.stop_awaiting(S)  # another action found no open create; this one waits still
    early.ended(an_action(kind=ActionKind.CREATE, session_id=S), stored=True)
    early.ended(action, stored=False)
    assert reader.read == [S, S]
