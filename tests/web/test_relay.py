"""The live promise: whoever subscribes, leaves and comes back with a cursor gets every row of the store, and none else.

The clients here follow the rules of docs/architecture.md: keep the newest cursor, drop rows that are known by id. They
lose their connection at any event; what the relay does is the real thing on a real store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import (
    AgentStep,
    SessionStatus,
    TenantStore,
    add_participant,
    agent_pause_action,
    append_agent_step,
    create_conversation,
    mark_action_processed_async,
    post_message,
    upsert_agent_state,
)
from store.agent_events import AgentEvent, append_event
from store.agent_steps import StepStatus, raise_fences
from store.ids import ConversationId, SessionId, StepId, WorkerId
from store.lanes import LaneId
from store.leases import activate_leases, add_leases, claim_leases, list_leases
from store.messages import messages_of, messages_of_step
from tests.support import examples
from tests.web.kit import gathered, opener, state, step
from web.delivery import Sent
from web.problems import RefusedError
from web.relay import Relay
from web.replay import missed
from web.rooms import Room, RoomKind

Run = Callable[[Any], Any]
S1, S2 = Room(RoomKind.SESSION, "s1"), Room(RoomKind.SESSION, "s2")
SESSIONS, QUEUE = Room(RoomKind.SESSIONS), Room(RoomKind.QUEUE)
THREAD = Room(RoomKind.CONVERSATION, "c1")


@pytest.fixture
def relay(db: TenantStore, run: Run) -> Any:
    """A relay of its own, so that the web process's own one does not take the news."""
    made = Relay(db)
    run(made.start())
    yield made
    run(made.stop())


def _steps(events: Sequence[Sent]) -> list[str]:
    return [sent.data["id"] for sent in events if sent.event == "step"]


@dataclass
class Client:
    """A client of one room, as the contract wants it."""

    room: Room
    cursor: str | None = None
    inside: bool = False
    known: list[str] = field(default_factory=list)

    def take(self, events: Sequence[Sent]) -> None:
        """Apply events: new rows are kept in order, the cursor is the newest."""
        for sent in events:
            if sent.event == "step" and sent.data["id"] not in self.known:
                self.known.append(sent.data["id"])
            self.cursor = sent.data["cursor"]

    def enter(self, relay: Relay, run: Run, pages: int = 100) -> None:
        """Subscribe, page by page; it is inside when nothing is left."""
        for _ in range(pages):
            page = run(relay.missed(self.room, self.cursor))
            self.take(page.events)
            self.cursor = page.cursor
            if not page.more:
                self.inside = True
                return


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(st.sampled_from(["s1", "s2"]), min_size=1, max_size=6)),
        st.tuples(st.just("poll"), st.none()),
        st.tuples(st.just("enter"), st.integers(1, 3)),
        st.tuples(st.just("cut"), st.integers(0, 5)),
        st.tuples(st.just("leave"), st.none()),
    ),
    max_size=14,
)


@examples(25)
@given(actions=ACTIONS)
def test_no_row_is_lost_or_doubled_however_a_client_comes_and_goes(
    actions: list[tuple[str, Any]], tmp_path_factory: pytest.TempPathFactory, run: Run
) -> None:
    db = run(opener(tmp_path_factory.mktemp("relay"))())
    relay, client, stored = Relay(db), Client(S1), {"s1": 0, "s2": 0}
    client.cursor = run(relay.missed(S1, None)).cursor
    run(relay.start())
    try:
        for action, value in [*actions, ("enter", 100), ("poll", None)]:
            _do(action, value, relay=relay, client=client, stored=stored, db=db, run=run)
        assert client.known == [f"s1:{n}" for n in range(stored["s1"])]
    finally:
        run(relay.stop())
        run(db.store.close())


def _do(
    action: str, value: Any, *, relay: Relay, client: Client, stored: dict[str, int], db: TenantStore, run: Run
) -> None:
    if action == "append":  # several rows in one commit
        rows = []
        for session in value:
            rows.append(step(session, stored[session]))
            stored[session] += 1
        run(_together(db, rows))
    elif action == "enter":
        client.enter(relay, run, pages=value)
    elif action == "leave":
        client.inside = False
    else:
        batch = run(relay.poll({client.room, S2} if client.inside else {S2}))
        mine = [sent for sent in batch.events if sent.room == client.room]
        assert client.inside or not mine
        if action == "cut":  # the connection breaks after some events of the batch
            mine, client.inside = mine[:value], False
        client.take(mine)


