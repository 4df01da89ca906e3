"""The codec: what goes into a table comes out of it again, whatever text or JSON it holds."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from store.actions import CODEC as ACTIONS
from store.actions import ActionKind, ActionStatus
from store.agent_steps import CODEC as STEPS
from store.agent_steps import AgentStep, append_agent_step, find_step, journal_of
from store.codec import RowCodec, clean_row, to_batch
from store.database import TenantStore
from store.errors import BadRowError
from store.ids import MAIN_TENANT, SessionId, step_id
from store.schema import AGENT_STEPS, AGENTS
from tests.store.rows import a_step
from tests.store.values import PLAIN, TEXT
from tests.support import examples

MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))


@dataclasses.dataclass(frozen=True)
class Wrong:
    """Has not the columns of its table."""

    name: str


def cleaned(text: str) -> str:
    """What the store holds for a text: U+FFFD for each lone surrogate."""
    return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)


STEPS_OF_ANY_KIND = st.builds(
    a_step,
    state=PLAIN,
    text=TEXT,
    notes=TEXT | st.none(),
    created_at=MOMENTS,
    latency_ms=st.floats(allow_nan=False),
    epoch=st.integers(0, 2**63 - 1),
)


def as_stored(step: AgentStep) -> AgentStep:
    """The step with text that UTF-8 can hold."""
    notes = None if step.notes is None else cleaned(step.notes)
    return dataclasses.replace(step, text=cleaned(step.text or ""), notes=notes)


@examples(200)
@given(STEPS_OF_ANY_KIND)
def test_a_row_comes_back_from_arrow_as_it_was(step: AgentStep) -> None:
    row = clean_row(STEPS.encoder().encode(step, MAIN_TENANT))

    batch = to_batch(AGENT_STEPS.schema, [row, row])

    assert STEPS.decode(batch.to_pylist()[0]) == as_stored(step)
    assert STEPS.decode_all(pa.Table.from_batches([batch])) == [as_stored(step)] * 2


@examples(25)
@given(STEPS_OF_ANY_KIND)
@example(a_step(state={"a": "\0"}, text="\0\x01\u202e🦜\ud800", notes="", latency_ms=0.1))
async def test_a_row_comes_back_from_the_table_as_it_was(db: TenantStore, step: AgentStep) -> None:
    session = SessionId(db.ids.new())
    step = dataclasses.replace(step, session_id=session, id=step_id(session, 0))

    await append_agent_step(db, step)

    assert await find_step(db, session, 0) == as_stored(step)


def test_encode_and_decode_are_inverse_without_a_table() -> None:
    step = a_step(data={"é": [1, None, "\0"]}, guidance=None)
    row = dict(zip(AGENT_STEPS.schema.names, STEPS.encoder().encode(step, MAIN_TENANT), strict=True))

    assert row["tenant"] == MAIN_TENANT
    assert row["guidance"] is None
    assert STEPS.decode(row) == step


def test_decode_gives_members_of_closed_sets() -> None:
    action = ACTIONS.decode({"kind": "agent_pause", "status": "dead"})

    assert action.kind is ActionKind.PAUSE
    assert action.status is ActionStatus.DEAD


def test_decode_gives_none_for_columns_that_were_not_read() -> None:
    assert STEPS.decode({"id": "s:0"}).text is None
    assert [step.text for step in STEPS.decode_all(pa.table({"id": ["s:0", "s:1"]}))] == [None, None]


def test_a_json_column_that_holds_plain_text_gives_the_text() -> None:
    assert STEPS.decode({"state": "just words"}).state == "just words"


def test_a_dataclass_without_the_columns_of_its_table_is_refused() -> None:
    with pytest.raises(TypeError, match="table agents has"):
        RowCodec(Wrong, AGENTS)


@pytest.mark.parametrize(
    "bad",
    [
        {"iteration": 2**63},
        {"iteration": "three"},
        {"text": 5},
        {"text": b"\xff"},
        {"created_at": "yesterday"},
        {"latency_ms": "slow"},
    ],
)
def test_a_value_that_does_not_fit_its_column_is_a_bad_row(bad: dict[str, Any]) -> None:
    row = STEPS.encoder().encode(dataclasses.replace(a_step(), **bad), MAIN_TENANT)

    with pytest.raises(BadRowError, match="does not fit"):
        to_batch(AGENT_STEPS.schema, [row])


def test_clean_row_touches_only_text() -> None:
    assert clean_row(("a\ud800", 1, None, b"\xff")) == ("a\ufffd", 1, None, b"\xff")


async def test_a_bad_row_is_refused_and_nothing_is_stored(db: TenantStore) -> None:
    with pytest.raises(BadRowError):
        await append_agent_step(db, a_step(iteration=2**63))

    assert await journal_of(db).find() == []
