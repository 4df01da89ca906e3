"""Filters: the store gives exactly the rows that a filter in Python gives, whatever text is put into it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from store import filters
from store.actions import Action, queue_of
from store.actions import ActionKind as Kind
from store.database import Store, TenantStore
from store.enqueueing import NewAction, enqueue_all
from store.ids import AgentId, SessionId, TenantId
from store.jsontext import clean_text
from store.testing import START
from tests.store.values import NASTY, NASTY_TEXT
from tests.support import examples

OTHER = TenantId("other")
COMPARISONS: dict[str, tuple[Callable[..., Any], Callable[[Any, Any], bool]]] = {
    "equals": (filters.equals, operator.eq),
    "differs": (filters.differs, operator.ne),
    "at_least": (filters.at_least, operator.ge),
    "at_most": (filters.at_most, operator.le),
    "above": (filters.above, operator.gt),
    "below": (filters.below, operator.lt),
}


@pytest.fixture
async def nasty(store: Store) -> TenantStore:
    """A queue with one action for each nasty text, of two tenants."""
    for tenant in (store.tenant(), store.tenant(OTHER)):
        new = [NewAction(Kind.INPUT, AgentId(text), SessionId("s"), urgency=at) for at, text in enumerate(NASTY)]
        await enqueue_all(tenant, new)
    return store.tenant()


def agents(actions: list[Action]) -> list[str]:
    return sorted(str(action.agent_id) for action in actions)


def expected(keep: Callable[[str], bool]) -> list[str]:
    return sorted(text for text in map(clean_text, NASTY) if keep(text))


@examples(150)
@given(name=st.sampled_from(sorted(COMPARISONS)), text=NASTY_TEXT)
@example(name="equals", text="' or 1=1 --")
async def test_a_comparison_with_any_text_is_that_of_python(nasty: TenantStore, name: str, text: str) -> None:
    build, compare = COMPARISONS[name]

    found = await queue_of(nasty).find(build("agent_id", text))

    assert agents(found) == expected(lambda stored: compare(stored.encode(), clean_text(text).encode()))


@pytest.mark.parametrize("text", NASTY)
async def test_a_stored_text_is_found_by_itself(nasty: TenantStore, text: str) -> None:
    found = await queue_of(nasty).find(filters.equals("agent_id", text))

    assert agents(found) == expected(lambda stored: stored == clean_text(text))


@examples(60)
@given(st.lists(NASTY_TEXT, min_size=1, max_size=5))
async def test_one_of_any_texts_is_membership(nasty: TenantStore, texts: list[str]) -> None:
    found = await queue_of(nasty).find(filters.one_of("agent_id", texts))

    wanted = {clean_text(text) for text in texts}
    assert agents(found) == expected(lambda stored: stored in wanted)


@examples(60)
@given(NASTY_TEXT)
async def test_any_name_of_a_tenant_sees_only_its_own_rows(nasty: TenantStore, name: str) -> None:
    tenant = TenantId(name)
    found = await queue_of(nasty.store.tenant(tenant)).find()

    assert len(found) == (len(NASTY) if tenant in (nasty.tenant, OTHER) else 0)


@examples(60)
@given(name=st.sampled_from(sorted(COMPARISONS)), number=st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 40))
async def test_a_comparison_of_numbers_is_that_of_python(nasty: TenantStore, name: str, number: int) -> None:
    build, compare = COMPARISONS[name]

    found = await queue_of(nasty).find(build("urgency", number))

    assert sorted(action.urgency for action in found) == [at for at in range(len(NASTY)) if compare(at, number)]


@pytest.mark.parametrize("name", sorted(COMPARISONS))
@pytest.mark.parametrize("shift", [timedelta(0), timedelta(microseconds=1), timedelta(microseconds=-1)])
async def test_times_are_compared_to_the_microsecond(nasty: TenantStore, name: str, shift: timedelta) -> None:
    build, compare = COMPARISONS[name]

    found = await queue_of(nasty).find(build("created_at", START + shift))

    assert bool(found) == compare(START, START + shift)


@examples(60)
@given(text=st.sampled_from(NASTY), number=st.integers(-1, len(NASTY)), descending=st.booleans())
async def test_beyond_is_what_comes_after_a_row_in_the_order_of_two_columns(
    nasty: TenantStore, text: str, number: int, descending: bool
) -> None:
    at = (clean_text(text).encode(), number)
    past = operator.lt if descending else operator.gt

    condition = filters.beyond(("agent_id", "urgency"), (text, number), descending=descending)
    found = await queue_of(nasty).find(condition)

    rows = [(clean_text(stored).encode(), place) for place, stored in enumerate(NASTY)]
    assert sorted(action.urgency for action in found) == sorted(row[1] for row in rows if past(row, at))


async def test_every_condition_must_hold_and_none_is_no_condition(nasty: TenantStore) -> None:
    both = filters.every(filters.above("urgency", 3), None, filters.below("urgency", 6))

    assert filters.every(None) is None
    assert {action.urgency for action in await queue_of(nasty).find(both)} == {4, 5}


async def test_a_condition_cannot_widen_the_tenant_of_a_query(nasty: TenantStore) -> None:
    either = filters.of_tenant(OTHER) | filters.of_tenant(nasty.tenant)

    assert len(await queue_of(nasty).find(either)) == len(NASTY)
    assert await queue_of(nasty).find(filters.of_tenant(OTHER)) == []