async def _together(db: TenantStore, rows: Sequence[AgentStep]) -> None:
    await gathered(*[append_agent_step(db, row) for row in rows])


def test_rows_of_a_commit_are_in_order_and_only_the_last_moves_the_cursor(
    relay: Relay, db: TenantStore, run: Run
) -> None:
    before = run(relay.missed(S1, None)).cursor
    run(_together(db, [step("s1", n) for n in (2, 0, 1)]))
    events = run(relay.poll({S1})).events
    assert _steps(events) == ["s1:0", "s1:1", "s1:2"]
    cursors = [sent.data["cursor"] for sent in events]
    assert cursors[0] == cursors[1] == before
    assert cursors[2] == run(relay.missed(S1, None)).cursor
    assert _steps(run(relay.missed(S1, cursors[1])).events) == ["s1:0", "s1:1", "s1:2"]
    assert run(relay.missed(S1, cursors[2])).events == () or not run(relay.missed(S1, cursors[2])).events


LANE = LaneId("echo/00")


async def _taken_over(db: TenantStore, epoch: int) -> None:
    """What the new owner of a lane does before anything else."""
    worker = WorkerId(f"w{epoch}")
    await add_leases(db, [LANE])
    await claim_leases(db, [(await list_leases(db))[LANE]], worker, epoch)
    await raise_fences(db, [LANE], epoch)
    await activate_leases(db, {LANE: epoch}, worker, watermark=0)


def test_rows_behind_a_fence_are_neither_sent_live_nor_replayed(relay: Relay, db: TenantStore, run: Run) -> None:
    run(_taken_over(db, 1))
    before = run(relay.missed(S1, None)).cursor
    run(append_agent_step(db, step("s1", 0, lane=LANE, epoch=1)))
    live = list(run(relay.poll({S1})).events)
    run(_taken_over(db, 2))
    live += run(relay.poll({S1})).events  # a fence is nobody's step
    late = [
        step("s1", 1, lane=LANE, epoch=1, text="too late"),
        replace(step("s1", 1, lane=LANE, epoch=2), id=StepId("s1:1:2")),
        step("s1", 2, lane=LANE, epoch=1, text="too late, and nobody's number"),
        step("s2", 0, lane=LaneId("echo/01"), epoch=1),  # a lane that nobody has taken over
    ]
    run(_together(db, late))
    live += run(relay.poll({S1, S2})).events
    seen = [(sent.data["session_id"], sent.data["iteration"], sent.data["text"]) for sent in live]
    assert seen == [("s1", 0, "step 0"), ("s1", 1, "step 1"), ("s2", 0, "step 0")]

    for client in (Client(S1, before), Client(S1, live[0].data["cursor"])):
        client.enter(relay, run)
        assert client.known[-1] == "s1:1:2"
        assert set(client.known) <= {"s1:0", "s1:1:2"}
        assert run(relay.missed(S1, client.cursor)).events == []
    replayed = run(missed(db, S1, before, {}, page_rows=1))
    assert _steps(replayed.events) == ["s1:0"]
    assert replayed.more


def test_what_nobody_follows_is_not_read(relay: Relay, db: TenantStore, run: Run) -> None:
    run(append_agent_step(db, step("s1", 0)))
    assert run(relay.poll(set())).events == []
    run(append_agent_step(db, step("s1", 1)))
    run(append_agent_step(db, step("s2", 0)))
    assert _steps(run(relay.poll({S1})).events) == ["s1:1"]


def test_every_room_gets_its_kinds(relay: Relay, db: TenantStore, run: Run) -> None:
    run(create_conversation(db, conversation_id=ConversationId("c1")))
    run(add_participant(db, ConversationId("c1"), session_id=SessionId("s1")))
    run(upsert_agent_state(db, [state("s1"), state("s2"), state("s3", conversation_id="c1")]))
    run(append_agent_step(db, step("s1", 0)))
    run(append_event(db, AgentEvent("e1", db.clock.now(), SessionId("s1"), 0, 0, "token", {"text": "x"})))
    run(append_event(db, AgentEvent("e2", db.clock.now(), SessionId("s1"), 0, 1, "secret", {})))
    run(post_message(db, ConversationId("c1"), text="hi"))
    run(agent_pause_action(db, session_id=SessionId("s1")))
    events = run(relay.poll({S1, SESSIONS, QUEUE, THREAD})).events
    seen = [(sent.room.name, sent.event, sent.data.get("session_id")) for sent in events]
    assert sorted(seen, key=str) == sorted(
        [
            ("session:s1", "token", "s1"),
            ("session:s1", "step", "s1"),
            ("session:s1", "state", "s1"),
            ("session:s1", "action", "s1"),
            ("conversation:c1", "token", "s1"),
            ("conversation:c1", "message", None),
            ("conversation:c1", "state", "s1"),
            ("conversation:c1", "state", "s3"),
            ("sessions", "state", "s1"),
            ("sessions", "state", "s2"),
            ("sessions", "state", "s3"),
            ("queue", "action", "s1"),
        ],
        key=str,
    )
    contexts = {sent.room.name: sent.data["context"] for sent in events if sent.event == "state"}
    assert contexts == {"session:s1": {"seen": 1}, "conversation:c1": None, "sessions": None}


