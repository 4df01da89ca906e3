"""Reading insights out of what a moniker left: leniently, and never raising."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.insights import MAX_EXPIRY_S, Insight, InsightStatus, insight_of, insights_in
from tests.support import examples

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
_FIELDS = st.sampled_from([*Insight.__dataclass_fields__])


def told(**fields: Any) -> dict[str, Any]:
    """An insight as a step has it."""
    return {"insight_id": "i", "content": "Ask why.", **fields}


@pytest.mark.parametrize("data", [None, 3, [], {}, {"insights": None}, {"insights": {"a": 1}}])
def test_a_step_without_a_list_tells_none(data: Any) -> None:
    assert insights_in(data) is None


@pytest.mark.parametrize("junk", [None, "x", [], {}, {"insight_id": "i"}, told(content=" "), told(insight_id=3)])
def test_what_is_no_insight_is_left_out(junk: Any) -> None:
    assert [one.content for one in insights_in({"insights": [junk, told()]}) or ()] == ["Ask why."]


def test_an_id_counts_once_the_last_one() -> None:
    found = insights_in({"insights": [told(content="first"), told(content="last")]})
    assert [one.content for one in found or ()] == ["last"]


@pytest.mark.parametrize(
    ("field", "value", "read"),
    [
        ("confidence", 1.5, 1.0),
        ("confidence", "high", 1.0),
        ("confidence", float("nan"), 1.0),
        ("expiry", -3, 0),
        ("expiry", 10**12, MAX_EXPIRY_S),
        ("expiry", True, 15),
        ("metadata", ["zone"], {}),
        ("action_label", "", None),
        ("status", "held", InsightStatus.HELD),
        ("status", "whatever", InsightStatus.HELD),
        ("status", None, InsightStatus.SHOWN),
        ("type", None, "suggestion"),
    ],
)
def test_a_malformed_field_has_its_default(field: str, value: Any, read: Any) -> None:
    found = insight_of(told(**{field: value}))
    assert found is not None
    assert getattr(found, field) == read


def test_what_is_written_is_read_again() -> None:
    insight = insight_of(told(confidence=0.5, metadata={"zone": "A"}, status="refused", turn=4, phase=2))
    assert insight is not None
    assert insight_of(insight.row()) == insight


@given(_JSON)
@examples(200)
def test_nothing_raises(data: Any) -> None:
    insights_in(data)
    insights_in({"insights": [data]})


@given(_FIELDS, _JSON)
@examples(200)
def test_no_field_raises_and_what_was_read_is_stable(field: str, value: Any) -> None:
    insight = insight_of(told(**{field: value}))
    if insight is not None:
        assert insight_of(insight.row()) == insight
