"""Pages: a cursor leads on exactly where it was given, and nothing else is taken for one."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.actions import ActionFilter, list_actions
from store.actions import ActionKind as Kind
from store.agent_state import SessionFilter, list_sessions, upsert_agent_state
from store.agent_steps import StepFilter, append_agent_step, journal_of, list_agent_steps
from store.conversations import create_conversation, list_conversations
from store.database import TenantStore
from store.enqueueing import NewAction, enqueue_all
from store.errors import BadFilterError
from store.ids import AgentId, ConversationId, SessionId
from store.messages import list_messages, messages_of
from store.paging import MAX_LIMIT, Order, Page, checked_limit, decode_cursor, encode_cursor
from store.testing import START
from tests.store.rows import a_message, a_state, a_step
from tests.store.values import CLEAN_TEXT, TEXT
from tests.support import examples

MOMENTS = st.datetimes(timezones=st.just(UTC))
NUMBERS = st.integers(-(2**63), 2**63 - 1)
VALUES: dict[type, st.SearchStrategy[Any]] = {
    datetime: MOMENTS,
    str: CLEAN_TEXT.map(lambda text: text[:100]),
    int: NUMBERS,
}
KINDS = st.lists(st.sampled_from([datetime, str, int]), min_size=1, max_size=3)

Ask = Callable[[int, str | None], Awaitable[Page[Any]]]


def raw_cursor(value: Any) -> str:
    """A cursor with a content of one's own choice."""
    return base64.urlsafe_b64encode(orjson.dumps(value)).decode().rstrip("=")


async def walked(ask: Ask, limit: int) -> list[Any]:
    """Every item of a list, page by page."""
    items: list[Any] = []
    cursor = None
    while True:
        page = await ask(limit, cursor)
        items += page.items
        assert len(page.items) <= limit
        if page.next_cursor is None:
            return items
        assert len(page.items) == limit
        cursor = page.next_cursor


# --- cursors ---------------------------------------------------------------------------------------------------------


@examples(200)
@given(st.data())
def test_a_cursor_holds_what_was_put_in(data: st.DataObject) -> None:
    kinds = data.draw(KINDS)
    values = tuple(data.draw(VALUES[kind]) for kind in kinds)

    assert decode_cursor(encode_cursor(values), kinds) == values


@examples(300)
@given(cursor=TEXT, kinds=KINDS)
def test_text_that_is_no_cursor_is_refused(cursor: str, kinds: Sequence[type]) -> None:
    try:
        values = decode_cursor(cursor, kinds)
    except BadFilterError:
        return
    assert [type(value) for value in values] == list(kinds)


@pytest.mark.parametrize(
    "cursor",
    [
        pytest.param("", id="empty"),
        pytest.param("-1", id="number"),
        pytest.param("é", id="not ascii"),
        pytest.param("\ud800", id="not unicode"),
        pytest.param("A" * 10_000, id="huge"),
        pytest.param(raw_cursor(5), id="no list"),
        pytest.param(raw_cursor("2s"), id="text"),
        pytest.param(raw_cursor({"2026-01-01T00:00:00+00:00": 1, "s": 2}), id="object"),
        pytest.param(raw_cursor(["2026-01-01T00:00:00+00:00"]), id="too few"),
        pytest.param(raw_cursor(["2026-01-01T00:00:00+00:00", "s", "s"]), id="too many"),
        pytest.param(raw_cursor(["2026-01-01T00:00:00", "s"]), id="no zone"),
        pytest.param(raw_cursor(["yesterday", "s"]), id="no time"),
        pytest.param(raw_cursor([1, "s"]), id="number for a time"),
        pytest.param(raw_cursor(["2026-01-01T00:00:00+00:00", 1]), id="number for a text"),
        pytest.param(raw_cursor(["2026-01-01T00:00:00+00:00", None]), id="null"),
        pytest.param(raw_cursor(["2026-01-01T00:00:00+00:00", "s"]) + "!", id="with a tail"),
    ],
)
def test_what_is_no_cursor_of_a_list_is_refused_with_a_cure(cursor: str) -> None:
    with pytest.raises(BadFilterError, match="start again without it"):
        decode_cursor(cursor, (datetime, str))


@pytest.mark.parametrize("value", [True, 2**63, 1.0, "1", None])
def test_a_number_in_a_cursor_is_one_that_a_column_can_hold(value: Any) -> None:
    with pytest.raises(BadFilterError):
        decode_cursor(raw_cursor([value]), (int,))


@pytest.mark.parametrize("limit", [0, -1, MAX_LIMIT + 1, 2**70])
def test_a_limit_out_of_range_is_refused_with_the_range(limit: int) -> None:
    with pytest.raises(BadFilterError, match=f"1 to {MAX_LIMIT}"):
        checked_limit(limit)


@pytest.mark.parametrize("limit", [1, MAX_LIMIT])
def test_a_limit_in_range_is_taken(limit: int) -> None:
    assert checked_limit(limit) == limit


# --- every list ------------------------------------------------------------------------------------------------------

COUNT = 7