def _told(number: int, **fields: Any) -> dict[str, Any]:
    return {"insight_id": f"s1:0:1.1.a.{number}", "content": f"Advice {number}.", "expiry": 20, **fields}


def test_insights_reach_the_rooms_of_session_and_thread(relay: Relay, db: TenantStore, run: Run) -> None:
    run(create_conversation(db, conversation_id=ConversationId("c1")))
    run(add_participant(db, ConversationId("c1"), session_id=SessionId("s1")))
    early = AgentEvent("e1", db.clock.now(), SessionId("s1"), 0, 0, "insight", _told(1))
    run(append_event(db, early))
    run(append_event(db, AgentEvent("e2", db.clock.now(), SessionId("s1"), 0, 1, "insight", {"content": "no id"})))
    run(append_event(db, AgentEvent("e3", db.clock.now(), SessionId("s2"), 0, 0, "insight", _told(9))))
    taken = step("s1", 0, text=None, data={"insights": [_told(1), _told(2, status="held"), "junk"]})
    run(append_agent_step(db, taken))
    run(messages_of(db).append_all(messages_of_step(taken, ConversationId("c1"))))
    events = run(relay.poll({S1, THREAD})).events
    seen = [
        (sent.room.name, sent.data["insight_id"], sent.data["stored"]) for sent in events if sent.event == "insight"
    ]
    first, second = _told(1)["insight_id"], _told(2)["insight_id"]
    assert sorted(seen) == sorted(
        [
            (room.name, one, stored)
            for room in (S1, THREAD)
            for one, stored in ((first, False), (first, True), (second, True))
        ]
    )
    sent = next(sent.data for sent in events if sent.event == "insight" and sent.data["stored"])
    assert (sent["session_id"], sent["iteration"], sent["status"]) == ("s1", 0, "shown")
    assert (sent["created_at"], sent["expires_at"]) == ("2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:20.000000Z")
    posted = [sent.data for sent in events if sent.event == "message"]
    assert [(one["event_type"], one["text"]) for one in posted] == [("insight", "Advice 1."), ("insight", "Advice 2.")]
    assert not [sent for sent in events if sent.event == "token"]


def test_a_step_that_failed_tells_no_insight(relay: Relay, db: TenantStore, run: Run) -> None:
    run(append_agent_step(db, step("s1", 0, status=StepStatus.ERROR, error="why", data={"insights": [_told(1)]})))
    assert [sent.event for sent in run(relay.poll({S1})).events] == ["step"]


def test_live_text_of_an_owner_that_was_replaced_is_not_sent(relay: Relay, db: TenantStore, run: Run) -> None:
    lane = LANE
    run(append_event(db, _piece(db, 1, epoch=1, lane=lane)))
    run(append_event(db, _piece(db, 2, epoch=1, lane=LaneId("other"))))
    run(_taken_over(db, 2))
    run(append_event(db, _piece(db, 3, epoch=1, lane=lane)))
    run(append_event(db, _piece(db, 4, epoch=2, lane=lane)))
    sent = [(one.data["data"]["stream"], one.data["epoch"]) for one in run(relay.poll({S1})).events]
    assert sent == [(2, 1), (4, 2)]


def _piece(db: TenantStore, stream: int, *, epoch: int, lane: LaneId) -> AgentEvent:
    data = {"call": 1, "stream": stream, "offset": 0, "text": "x"}
    return AgentEvent(f"e{stream}", db.clock.now(), SessionId("s1"), 0, stream, "token", data, epoch, lane)


