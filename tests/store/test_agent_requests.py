"""What is asked of agents and sessions: an action of its kind, about somebody; a session is created once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from store.actions import Action, ActionKind, list_open_actions
from store.agent_requests import (
    agent_create,
    agent_destroy_action,
    agent_input,
    agent_interrupt,
    agent_pause_action,
    agent_resume_action,
)
from store.database import TenantStore
from store.errors import BadFilterError, ConflictError
from store.ids import AgentId, SessionId
from store.marks import mark_action_processed_async

S = SessionId("s")


# --- about a session -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "kind", "payload"),
    [
        (
            lambda db: agent_input(db, text="hi", data={"n": 1}, session_id=S),
            ActionKind.INPUT,
            {"text": "hi", "data": {"n": 1}},
        ),
        (lambda db: agent_interrupt(db, guidance=["go"], session_id=S), ActionKind.INTERRUPT, {"guidance": ["go"]}),
        (lambda db: agent_pause_action(db, session_id=S), ActionKind.PAUSE, {}),
        (lambda db: agent_resume_action(db, session_id=S), ActionKind.RESUME, {}),
        (lambda db: agent_destroy_action(db, session_id=S), ActionKind.DESTROY, {}),
    ],
)
async def test_each_request_about_a_session_is_an_action_of_its_kind(
    db: TenantStore, ask: Callable[[TenantStore], Awaitable[Action]], kind: ActionKind, payload: Any
) -> None:
    action = await ask(db)

    assert (action.kind, action.session_id, action.payload) == (kind, S, payload)
    assert await list_open_actions(db) == [action]


@pytest.mark.parametrize(
    "ask",
    [
        lambda db: agent_input(db, text="hi"),
        lambda db: agent_interrupt(db, guidance="hi"),
        agent_pause_action,
        agent_resume_action,
        agent_destroy_action,
    ],
)
async def test_a_request_about_no_session_is_refused(
    db: TenantStore, ask: Callable[[TenantStore], Awaitable[Action]]
) -> None:
    with pytest.raises(BadFilterError, match="needs a session_id or an agent_id"):
        await ask(db)

    assert await list_open_actions(db) == []


async def test_a_request_to_an_agent_names_no_session(db: TenantStore) -> None:
    action = await agent_pause_action(db, agent_id=AgentId("a"))

    assert (action.agent_id, action.session_id) == ("a", None)


# --- creating --------------------------------------------------------------------------------------------------------


async def test_create_makes_the_ids_that_were_not_given(db: TenantStore) -> None:
    action = await agent_create(db, moniker="echo", spec={"task": "t"})

    assert action.agent_id == "echo"
    assert action.session_id not in (None, str(action.id))
    assert action.payload == {"moniker": "echo", "task": "t"}


async def test_a_second_create_of_a_session_is_a_conflict_and_stores_nothing(db: TenantStore) -> None:
    first = await agent_create(db, moniker="echo", session_id=S, spec={})

    with pytest.raises(ConflictError, match=r"session_id 's' is already in use; leave it out"):
        await agent_create(db, moniker="echo", session_id=S, spec={}, idempotency_key="other")

    assert await list_open_actions(db) == [first]


async def test_a_create_is_a_conflict_also_when_the_first_one_is_processed(db: TenantStore) -> None:
    first = await agent_create(db, moniker="echo", session_id=S, spec={})
    await mark_action_processed_async(db, first.id)

    with pytest.raises(ConflictError):
        await agent_create(db, moniker="echo", session_id=S, spec={})


async def test_a_create_asked_again_with_its_key_gives_the_first_answer(db: TenantStore) -> None:
    ask = [agent_create(db, moniker="echo", session_id=S, spec={}, idempotency_key="k") for _ in range(2)]

    assert await ask[0] == await ask[1]
