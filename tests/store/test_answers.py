"""What may be answered to a question: the rule that the web process and the worker share."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.actions import ApprovalDecision as Decision
from store.answers import Given, decisions_for, expires_at, faults_in, is_late, question_digest
from store.jsontext import json_dumps, safe_json_loads
from tests.support import examples

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def fields_in(item: Any, decision: Decision, **answer: Any) -> list[str]:
    """The fields that are wrong."""
    return [fault.field for fault in faults_in(item, Given(decision, **answer))]


@examples(150)
@given(item=st.dictionaries(st.sampled_from(["kind", "fields", "editable", "expires_at", "about"]), JSON), value=JSON)
def test_no_item_and_no_value_breaks_the_rule(item: dict[str, Any], value: Any) -> None:
    """Whatever a newer version stored: a list of decisions, none of them an error, and a clear answer to each."""
    allowed = decisions_for(item)
    assert len(allowed) in (3, 4)
    for decision in Decision:
        found = faults_in(item, Given(decision, value, result=value))
        assert all(fault.message for fault in found)
        assert ("decision" in {fault.field for fault in found}) == (decision not in allowed)
    is_late(item, datetime(2026, 1, 1, tzinfo=UTC))


@examples(150)
@given(editable=JSON.filter(lambda value: value is not None))
def test_what_is_editable_may_be_left_as_it_is(editable: Any) -> None:
    assert fields_in({"editable": editable}, Decision.EDIT, value=editable) == []
    assert fields_in({"editable": editable}, Decision.APPROVE) == []


@pytest.mark.parametrize(
    ("editable", "value", "wrong"),
    [
        ("a", "", []),
        ("a", 1, ["value"]),
        (1, 2.5, []),
        (1, True, ["value"]),
        (True, 0, ["value"]),
        (["a"], [], []),
        (["a"], ["b", "c"], []),
        (["a"], ["b", None], ["value.1"]),
        (["a", 1], [2, "b", None], ["value.2"]),
        ([{"n": 1}, {"n": "x"}], [{"n": "y"}, {"n": 2}, {"n": []}], ["value.2.n"]),
        ({"to": "x", "n": 1}, {"to": "y"}, []),
        ({"to": "x", "n": 1}, {"to": "y", "n": "1", "more": 1}, ["value.n"]),
        ({"to": {"a": [1]}}, {"to": {"a": ["x"]}}, ["value.to.a.0"]),
        ({"to": None}, {"to": [1]}, []),
    ],
)
def test_a_change_keeps_the_form_of_what_is_changed(editable: Any, value: Any, wrong: list[str]) -> None:
    assert fields_in({"editable": editable}, Decision.EDIT, value=value) == wrong


@examples(150)
@given(question=st.fixed_dictionaries({"kind": st.just("plan"), "question": st.text(max_size=9), "about": JSON}))
def test_a_digest_is_the_same_after_the_store_and_another_for_another_question(question: dict[str, Any]) -> None:
    stored = safe_json_loads(json_dumps(question))
    digest = question_digest(question)
    assert question_digest(stored) == digest
    assert question_digest({**question, "asked_at": "now", "id": "x", "timeout_s": 5}) == digest
    assert question_digest({**question, "question": f"{question['question']} "}) != digest


def test_an_answer_is_late_from_the_moment_on() -> None:
    ends = datetime(2026, 1, 1, 12, tzinfo=UTC)
    item = {"expires_at": ends.isoformat()}
    assert expires_at(item) == ends
    assert [is_late(item, ends + timedelta(microseconds=n)) for n in (-1, 0, 1)] == [False, True, True]
    for odd in (None, "", "tomorrow", 5, "2026-01-01T00:00:00"):
        assert expires_at({"expires_at": odd}) is None