def every_list(db: TenantStore) -> dict[str, Ask]:
    """Every list of the store that has pages, over what `filled` stored."""
    thread = ConversationId("thread")

    def steps(wanted: StepFilter, order: Order) -> Ask:
        return lambda limit, cursor: list_agent_steps(db, wanted, order=order, limit=limit, cursor=cursor)

    def messages(order: Order) -> Ask:
        return lambda limit, cursor: list_messages(db, thread, order=order, limit=limit, cursor=cursor)

    of_session, of_agent = StepFilter(SessionId("s")), StepFilter(agent_id=AgentId("agent"))
    return {
        "actions": lambda limit, cursor: list_actions(db, ActionFilter(), limit=limit, cursor=cursor),
        "sessions": lambda limit, cursor: list_sessions(db, SessionFilter(), limit=limit, cursor=cursor),
        "conversations": lambda limit, cursor: list_conversations(db, limit=limit, cursor=cursor),
        "messages asc": messages("asc"),
        "messages desc": messages("desc"),
        "steps of a session asc": steps(of_session, "asc"),
        "steps of a session desc": steps(of_session, "desc"),
        "steps of an agent asc": steps(of_agent, "asc"),
        "steps of an agent desc": steps(of_agent, "desc"),
        "all steps desc": steps(StepFilter(), "desc"),
    }


LISTS = [
    "actions",
    "sessions",
    "conversations",
    "messages asc",
    "messages desc",
    "steps of a session asc",
    "steps of a session desc",
    "steps of an agent asc",
    "steps of an agent desc",
    "all steps desc",
]


@pytest.fixture
async def filled(db: TenantStore) -> TenantStore:
    """Seven of everything; some of them share their time."""
    times = [START + timedelta(microseconds=at // 2) for at in range(COUNT)]
    await enqueue_all(db, [NewAction(Kind.INPUT, session_id=SessionId("s")) for _ in range(COUNT)])
    await upsert_agent_state(db, [a_state(f"s{at}", created_at=time) for at, time in enumerate(times)])
    steps = [a_step(iteration=at, created_at=time) for at, time in enumerate(times)]
    for step in steps:
        await append_agent_step(db, step)
        await create_conversation(db)
    await messages_of(db).append_all([a_message("thread", step) for step in steps])
    return db


def key_of(item: Any) -> str:
    """What tells an item of a list from the others."""
    names = ("message_id", "id", "session_id", "conversation_id")
    return str(next(getattr(item, name) for name in names if hasattr(item, name)))


@pytest.mark.parametrize("name", LISTS)
async def test_page_by_page_a_list_gives_every_row_once_in_one_order(filled: TenantStore, name: str) -> None:
    ask = every_list(filled)[name]
    whole = [key_of(item) for item in (await ask(MAX_LIMIT, None)).items]
    assert len(whole) == len(set(whole)) == COUNT

    for limit in (1, 2, 3, COUNT - 1, COUNT, COUNT + 1):
        assert [key_of(item) for item in await walked(ask, limit)] == whole


@pytest.mark.parametrize("name", [name for name in LISTS if name.endswith("asc")])
async def test_down_is_up_turned_around(filled: TenantStore, name: str) -> None:
    lists = every_list(filled)
    up = await walked(lists[name], 2)
    down = await walked(lists[name.replace("asc", "desc")], 3)

    assert [key_of(item) for item in down] == [key_of(item) for item in up][::-1]


async def test_rows_that_come_while_paging_down_do_not_disturb(filled: TenantStore) -> None:
    first = await list_actions(filled, ActionFilter(), limit=3)
    await enqueue_all(filled, [NewAction(Kind.INPUT, session_id=SessionId("s"))])
    rest = await list_actions(filled, ActionFilter(), limit=10, cursor=first.next_cursor)

    assert not {item.id for item in first.items} & {item.id for item in rest.items}
    assert len(first.items) + len(rest.items) == COUNT


async def test_every_list_refuses_a_limit_out_of_range(db: TenantStore) -> None:
    assert list(every_list(db)) == LISTS
    for ask, limit in itertools.product(every_list(db).values(), (0, MAX_LIMIT + 1)):
        with pytest.raises(BadFilterError):
            await ask(limit, None)


CONTENTS: list[Any] = [[], {}, "ab", [None, None], [0, "s"], [2**62, "s"], [-(2**63), "s"]]
CURSORS = [
    *map(raw_cursor, CONTENTS),
    encode_cursor((datetime.min.replace(tzinfo=timezone(timedelta(hours=23))), "")),
    encode_cursor((datetime.max.replace(tzinfo=timezone(timedelta(hours=-23))), "\0")),
    encode_cursor((START, "' or 1=1 --")),
    "nonsense",
]


@pytest.mark.parametrize("name", LISTS)
async def test_a_made_up_cursor_is_refused_or_leads_to_rows_of_the_list(filled: TenantStore, name: str) -> None:
    ask = every_list(filled)[name]
    whole = {key_of(item) for item in (await ask(MAX_LIMIT, None)).items}

    for cursor in CURSORS:
        try:
            page = await ask(3, cursor)
        except BadFilterError:
            continue
        assert {key_of(item) for item in page.items} <= whole


@examples(20)
@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.text("ab'%é", min_size=1, max_size=3)), max_size=12),
    limit=st.integers(1, 5),
    order=st.sampled_from(["asc", "desc"]),
)
async def test_any_rows_come_once_and_in_order_whatever_the_limit(
    db: TenantStore, rows: list[tuple[int, str]], limit: int, order: Order
) -> None:
    agent = AgentId(db.ids.new())
    steps = {}
    for at, (time, session) in enumerate(rows):
        step = a_step(f"{session}-{agent}", at, agent_id=agent, created_at=START + timedelta(microseconds=time))
        steps[step.id] = step
    await journal_of(db).append_all(steps.values())

    wanted = StepFilter(agent_id=agent)
    found = await walked(
        lambda size, cursor: list_agent_steps(db, wanted, order=order, limit=size, cursor=cursor), limit
    )

    in_order = sorted(steps.values(), key=lambda step: (step.created_at, step.id.encode()), reverse=order == "desc")
    assert found == in_order
