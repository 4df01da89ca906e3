"""Sessions: one row each, the newest written; lists, counts and what a session in each status refuses."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import timedelta

import pytest

from store.actions import ActionKind
from store.agent_state import (
    FINAL_STATUSES,
    AgentState,
    SessionFilter,
    SessionStatus,
    count_sessions,
    find_agent_state,
    get_agent_state,
    get_agent_states,
    list_sessions,
    list_sessions_for_agent,
    list_sleeping,
    list_states_in,
    refusal,
    states_of,
    upsert_agent_state,
)
from store.database import TenantStore
from store.errors import NotFoundError
from store.ids import AgentId, ConversationId, SessionId
from store.testing import START
from tests.store.rows import a_state


def without_context(state: AgentState) -> AgentState:
    """The listed form of a session."""
    return dataclasses.replace(state, context=None, inbox=None)


S = SessionId("s")


async def test_a_row_comes_back_whole(db: TenantStore) -> None:
    state = a_state(
        result={"é": [1]},
        inbox={"guidance": [{"action_id": "a", "guidance": "x"}], "turn": None},
        wake_at=START + timedelta(microseconds=1),
        last_error="e",
        conversation_id=ConversationId("c"),
    )

    await upsert_agent_state(db, [state])

    assert await get_agent_state(db, session_id=S) == state


async def test_a_session_has_one_row_however_often_it_is_written(db: TenantStore) -> None:
    for iteration in range(4):
        await upsert_agent_state(db, [a_state(iteration=iteration)])
    await asyncio.gather(*[upsert_agent_state(db, [a_state(iteration=iteration)]) for iteration in range(4, 8)])

    assert [state.iteration for state in await states_of(db).find()] == [7]


async def test_many_sessions_are_one_commit(db: TenantStore) -> None:
    before = await states_of(db).version()

    await upsert_agent_state(db, [a_state(f"s{at}") for at in range(50)])

    assert await states_of(db).version() == before + 1
    assert len(await states_of(db).find()) == 50


async def test_of_an_agents_sessions_the_latest_is_given(db: TenantStore) -> None:
    later = a_state("a-later", created_at=START + timedelta(seconds=1))
    await upsert_agent_state(db, [a_state("z-earlier"), later, a_state("other", agent_id=AgentId("other"))])

    assert await get_agent_state(db, agent_id=AgentId("agent")) == later


async def test_an_unknown_session_or_agent_is_not_found(db: TenantStore) -> None:
    assert await find_agent_state(db, session_id=S) is None
    with pytest.raises(NotFoundError, match="no session with id 's'"):
        await get_agent_state(db, session_id=S)
    with pytest.raises(NotFoundError, match="no agent with id 'x'"):
        await get_agent_state(db, agent_id=AgentId("x"))


async def test_several_sessions_are_read_at_once_and_unknown_ones_left_out(db: TenantStore) -> None:
    names = [SessionId(f"s{at}") for at in range(620)]
    await upsert_agent_state(db, [a_state(name) for name in names])

    found = await get_agent_states(db, [*names, SessionId("unknown"), names[0]])

    assert set(found) == set(names)
    assert all(found[name].session_id == name for name in names)
    assert await get_agent_states(db, []) == {}


@pytest.fixture
async def mixed(db: TenantStore) -> list[AgentState]:
    """Sessions of every status, two agents, two threads, two monikers; newest first."""
    states = [
        a_state(
            f"s{at:02d}",
            status=status,
            agent_id=AgentId(f"a{at % 2}"),
            conversation_id=ConversationId(f"c{at % 3}"),
            moniker=("echo", "joke")[at % 2],
            created_at=START + timedelta(seconds=at // 2),
        )
        for at, status in enumerate([*SessionStatus, *SessionStatus])
    ]
    await upsert_agent_state(db, states)
    return states[::-1]


@pytest.mark.parametrize(
    "wanted",
    [
        SessionFilter(),
        SessionFilter(status=SessionStatus.WAITING),
        SessionFilter(agent_id=AgentId("a1")),
        SessionFilter(conversation_id=ConversationId("c2")),
        SessionFilter(moniker="joke"),
        SessionFilter(SessionStatus.DONE, AgentId("a0"), ConversationId("c0"), "echo"),
        SessionFilter(moniker="unknown"),
    ],
)
async def test_the_list_is_newest_first_and_meets_the_filter(
    db: TenantStore, mixed: list[AgentState], wanted: SessionFilter
) -> None:
    found = await list_sessions(db, wanted)

    def meets(state: AgentState) -> bool:
        return all(
            value is None or value == getattr(state, name)
            for name in ("status", "agent_id", "conversation_id", "moniker")
            for value in [getattr(wanted, name)]
        )

    assert list(found.items) == [without_context(state) for state in mixed if meets(state)]
    assert found.next_cursor is None


async def test_the_sessions_of_an_agent_are_listed_in_pages(db: TenantStore, mixed: list[AgentState]) -> None:
    first = await list_sessions_for_agent(db, AgentId("a0"), limit=5)
    rest = await list_sessions_for_agent(db, AgentId("a0"), limit=5, cursor=first.next_cursor)

    names = [state.session_id for state in (*first.items, *rest.items)]
    assert names == [state.session_id for state in mixed if state.agent_id == "a0"]


async def test_every_status_is_counted(db: TenantStore, mixed: list[AgentState]) -> None:
    assert await count_sessions(db) == dict.fromkeys(SessionStatus, 2)


async def test_without_sessions_every_count_is_zero(db: TenantStore) -> None:
    assert await count_sessions(db) == dict.fromkeys(SessionStatus, 0)


async def test_sessions_in_some_statuses_come_whole(db: TenantStore, mixed: list[AgentState]) -> None:
    found = await list_states_in(db, [SessionStatus.RUNNING, SessionStatus.STOPPING])

    wanted = [state for state in mixed if state.status in (SessionStatus.RUNNING, SessionStatus.STOPPING)]
    assert sorted(found, key=lambda state: state.session_id) == wanted[::-1]
    assert await list_states_in(db, []) == []


async def test_only_waiting_sessions_with_a_moment_are_sleeping(db: TenantStore) -> None:
    moment = START + timedelta(hours=1)
    await upsert_agent_state(
        db,
        [
            a_state("sleeps", status=SessionStatus.WAITING, wake_at=moment),
            a_state("waits", status=SessionStatus.WAITING),
            a_state("paused", status=SessionStatus.PAUSED, wake_at=moment),
        ],
    )

    assert [(state.session_id, state.wake_at) for state in await list_sleeping(db)] == [("sleeps", moment)]


@pytest.mark.parametrize("status", SessionStatus)
def test_a_session_has_ended_in_a_final_status(status: SessionStatus) -> None:
    assert a_state(status=status).ended == (status in FINAL_STATUSES)


@pytest.mark.parametrize("kind", ActionKind)
@pytest.mark.parametrize("status", SessionStatus)
def test_what_a_session_refuses(status: SessionStatus, kind: ActionKind) -> None:
    why = refusal("s", status, kind)

    if status not in FINAL_STATUSES or (
        status is SessionStatus.ERROR and kind in (ActionKind.RESUME, ActionKind.DESTROY)
    ):
        assert why is None
    elif status is SessionStatus.ERROR:
        assert why == "session 's' failed; resume it to try its step again, or destroy it"
    else:
        assert why == f"session 's' is {status.value} and cannot be changed; create a new one"
