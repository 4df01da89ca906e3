"""Tenants: whatever is called in one tenant's name, no row of another is given out, changed or counted.

Both tenants hold rows with the very same ids, so that nothing but the tenant tells them apart.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import store as store_package
from store import (
    actions,
    agent_events,
    agent_requests,
    agent_state,
    agent_steps,
    agent_usage,
    agents,
    budgets,
    cancelling,
    conversations,
    copilot_agents,
    enqueueing,
    filters,
    leases,
    marks,
    messages,
    posting,
    records,
    schedules,
    session_cursors,
    tool_pins,
    workers,
)
from store.actions import ActionFilter, ActionKind, ActionStatus
from store.agent_events import AgentEvent
from store.agent_state import SessionFilter, SessionStatus
from store.agent_steps import StepFilter
from store.budgets import TOTAL
from store.changes import Feed
from store.conversations import Delivery
from store.database import Store, TenantStore
from store.enqueueing import NewAction
from store.errors import StoreError
from store.ids import (
    MAIN_TENANT,
    ActionId,
    AgentId,
    ConversationId,
    MessageId,
    ParticipantId,
    ScheduleId,
    SessionId,
    TenantId,
    UserId,
    WorkerId,
    step_id,
)
from store.lanes import LaneId
from store.limits import Limits
from store.schema import ALL_TABLES
from store.testing import START
from store.timetable import Rule
from tests.store.rows import a_message, a_record, a_state, a_step, a_worker
from tests.support import examples

THEIRS = MAIN_TENANT
MODULES = (
    actions,
    agent_events,
    agent_requests,
    agent_state,
    agent_steps,
    agent_usage,
    agents,
    budgets,
    cancelling,
    conversations,
    copilot_agents,
    enqueueing,
    leases,
    marks,
    messages,
    posting,
    records,
    schedules,
    session_cursors,
    tool_pins,
    workers,
)
S, C, A, K = SessionId("s"), ConversationId("c"), AgentId("agent"), "key"
ACTION = ActionId("action")
LANE = LaneId("echo/00")
SCHEDULE = ScheduleId("schedule")
MESSAGE = MessageId(step_id(S, 0))
SECRET = "THEIRS"

Call = Callable[[TenantStore], Awaitable[Any]]


async def fill(db: TenantStore, mark: str) -> None:
    """One row in every table, with the same ids for every tenant; `mark` is in all of them."""
    fields = {item.name: None for item in dataclasses.fields(actions.Action)}
    known = {"id": ACTION, "created_at": START, "agent_id": A, "session_id": S, "conversation_id": C, "urgency": 0}
    more = {"kind": ActionKind.CREATE, "status": ActionStatus.DEAD, "idempotency_key": K, "attempts": 1}
    action = actions.Action(**{**fields, **known, **more, "processed": True, "payload": mark, "error": mark})  # type: ignore[arg-type]
    step = a_step(text=mark, action_id=ACTION)
    message = dataclasses.replace(a_message(C, step), sender_type=messages.SenderType.USER)
    await asyncio.gather(
        actions.queue_of(db).append(action),
        agents.save_agent(db, A, mark, {}),
        agent_state.upsert_agent_state(
            db, [a_state("s", conversation_id=C, reason=mark, status=SessionStatus.WAITING, wake_at=START)]
        ),
        agent_steps.append_agent_step(db, step),
        records.append_record(db, a_record(result=mark)),
        agent_events.append_event(db, AgentEvent("event", START, S, 0, 0, "token", mark)),
        conversations.create_conversation(db, conversation_id=C, title=mark),
        conversations.add_participant(db, C, session_id=S, agent_id=A, role=mark),
        messages.messages_of(db).append(message),
        session_cursors.save_cursor(db, S, C, 10**6 if mark == SECRET else 1),
        workers.save_worker(db, a_worker(host=mark)),
        leases.leases_of(db).upsert(leases.Lease(LANE, WorkerId("w"), 1, leases.LeaseStatus.ACTIVE, len(mark), START)),
        schedules.schedules_of(db).upsert(a_schedule(mark)),
        budgets.budgets_of(db).append(budgets.Budget("budget", TOTAL, {"tokens": 5}, START, mark)),
        tool_pins.publish_tools(db, [a_tool(mark)]),
        copilot_agents.save_version(db, a_version(mark, based_on=0)),
    )


def a_schedule(mark: str) -> schedules.Schedule:
    """A schedule that is due."""
    return schedules.Schedule(
        schedule_id=SCHEDULE,
        rule={"every_s": 60},
        kind=ActionKind.INPUT,
        payload={"payload": {"text": mark}},
        enabled=True,
        next_at=START,
        last_at=None,
        created_at=START,
        timezone="UTC",
        agent_id=None,
        session_id=S,
        last_action_id=None,
    )


def a_tool(mark: str) -> tool_pins.SeenTool:
    return tool_pins.SeenTool("s_t", "s", "t", mark, mark, {"type": "object"})


def a_version(mark: str, *, based_on: int) -> copilot_agents.NewVersion:
    return copilot_agents.NewVersion("sales", "coach", {"text": mark}, based_on, note=mark)


async def everything(store: Store, tenant: TenantId) -> dict[str, list[dict[str, Any]]]:
    """Every row of a tenant, as it is stored."""
    rows = {}
    for spec in ALL_TABLES:
        found = await store.tables[spec.name].read(filters.of_tenant(tenant))
        rows[spec.name] = sorted(found.to_pylist(), key=str)
    return rows


def wanted_participant() -> conversations.Participant:
    return conversations.Participant(
        participant_id=ParticipantId("c/session/s"),
        conversation_id=C,
        user_id=None,
        agent_id=A,
        session_id=S,
        role="",
        delivery=Delivery.PUSH,
        joined_at=START,
        left_at=None,
    )


async def _send_on(db: TenantStore) -> None:
    await marks.send_on(db, await actions.get_action(db, ACTION), S, LANE, epoch=9)


async def _shown_events(db: TenantStore) -> object:
    return await agent_events.shown_events(db, await agent_events.events_of(db).created_since(0))


async def _shown(db: TenantStore) -> list[Any]:
    rows = await agent_steps.shown_steps(db, await agent_steps.journal_of(db).created_since(0))
    return [row.item for row in rows]


async def _raise(db: TenantStore) -> None:
    await agent_steps.raise_fences(db, [LANE], 9)


async def _fork(db: TenantStore) -> Any:
    return await agent_requests.agent_fork(
        db, source_id=S, iteration=0, agent_id=A, session_id=S, spec={"moniker": "m"}
    )


async def _approve(db: TenantStore) -> Any:
    decision = actions.ApprovalDecision.DONE
    return await agent_requests.approval_action(db, "s:0:0", decision, session_id=S, idempotency_key=K)


async def _claim(db: TenantStore) -> dict[LaneId, Any]:
    return await leases.claim_leases(db, list((await leases.list_leases(db)).values()), WorkerId("x"), 9)


async def _claimed(db: TenantStore) -> None:
    await marks.mark_action_claimed(db, ACTION, attempts=9, owner="x")


# Every public coroutine function of the modules, called with the ids that both tenants use.
CALLS: dict[str, Call] = {
    "enqueueing.enqueue": lambda db: enqueueing.enqueue(db, NewAction(ActionKind.INPUT, idempotency_key=K)),
    "enqueueing.enqueue_all": lambda db: enqueueing.enqueue_all(db, [NewAction(ActionKind.INPUT, idempotency_key=K)]),
    "enqueueing.find_earlier": lambda db: enqueueing.find_earlier(db, K, ActionKind.CREATE),
    "actions.find_by_idempotency_key": lambda db: actions.find_by_idempotency_key(db, K),
    "actions.first_ids_by_key": lambda db: actions.first_ids_by_key(db, [K]),
    "actions.get_action": lambda db: actions.get_action(db, ACTION),
    "actions.find_create": lambda db: actions.find_create(db, S),
    "actions.find_creates_of_agent": lambda db: actions.find_creates_of_agent(db, A),
    "actions.list_actions": lambda db: actions.list_actions(db, ActionFilter()),
    "actions.count_actions": actions.count_actions,
    "actions.count_open_actions": actions.count_open_actions,
    "actions.list_open_actions": actions.list_open_actions,
    "actions.list_open_actions_of_session": lambda db: actions.list_open_actions_of_session(db, S),
    "marks.mark_action_processed_async": lambda db: marks.mark_action_processed_async(db, ACTION, error="x"),
    "marks.mark_action_claimed": _claimed,
    "marks.requeue_action": lambda db: marks.requeue_action(db, ACTION),
    "agent_requests.agent_create": lambda db: agent_requests.agent_create(db, moniker="m", session_id=S, spec={}),
    "agent_requests.agent_input": lambda db: agent_requests.agent_input(db, text="x", session_id=S, idempotency_key=K),
    "agent_requests.agent_interrupt": lambda db: agent_requests.agent_interrupt(
        db, guidance="x", agent_id=A, idempotency_key=K
    ),
    "agent_requests.agent_pause_action": lambda db: agent_requests.agent_pause_action(db, session_id=S),
    "agent_requests.agent_resume_action": lambda db: agent_requests.agent_resume_action(db, session_id=S),
    "agent_requests.agent_destroy_action": lambda db: agent_requests.agent_destroy_action(db, session_id=S),
    "agent_requests.agent_fork": lambda db: _fork(db),
    "agent_requests.approval_action": lambda db: _approve(db),
    "actions.find_open_inputs": lambda db: actions.find_open_inputs(db, S),
    "agent_steps.state_at": lambda db: agent_steps.state_at(db, S, 0),
    "agent_steps.steps_by_id": lambda db: agent_steps.steps_by_id(db, [a_step().id], columns=["text"]),
    "agent_steps.whole_steps": lambda db: agent_steps.whole_steps(db, [a_step()]),
    "posting.pushed_sessions": lambda db: posting.pushed_sessions(db, C),
    "posting.was_posted": lambda db: posting.was_posted(db, K),
    "records.find_record": lambda db: records.find_record(db, S, "s:0:llm:1"),
    "enqueueing.enqueue_together": lambda db: enqueueing.enqueue_together(
        db, NewAction(ActionKind.CREATE, session_id=SessionId("n")), NewAction(ActionKind.INPUT)
    ),
    "enqueueing.find_lane": lambda db: enqueueing.find_lane(db, NewAction(ActionKind.INPUT, session_id=S)),
    "marks.own_open_actions": lambda db: marks.own_open_actions(db, [LANE], 9),
    "marks.send_on": lambda db: _send_on(db),
    "agent_state.own_sessions": lambda db: agent_state.own_sessions(db, [LANE], "x", 9),
    "agent_steps.shown_steps": lambda db: _shown(db),
    "agent_steps.raise_fences": lambda db: _raise(db),
    "leases.list_leases": leases.list_leases,
    "leases.add_leases": lambda db: leases.add_leases(db, [LANE]),
    "leases.claim_leases": lambda db: _claim(db),
    "leases.activate_leases": lambda db: leases.activate_leases(db, {LANE: 9}, WorkerId("w"), watermark=7),
    "leases.release_leases": lambda db: leases.release_leases(db, {LANE: 9}, WorkerId("w"), watermark=7),
    "agent_events.append_event": lambda db: agent_events.append_event(
        db, AgentEvent("event", START, S, 0, 0, "token", "x")
    ),
    "agent_events.append_events": lambda db: agent_events.append_events(
        db, [AgentEvent("e", START, S, 0, 0, "token", "x")]
    ),
    "agent_events.shown_events": lambda db: _shown_events(db),
    "agent_events.running_events": lambda db: agent_events.running_events(db, S, "token", after=-1),
    "agent_events.running_text": lambda db: agent_events.running_text(db, [S], {}),
    "agent_usage.usage_of_agents": lambda db: agent_usage.usage_of_agents(db, [A]),
    "agent_state.upsert_agent_state": lambda db: agent_state.upsert_agent_state(db, [a_state("s", reason="x")]),
    "agent_state.get_agent_state": lambda db: agent_state.get_agent_state(db, session_id=S),
    "agent_state.find_agent_state": lambda db: agent_state.find_agent_state(db, agent_id=A),
    "agent_state.get_agent_states": lambda db: agent_state.get_agent_states(db, [S]),
    "agent_state.list_sessions": lambda db: agent_state.list_sessions(db, SessionFilter()),
    "agent_state.list_sessions_for_agent": lambda db: agent_state.list_sessions_for_agent(db, A),
    "agent_state.list_states_in": lambda db: agent_state.list_states_in(db, list(SessionStatus)),
    "agent_state.list_sleeping": agent_state.list_sleeping,
    "agent_state.count_sessions": agent_state.count_sessions,
    "agent_steps.append_agent_step": lambda db: agent_steps.append_agent_step(db, a_step(iteration=1)),
    "agent_steps.list_agent_steps": lambda db: agent_steps.list_agent_steps(db, StepFilter(), order="asc"),
    "agent_steps.list_agent_steps_since_iteration": lambda db: agent_steps.list_agent_steps_since_iteration(db, S, -1),
    "agent_steps.list_agent_steps_latest": lambda db: agent_steps.list_agent_steps_latest(db, session_id=S),
    "agent_steps.find_step": lambda db: agent_steps.find_step(db, S, 0),
    "agent_steps.find_steps": lambda db: agent_steps.find_steps(
        db, [step_id(S, 0)], ["id", "session_id", "iteration", "lane", "epoch"]
    ),
    "agent_steps.list_steps_since_version": lambda db: agent_steps.list_steps_since_version(db, 0),
    "agent_steps.answered_actions": lambda db: agent_steps.answered_actions(db, [ACTION]),
    "agents.save_agent": lambda db: agents.save_agent(db, A, SECRET.lower(), {}),
    "agents.save_agent_after": lambda db: agents.save_agent_after(db, None, A, "x", {}),
    "agents.find_agents": lambda db: agents.find_agents(db, [A]),
    "agents.find_agent": lambda db: agents.find_agent(db, A),
    "agents.get_agent": lambda db: agents.get_agent(db, A),
    "agents.list_agents": agents.list_agents,
    "conversations.create_conversation": lambda db: conversations.create_conversation(db, conversation_id=C),
    "conversations.find_conversation": lambda db: conversations.find_conversation(db, C),
    "conversations.find_conversations": lambda db: conversations.find_conversations(db, [C]),
    "conversations.get_conversation": lambda db: conversations.get_conversation(db, C),
    "conversations.list_conversations": conversations.list_conversations,
    "conversations.add_participant": lambda db: conversations.add_participant(db, C, session_id=S),
    "conversations.list_participants": lambda db: conversations.list_participants(db, C),
    "conversations.leave_conversation": lambda db: conversations.leave_conversation(db, wanted_participant()),
    "messages.post_message": lambda db: messages.post_message(db, C, text="x", message_id=MESSAGE),
    "messages.find_message": lambda db: messages.find_message(db, MESSAGE),
    "messages.list_messages": lambda db: messages.list_messages(db, C),
    "messages.missing_messages": lambda db: messages.missing_messages(db, [a_message(C, a_step())]),
    "messages.posts_after": lambda db: messages.posts_after(db, C, 0),
    "posting.post_to_conversation": lambda db: posting.post_to_conversation(
        db, C, text="x", user_id=UserId("u"), idempotency_key=K
    ),
    "records.append_record": lambda db: records.append_record(db, a_record(result="x")),
    "records.list_records": lambda db: records.list_records(db, S, 0),
    "session_cursors.find_cursor": lambda db: session_cursors.find_cursor(db, S, C),
    "session_cursors.save_cursor": lambda db: session_cursors.save_cursor(db, S, C, 2),
    "cancelling.withdraw_action": lambda db: cancelling.withdraw_action(db, ACTION),
    "cancelling.cancel_action": lambda db: cancelling.cancel_action(db, ACTION),
    "schedules.add_schedule": lambda db: schedules.add_schedule(
        db, rule=Rule(every_s=60), kind=ActionKind.INPUT, payload={"text": "x"}, session_id=S
    ),
    "schedules.find_schedule": lambda db: schedules.find_schedule(db, SCHEDULE),
    "schedules.get_schedule": lambda db: schedules.get_schedule(db, SCHEDULE),
    "schedules.list_schedules": schedules.list_schedules,
    "schedules.list_enabled": schedules.list_enabled,
    "schedules.enable_schedule": lambda db: schedules.enable_schedule(db, SCHEDULE, enabled=False),
    "schedules.delete_schedule": lambda db: schedules.delete_schedule(db, SCHEDULE),
    "schedules.fire": lambda db: schedules.fire(db, a_schedule("x")),
    "budgets.put_budget": lambda db: budgets.put_budget(db, TOTAL, Limits(tokens=1)),
    "budgets.delete_budget": lambda db: budgets.delete_budget(db, TOTAL),
    "budgets.find_budget": lambda db: budgets.find_budget(db, TOTAL),
    "budgets.get_budget": lambda db: budgets.get_budget(db, TOTAL),
    "budgets.list_changes": lambda db: budgets.list_changes(db, TOTAL),
    "budgets.list_budgets": budgets.list_budgets,
    "budgets.list_own_budgets": budgets.list_own_budgets,
    "tool_pins.list_tool_pins": tool_pins.list_tool_pins,
    "tool_pins.count_waiting_tools": tool_pins.count_waiting_tools,
    "tool_pins.find_tool_pin": lambda db: tool_pins.find_tool_pin(db, "s_t"),
    "tool_pins.get_tool_pin": lambda db: tool_pins.get_tool_pin(db, "s_t"),
    "tool_pins.publish_tools": lambda db: tool_pins.publish_tools(db, [a_tool("x")], trust_new=True),
    "tool_pins.approve_tool": lambda db: tool_pins.approve_tool(db, "s_t", "x"),
    "tool_pins.withdraw_tool": lambda db: tool_pins.withdraw_tool(db, "s_t", "x"),
    "copilot_agents.save_version": lambda db: copilot_agents.save_version(db, a_version("x", based_on=1)),
    "copilot_agents.list_versions": lambda db: copilot_agents.list_versions(db, "sales", "coach"),
    "copilot_agents.get_version": lambda db: copilot_agents.get_version(db, "sales", "coach", 1),
    "copilot_agents.newest_versions": lambda db: copilot_agents.newest_versions(db, "sales"),
    "workers.save_worker": lambda db: workers.save_worker(db, a_worker(host="x")),
    "workers.list_workers": workers.list_workers,
    "changes.Feed created": lambda db: Feed(actions.queue_of(db), "created", 0).poll(),
    "changes.Feed changed": lambda db: Feed(actions.queue_of(db), "changed", 0).poll(),
    "actions.queue_of any": lambda db: actions.queue_of(db).find(
        filters.of_tenant(THEIRS) | filters.at_least("created_at", START - timedelta(days=1))
    ),
}


def public_coroutines() -> set[str]:
    """Every function of the store that takes a tenant and waits for the store."""
    return {
        f"{module.__name__.removeprefix('store.')}.{name}"
        for module in MODULES
        for name, function in vars(module).items()
        if inspect.iscoroutinefunction(function) and function.__module__ == module.__name__ and name[0] != "_"
    }


async def outcome(call: Call, db: TenantStore) -> str:
    """What a call gives, as text; an error of the store is an answer too."""
    try:
        return repr(await call(db))
    except StoreError as error:
        return repr(error)


def test_every_function_is_tried() -> None:
    assert public_coroutines() <= set(CALLS)
    assert {name for name in store_package.__all__ if inspect.iscoroutinefunction(getattr(store_package, name))} <= {
        name.rpartition(".")[2] for name in CALLS
    } | {"open_store"}


def test_every_table_has_rows_in_this_test_or_is_not_used_yet() -> None:
    unused = {"traces", "followers", "memories", "tasks"}

    assert {spec.name for spec in ALL_TABLES} - unused == {
        "schedules",
        "queue",
        "agents",
        "agent_state",
        "agent_steps",
        "records",
        "agent_events",
        "conversations",
        "conversation_participants",
        "conversation_messages",
        "session_cursors",
        "workers",
        "leases",
        "budgets",
        "tool_pins",
        "copilot_agents",
    }


# Table versions are shared by all tenants.
SHOWS_VERSIONS = {
    "agent_events.shown_events",
    "agent_steps.append_agent_step",
    "messages.posts_after",
    "changes.Feed created",
    "changes.Feed changed",
}


@pytest.mark.parametrize("filled", [True, False], ids=["with rows of our own", "without"])
@pytest.mark.parametrize("module", sorted({name.partition(".")[0] for name in CALLS}))
async def test_a_call_is_as_if_there_were_no_other_tenant(
    store: Store, monkeypatch: pytest.MonkeyPatch, module: str, filled: bool
) -> None:
    calls = {name: call for name, call in CALLS.items() if name.startswith(f"{module}.")}
    monkeypatch.setattr(store.ids, "new", lambda: "new-id")

    async def asked(who: str) -> dict[str, str]:
        """What each call is answered, each in the name of a tenant of its own."""
        tenants = {name: store.tenant(TenantId(f"{who} {name}")) for name in calls}
        if filled:
            await asyncio.gather(*[fill(db, "mine") for db in tenants.values()])
        return {name: await outcome(calls[name], db) for name, db in tenants.items()}

    # Given what tenants are answered while nobody has rows with their ids but themselves
    expected = await asked("alone")

    # When another one has such rows, and the calls are made again
    await fill(store.tenant(THEIRS), SECRET)
    before = await everything(store, THEIRS)
    answers = await asked("beside")

    # Then the answers are the same, and the other's rows are as they were
    assert not [name for name, answer in answers.items() if SECRET in answer]
    assert {name: answer for name, answer in answers.items() if name not in SHOWS_VERSIONS} == {
        name: answer for name, answer in expected.items() if name not in SHOWS_VERSIONS
    }
    assert sum(map(len, before.values())) == 17  # one of them says where traces are followed from
    assert await everything(store, THEIRS) == before


@examples(6)
@given(st.lists(st.tuples(st.sampled_from(sorted(CALLS)), st.booleans()), min_size=4, max_size=12))
async def test_any_calls_of_two_tenants_leave_each_as_if_it_were_alone(
    store: Store, calls: list[tuple[str, bool]]
) -> None:
    tenants = [store.tenant(TenantId(store.ids.new())) for _ in range(2)]
    for db in tenants:
        await fill(db, db.tenant)

    for name, first in calls:
        acting, other = tenants if first else tenants[::-1]
        before = await everything(store, other.tenant)
        answer = await outcome(CALLS[name], acting)
        assert other.tenant not in answer
        assert await everything(store, other.tenant) == before