def test_who_joins_a_thread_later_is_followed_too(relay: Relay, db: TenantStore, run: Run) -> None:
    run(create_conversation(db, conversation_id=ConversationId("c1")))
    assert run(relay.poll({THREAD})).events == []
    run(add_participant(db, ConversationId("c1"), session_id=SessionId("s1")))
    run(upsert_agent_state(db, [state("s1"), state("s2")]))
    assert [sent.data["session_id"] for sent in run(relay.poll({THREAD})).events] == ["s1"]


def test_changes_are_followed_not_only_new_rows(relay: Relay, db: TenantStore, run: Run) -> None:
    run(upsert_agent_state(db, [state("s1")]))
    action = run(agent_pause_action(db, session_id=SessionId("s1")))
    run(relay.poll({S1}))
    run(upsert_agent_state(db, [state("s1", status=SessionStatus.PAUSED)]))
    run(mark_action_processed_async(db, action.id))
    events = run(relay.poll({S1})).events
    assert {(sent.event, sent.data["status"]) for sent in events} == {("state", "paused"), ("action", "done")}


def test_a_batch_that_could_not_be_sent_comes_again(relay: Relay, db: TenantStore, run: Run) -> None:
    run(append_agent_step(db, step("s1", 0)))
    batch = run(relay.poll({S1}))
    assert _steps(batch.events) == ["s1:0"]
    assert run(relay.poll({S1})).events == []
    relay.rewind(batch)
    assert _steps(run(relay.poll({S1})).events) == ["s1:0"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_a_long_absence_is_replayed_in_pages_that_end_between_commits(db: TenantStore, run: Run, size: int) -> None:
    start = run(missed(db, S1, None, {})).cursor
    stored, n = [], 0
    for group in (1, 3, 1, 2, 1):
        rows = [step("s1", n + k) for k in range(group)]
        stored.append([row.id for row in rows])
        n += group
        run(_together(db, rows))
    run(upsert_agent_state(db, [state("s1")]))
    cursor, seen, pages = start, [], 0
    while True:
        page = run(missed(db, S1, cursor, {}, page_rows=size))
        ids = _steps(page.events)
        assert len(page.events) <= max(size, 3)
        assert all(set(group) <= set(ids) or not set(group) & set(ids) for group in stored), "a commit was split"
        seen += [(sent.event, sent.data.get("id")) for sent in page.events]
        pages += 1
        assert page.cursor != cursor or not page.more, "a page must lead on"
        cursor = page.cursor
        if not page.more:
            break
    assert seen == [*(("step", f"s1:{k}") for k in range(8)), ("state", None)]
    assert pages > 1 or size == 100
    assert cursor == run(missed(db, S1, None, {})).cursor


def test_a_cursor_of_another_room_or_a_future_is_refused(relay: Relay, db: TenantStore, run: Run) -> None:
    run(append_agent_step(db, step("s1", 0)))
    other = run(relay.missed(QUEUE, None)).cursor
    with pytest.raises(RefusedError, match="another room"):
        run(relay.missed(S1, other))
    assert run(relay.missed(S2, run(relay.missed(S1, None)).cursor)).events == []


def test_waiting_ends_with_a_commit_and_with_a_stop(relay: Relay, db: TenantStore, run: Run) -> None:
    run(append_agent_step(db, step("s1", 0)))
    assert run(relay.wait()) is True
    run(relay.stop())
    assert run(relay.wait()) is False


def test_a_state_that_is_stored_as_changes_is_whole_live_and_when_it_was_missed(
    db: TenantStore, relay: Relay, run: Run
) -> None:
    cursor = run(relay.missed(S1, None)).cursor
    states = [{"n": at, "items": list(range(at + 1))} for at in range(5)]
    for at, state_then in enumerate(states):
        changes = {"set": {"n": at}, "in": {"items": {"+": [at]}}} if at else None
        run(append_agent_step(db, step("s1", at, state=state_then, changes=changes, base=0 if at else None)))
        live = [sent.data["state"] for sent in run(relay.poll({S1})).events if sent.event == "step"]
        assert live == [state_then]
    missed_states = [sent.data["state"] for sent in run(relay.missed(S1, cursor)).events if sent.event == "step"]
    assert missed_states == states
    half = run(missed(db, S1, cursor, {}, page_rows=3))
    later = run(missed(db, S1, half.cursor, {}, page_rows=3))
    assert [sent.data["state"] for sent in later.events] == states[3:]
