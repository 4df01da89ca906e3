"""From a model's answer to a response (spec 2 §10.1 to §10.3, appendix D): mended, left out, kept."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monikers.copilot.answers import Reading, read_answer
from monikers.copilot.formats import output_schema
from monikers.copilot.models import AgentInsight, AgentResponse, InsightType
from tests.support import examples

GOOD = {
    "has_insight": True,
    "content": "Ask for the date.",
    "type": "warning",
    "confidence": 0.5,
    "expiry": 30,
    "action_label": "Ask",
    "metadata": {"zone": "A"},
    "events": [{"name": "asked", "payload": {"q": 1}}],
    "variable_updates": {"phase": "closing"},
    "queue_pushes": {"todo": ["one", "two"]},
    "facts": [{"type": "budget", "key": "first", "value": 5, "confidence": 0.9}],
    "memory_updates": {"seen": 1},
}


def read(raw: Any, named: Any = "default") -> Reading:
    """An answer of the agent `coach`."""
    return read_answer(raw, output_schema(named), agent_id="coach", agent_name="Coach")


def response(raw: Any, named: Any = "default") -> AgentResponse:
    return read(raw, named).response


def insight(raw: Any, named: Any = "default") -> AgentInsight:
    (only,) = response(raw, named).insights
    return only


def updates(found: AgentResponse) -> dict[str, Any]:
    """What a response changes, without the insights."""
    return {
        "events": [(event.name, event.payload, event.source_agent) for event in found.events],
        "variables": found.variable_updates,
        "queues": found.queue_pushes,
        "facts": [(fact.type, fact.key, fact.value, fact.confidence) for fact in found.facts],
        "memory": found.memory_updates,
    }


ALL_UPDATES = {
    "events": [("asked", {"q": 1}, "coach")],
    "variables": {"phase": "closing"},
    "queues": {"todo": ["one", "two"]},
    "facts": [("budget", "first", 5, 0.9)],
    "memory": {"seen": 1},
}


# --- what is right is read -------------------------------------------------------------------------------------------


def test_a_whole_answer_of_the_default_format() -> None:
    found = response(GOOD)
    assert updates(found) == ALL_UPDATES
    (said,) = found.insights
    assert (said.agent_id, said.agent_name, said.type, said.content) == (
        "coach",
        "Coach",
        InsightType.WARNING,
        "Ask for the date.",
    )
    assert (said.confidence, said.expiry, said.action_label, said.metadata) == (0.5, 30, "Ask", {"zone": "A"})
    assert found.source_agent_id == "coach"
    assert read(GOOD).problems == []


@pytest.mark.parametrize("key", ["content", "message"])
def test_default_takes_content_or_message(key: str) -> None:
    assert insight({"has_insight": True, key: "Hello"}).content == "Hello"


@pytest.mark.parametrize("check", [False, None, "false", "no", 0, ""])
def test_without_something_to_say_the_updates_count(check: Any) -> None:
    found = response({**GOOD, "has_insight": check})
    assert found.insights == []
    assert updates(found) == ALL_UPDATES


def test_a_missing_check_says_nothing() -> None:
    assert response({"content": "Hello"}).insights == []
    assert len(response({"has_insight": "true", "content": "Hello"}).insights) == 1


def test_the_example_of_7_2() -> None:
    payload = {"question": "What is your pricing?", "speaker": "CUSTOMER"}
    found = response({"has_insight": False, "events": [{"name": "question_detected", "payload": payload}]}, "v2_events")
    assert updates(found)["events"] == [("question_detected", payload, "coach")]
    assert found.insights == []


def test_v2_raw_has_the_insight_under_its_key() -> None:
    raw = {"insight": {"content": "Wait.", "type": "praise"}, "state_snapshot": {"a": 1}, "variable_updates": {"b": 2}}
    assert insight(raw, "v2_raw").type is InsightType.PRAISE
    assert response(raw, "v2_raw").variable_updates == {"a": 1, "b": 2}
    assert response({"insight": None, "events": ["e"]}, "v2_raw").insights == []
    assert [event.name for event in response({"insight": None, "events": ["e"]}, "v2_raw").events] == ["e"]


def test_v2_raw_several_insights_or_only_words() -> None:
    raw = {"insight": [{"content": "One."}, {"content": "Two."}]}
    assert [one.content for one in response(raw, "v2_raw").insights] == ["One.", "Two."]
    assert insight({"insight": "Only words."}, "v2_raw").content == "Only words."
    assert insight({"content": "Flat after all."}, "v2_raw").content == "Flat after all."


def test_widget_control_puts_its_actions_beside() -> None:
    actions = [{"target_widget": "goals", "action": "set", "payload": {}}]
    found = response({"ui_actions": actions}, "widget_control")
    assert found.data == {"ui_actions": actions}
    assert found.insights == []


def test_custom_mapping_of_d6() -> None:
    mapping = {
        "content_field": "message",
        "type_field": "kind",
        "metadata_fields": {"category": "category", "suggested_response": "script"},
        "state_field": "state",
        "queue_field": None,
    }
    raw = {
        "message": "Hello",
        "kind": "fact",
        "category": "c",
        "script": "s",
        "state": {"a": 1},
        "queue_pushes": {"q": [1]},
    }
    found = response(raw, {"instruction": "", "mapping": mapping})
    assert found.insights[0].type is InsightType.FACT
    assert found.insights[0].metadata == {"category": "c", "suggested_response": "s"}
    assert found.variable_updates == {"a": 1}
    assert found.queue_pushes == {}


#: every key of a mapping in §10.1 (and ours), with a value of the field and what is read of it
MAPPED: list[tuple[str, Any, Any]] = [
    ("check_field", True, lambda found: len(found.insights) == 1),
    ("content_field", "Said so.", lambda found: found.insights[0].content == "Said so."),
    ("type_field", "praise", lambda found: found.insights[0].type is InsightType.PRAISE),
    ("confidence_field", 0.25, lambda found: found.insights[0].confidence == 0.25),
    ("expiry_field", 7, lambda found: found.insights[0].expiry == 7),
    ("action_label_field", "Go", lambda found: found.insights[0].action_label == "Go"),
    ("metadata_field", {"zone": "A"}, lambda found: found.insights[0].metadata == {"zone": "A"}),
    ("events_field", [{"name": "e"}], lambda found: [one.name for one in found.events] == ["e"]),
    ("state_field", {"x": 1}, lambda found: found.variable_updates == {"x": 1}),
    ("queue_field", {"q": [1]}, lambda found: found.queue_pushes == {"q": [1]}),
    ("facts_field", [{"type": "t", "value": 1}], lambda found: [one.type for one in found.facts] == ["t"]),
    ("memory_field", {"m": 1}, lambda found: found.memory_updates == {"m": 1}),
    ("data_field", {"d": 1}, lambda found: found.data == {"somewhere else": {"d": 1}}),
]


@pytest.mark.parametrize("root", [None, "inner"])
@pytest.mark.parametrize(("key", "value", "is_read"), MAPPED, ids=[row[0] for row in MAPPED])
def test_10_1_a_mapping_says_where_each_field_stands(key: str, value: Any, is_read: Any, root: str | None) -> None:
    mapping: dict[str, Any] = {"content_field": "words", key: "somewhere else", "root_key": root}
    inside = key in ("content_field", "type_field", "confidence_field", "expiry_field", "action_label_field")
    answer: dict[str, Any] = {"words": "Hello."}
    if root and inside:
        answer["somewhere else"] = value
    whole = {root: answer} if root else answer
    if not (root and inside):
        (answer if key == "metadata_field" else whole)["somewhere else"] = value
    assert is_read(response(whole, {"mapping": mapping}))
    switched_off = response(whole, {"mapping": {**mapping, key: None}})
    if key != "check_field":
        assert not switched_off.insights or not is_read(switched_off)


def test_5_8_the_id_of_an_event_is_kept() -> None:
    events = [{"name": "a", "id": "one"}, {"name": "b", "id": 5}, {"name": "c"}]
    assert [event.id for event in response({"events": events}).events] == ["one", None, None]


def test_version_1_formats_write_memory_by_the_state_field() -> None:
    mapping = {"check_field": "has_insight", "content_field": "message", "state_field": "memory_updates"}
    found = response({"has_insight": False, "memory_updates": {"n": 1}}, {"mapping": mapping})
    assert (found.memory_updates, found.variable_updates) == ({"n": 1}, {})
    assert response({"state_updates": {"memory_other": {"x": 1}}}).state_updates == {"memory_other": {"x": 1}}


# --- a malformed field costs that field (PEERS 2.6) ------------------------------------------------------------------

MENDED: list[tuple[str, Any, Any]] = [
    ("type", "WARNING ", InsightType.WARNING),
    ("type", None, InsightType.SUGGESTION),
    ("type", "advice", InsightType.SUGGESTION),
    ("type", 5, InsightType.SUGGESTION),
    ("type", ["warning"], InsightType.SUGGESTION),
    ("type", "error", InsightType.WARNING),
    ("confidence", 1.5, 1.0),
    ("confidence", -1, 0.0),
    ("confidence", "0.8", 0.8),
    ("confidence", "80 %", 0.8),
    ("confidence", "high", 1.0),
    ("confidence", None, 1.0),
    ("confidence", True, 1.0),
    ("confidence", float("nan"), 1.0),
    ("confidence", 10**400, 1.0),
    ("expiry", "20", 20),
    ("expiry", -5, 1),
    ("expiry", 1e9, 86_400),
    ("expiry", "soon", 15),
    ("action_label", 5, None),
    ("action_label", " ", None),
    ("metadata", ["a"], {}),
    ("metadata", None, {}),
    ("content", ["Two", "parts."], "Two parts."),
    ("content", 42, "42"),
    ("content", "x" * 10_000, "x" * 3_999 + "…"),
    ("content", "half \ud800", "half ?"),
]


@pytest.mark.parametrize(("field", "value", "mended"), MENDED, ids=[f"{row[0]}-{n}" for n, row in enumerate(MENDED)])
def test_a_field_of_the_insight_is_mended(field: str, value: Any, mended: Any) -> None:
    said = insight({**GOOD, field: value})
    assert getattr(said, field) == mended
    assert updates(response({**GOOD, field: value})) == ALL_UPDATES
    untouched = {"content", "type", "confidence", "expiry", "action_label", "metadata"} - {field}
    whole = insight(GOOD)
    assert {name: getattr(said, name) for name in untouched} == {name: getattr(whole, name) for name in untouched}


@pytest.mark.parametrize("words", ["", "x", " ", None, {}, {"text": "deep"}, [], [1], True])
def test_words_that_cannot_be_shown_cost_the_insight_alone(words: Any) -> None:
    found = response({**GOOD, "content": words})
    assert found.insights == []
    assert updates(found) == ALL_UPDATES


BROKEN: list[tuple[str, Any, str, Any]] = [
    ("events", {"name": "one", "payload": {"a": 1}}, "events", [("one", {"a": 1}, "coach")]),
    ("events", "one", "events", [("one", {}, "coach")]),
    (
        "events",
        ["one", {"payload": {}}, 5, None, {"name": "two", "payload": 3}],
        "events",
        [("one", {}, "coach"), ("two", {"value": 3}, "coach")],
    ),
    ("events", {"one": {"a": 1}}, "events", [("one", {"a": 1}, "coach")]),
    ("events", [{"name": None}, {"name": " "}, {"name": ["x"]}], "events", []),
    ("variable_updates", ["a"], "variables", {}),
    ("variable_updates", None, "variables", {}),
    (
        "queue_pushes",
        {"a": "one", "b": [1], "c": None, "d": {"x": 1}},
        "queues",
        {"a": ["one"], "b": [1], "c": [], "d": [{"x": 1}]},
    ),
    ("queue_pushes", "todo", "queues", {}),
    ("facts", {"type": "budget", "value": 5}, "facts", [("budget", None, 5, 1.0)]),
    ("facts", {"budget": 5}, "facts", [("budget", None, 5, 1.0)]),
    (
        "facts",
        [{"value": 5}, {"type": "a"}, "b", {"type": "c", "value": 1, "confidence": 7, "key": 3}],
        "facts",
        [("c", "3", 1, 1.0)],
    ),
    ("facts", [{"type": "a", "value": 0, "confidence": "sure", "key": ""}], "facts", [("a", None, 0, 1.0)]),
    ("memory_updates", "remember", "memory", {}),
]


@pytest.mark.parametrize(
    ("field", "value", "kind", "left"), BROKEN, ids=[f"{row[0]}-{n}" for n, row in enumerate(BROKEN)]
)
def test_a_broken_update_costs_that_update(field: str, value: Any, kind: str, left: Any) -> None:
    found = response({**GOOD, field: value})
    assert updates(found) == {**ALL_UPDATES, kind: left}
    assert len(found.insights) == 1


def test_a_list_at_the_top_counts_as_all_its_answers() -> None:
    second = {"has_insight": True, "message": "Second.", "variable_updates": {"x": 1}}
    found = response([GOOD, "noise", second])
    assert [one.content for one in found.insights] == ["Ask for the date.", "Second."]
    assert found.variable_updates == {"phase": "closing", "x": 1}


@pytest.mark.parametrize("raw", [None, 5, "words", True, ["words"], [5]])
def test_what_is_no_answer_is_told(raw: Any) -> None:
    found = read(raw)
    assert not found.usable
    assert found.problems


def test_nothing_at_all_is_an_answer() -> None:
    assert read({}).usable
    assert read([]).usable


def test_what_was_left_out_is_told() -> None:
    problems = read({**GOOD, "confidence": "high", "facts": [{"type": "a"}]}).problems
    assert problems == ["confidence is 'high', not a number", "facts has no value"]


# --- whatever comes --------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
FIELDS = [*GOOD, "message", "insight", "ui_actions", "state_updates", "state_snapshot"]
ANSWERS = st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=6), JSON, max_size=8)


@given(
    ANSWERS | st.lists(ANSWERS | JSON, max_size=3) | JSON,
    st.sampled_from(["default", "v2_raw", "v2_events", "widget_control"]),
)
@examples(500)
def test_whatever_json_comes_it_is_read(raw: Any, named: str) -> None:
    found = read(raw, named)
    AgentResponse.model_validate(found.response.model_dump())


@given(st.sampled_from(sorted(GOOD)), JSON)
@examples(400)
def test_whatever_one_field_holds_the_others_are_kept(field: str, value: Any) -> None:
    found = response({**GOOD, field: value})
    kept = updates(found)
    kinds = {
        "events": "events",
        "variable_updates": "variables",
        "queue_pushes": "queues",
        "facts": "facts",
        "memory_updates": "memory",
    }
    for other, kind in kinds.items():
        if other != field:
            assert kept[kind] == ALL_UPDATES[kind]
    if field not in ("content", "has_insight"):
        assert [one.content for one in found.insights] == ["Ask for the date."]


class Odd:
    """A value with code of its own."""

    def _raise(self, *args: Any) -> Any:
        raise RuntimeError("no")

    __bool__ = __str__ = __repr__ = __eq__ = __hash__ = _raise


@pytest.mark.parametrize("field", sorted(GOOD))
def test_a_value_with_code_of_its_own_does_not_raise(field: str) -> None:
    assert read({**GOOD, field: Odd()}).usable
