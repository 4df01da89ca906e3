"""Events and facts: fields, defaults, and that they never change (spec 2 §5.7, §5.8)."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from monikers.copilot import Blackboard, Event, Fact
from monikers.copilot.errors import ReadOnlyError


def test_5_7_fields_of_a_fact() -> None:
    whole = {
        "type": "budget",
        "key": "primary",
        "value": 50_000,
        "confidence": 0.9,
        "source_agent": "extractor",
        "timestamp": 12.5,
    }
    assert Fact(**whole).model_dump() == {**whole, "priority": 0}
    assert (Fact(type="t").key, Fact(type="t").confidence) == (None, 1.0)
    with pytest.raises(ValidationError, match="type"):
        Fact(value=1)  # type: ignore[call-arg]


def test_5_7_the_examples_stand_side_by_side() -> None:
    board = Blackboard()
    for fact in (
        Fact(type="budget", key="primary", value=50000),
        Fact(type="budget", key="secondary", value=20000),
        Fact(type="stakeholder", key="cfo", value="Sarah Chen"),
        Fact(type="stakeholder", key="cto", value="Mike Johnson"),
    ):
        board.add_fact(fact)
    assert [(fact.type, fact.key) for fact in board.facts] == [
        ("budget", "primary"),
        ("budget", "secondary"),
        ("stakeholder", "cfo"),
        ("stakeholder", "cto"),
    ]
    assert board.get_fact("stakeholder", "cto") == Fact(type="stakeholder", key="cto", value="Mike Johnson")


def test_5_8_fields_of_an_event() -> None:
    whole = {"name": "e", "payload": {"a": 1}, "source_agent": "x", "timestamp": 1.5, "id": "one"}
    assert Event(**whole).model_dump() == whole
    assert Event(name="e").model_dump() == {
        "name": "e",
        "payload": {},
        "source_agent": "",
        "timestamp": None,
        "id": None,
    }
    with pytest.raises(ValidationError, match="name"):
        Event(payload={})  # type: ignore[call-arg]


def test_5_8_the_example_needs_no_time() -> None:
    event = Event(name="question_detected", payload={"question": "What is pricing?"}, source_agent="extractor")
    assert event.payload["question"] == "What is pricing?"


@pytest.mark.parametrize("record", [Event(name="e"), Fact(type="t")])
def test_a_record_never_changes(record: Any) -> None:
    with pytest.raises(ValidationError, match="frozen"):
        record.source_agent = "other"


def test_what_a_sealed_record_holds_is_its_own_and_never_changes() -> None:
    held: dict[str, Any] = {"deep": [1]}
    event, fact = Event(name="e", payload=held).sealed(), Fact(type="t", value=held).sealed()
    held["deep"].append(2)
    assert (event.payload, fact.value) == ({"deep": [1]}, {"deep": [1]})
    for inside in (event.payload, fact.value):
        with pytest.raises(ReadOnlyError):
            inside["deep"].append(2)
    assert event.sealed() is event
    assert fact.sealed() is fact
