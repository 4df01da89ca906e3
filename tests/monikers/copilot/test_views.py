"""What agents and templates are shown: reads like dicts and lists, refuses to be written (spec 2 §6.4, §6.5.2)."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from jinja2 import StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from monikers.copilot import Blackboard, Event, Fact, ReadOnlyError, plain
from monikers.copilot.views import BlackboardView


@pytest.fixture
def view() -> BlackboardView:
    return Blackboard(
        variables={"phase": "closing", "topics": ["price", "terms"], "deep": {"a": {"b": [1]}}},
        queues={"pending_questions": [{"text": "How much?"}, "When?"]},
        memory={"coach": {"last_action": "asked", "seen": [1]}},
        facts=[Fact(type="budget", key="primary", value={"eur": 5}, confidence=0.9), Fact(type="date", value="Q2")],
        events=[Event(name="question", payload={"q": ["x"]})],
    ).snapshot()


WRITES: list[Any] = [
    lambda view: view.set_var("x", 1),
    lambda view: view.delete_var("phase"),
    lambda view: view.emit_event(Event(name="x")),
    lambda view: view.clear_events(),
    lambda view: view.push_queue("pending_questions", 1),
    lambda view: view.push_queue_items("pending_questions", [1]),
    lambda view: view.pop_queue("pending_questions"),
    lambda view: view.clear_queue("pending_questions"),
    lambda view: view.add_fact(Fact(type="x")),
    lambda view: view.set_memory("coach", {}),
    lambda view: view.update_memory("coach", {}),
    lambda view: setattr(view, "variables", {}),
    lambda view: view.variables.__setitem__("phase", "x"),
    lambda view: view.variables.__delitem__("phase"),
    lambda view: view.variables.update({"x": 1}),
    lambda view: view.variables.pop("phase"),
    lambda view: view.variables["topics"].append("x"),
    lambda view: view.variables["topics"].sort(),
    lambda view: view.variables["topics"].__setitem__(0, "x"),
    lambda view: view.variables["topics"].__iadd__(["x"]),
    lambda view: view.variables["deep"]["a"].update({"b": 2}),
    lambda view: view.variables["deep"]["a"]["b"].clear(),
    lambda view: view.variables["deep"].__ior__({}),
    lambda view: view.queues["pending_questions"].pop(0),
    lambda view: view.queues["pending_questions"][0].setdefault("x", 1),
    lambda view: view.memory["coach"].__setitem__("x", 1),
    lambda view: view.facts.append(Fact(type="x")),
    lambda view: view.facts[0].value.clear(),
    lambda view: view.get_fact("budget").value.pop("eur"),
    lambda view: view.events.clear(),
    lambda view: view.events[0].payload["q"].append("y"),
]


@pytest.mark.parametrize("write", WRITES)
def test_nothing_can_be_written(view: BlackboardView, write: Any) -> None:
    before = json.dumps(view.to_dict())
    with pytest.raises(ReadOnlyError, match="variable_updates"):
        write(view)
    assert json.dumps(view.to_dict()) == before


@pytest.mark.parametrize("name", ["value", "confidence", "type"])
def test_a_fact_never_changes(view: BlackboardView, name: str) -> None:
    with pytest.raises(ValueError, match="frozen"):
        setattr(view.facts[0], name, 1)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ blackboard.variables.phase }}", "closing"),
        ("{{ blackboard.variables['phase'] }}", "closing"),
        ("{{ blackboard.variables.get('none', 'nothing') }}", "nothing"),
        ("{{ blackboard.variables.topics }}", "['price', 'terms']"),
        ("{{ blackboard.variables.topics | tojson }}", '["price", "terms"]'),
        ("{{ blackboard.variables.deep.a.b[0] }}", "1"),
        ("{% for key, value in blackboard.variables.items() %}{{ key }} {% endfor %}", "phase topics deep "),
        ("{{ blackboard.queues.pending_questions | length }}", "2"),
        ("{{ blackboard.queues.pending_questions[0].text }}", "How much?"),
        ("{{ blackboard.queues.pending_questions[1:] | join }}", "When?"),
        (
            "{% for q in blackboard.queues.pending_questions %}- {{ q }} {% endfor %}",
            "- {'text': 'How much?'} - When? ",
        ),
        ("{{ (blackboard.facts | selectattr('type', 'eq', 'budget') | first).confidence }}", "0.9"),
        (
            "{% for fact in blackboard.facts %}{{ fact.type }}: {{ fact.value }};{% endfor %}",
            "budget: {'eur': 5};date: Q2;",
        ),
        ("{{ blackboard.memory[agent_id].last_action }}", "asked"),
        ("{{ blackboard.variables.none is defined }}", "False"),
        ("{{ blackboard.variables.topics is sequence and blackboard.variables.deep is mapping }}", "True"),
        ("{{ blackboard.events[0].name }}", "question"),
    ],
)
def test_templates_read_it_as_the_spec_writes_them(view: BlackboardView, template: str, text: str) -> None:
    """Spec 2 §6.4, §13.3.3."""
    environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined)
    assert environment.from_string(template).render(blackboard=view, agent_id="coach") == text


def test_what_is_inside_equals_plain_lists_and_dicts(view: BlackboardView) -> None:
    topics, deep = view.variables["topics"], view.variables["deep"]
    assert topics == ["price", "terms"]
    assert [*topics, "x"] == topics + ["x"]  # noqa: RUF005 - an agent may write either
    assert topics[1:] == ["terms"]
    assert isinstance(topics, list)
    assert isinstance(deep, dict)
    assert json.dumps([topics, deep]) == '[["price", "terms"], {"a": {"b": [1]}}]'
    assert view.variables == {"phase": "closing", "topics": ["price", "terms"], "deep": {"a": {"b": [1]}}}
    assert {**view.variables, "x": 1}["x"] == 1
    assert (view.variables | {"phase": "x"})["phase"] == "x"
    assert ({"phase": "x"} | view.variables)["phase"] == "closing"
    assert str(view.queues) == "{'pending_questions': [{'text': 'How much?'}, 'When?']}"
    with pytest.raises(KeyError):
        view.variables["none"]


def test_a_copy_is_plain_and_may_be_changed(view: BlackboardView) -> None:
    for value in (copy.deepcopy(view.variables["deep"]), plain(view.variables["deep"]), plain(view.variables)["deep"]):
        value["a"]["b"].append(2)
        assert value == {"a": {"b": [1, 2]}}
    view.variables["topics"].copy().append("x")
    view.get_memory("coach")["seen"].append(2)
    assert view.variables["topics"] == ["price", "terms"]
    assert view.memory["coach"] == {"last_action": "asked", "seen": [1]}
    assert copy.deepcopy(view) is view.snapshot() is view


def test_a_value_is_made_once_for_all_who_look_at_one_picture() -> None:
    board = Blackboard(variables={"topics": ["price"]})
    assert board.snapshot().variables["topics"] is not board.snapshot().variables["topics"]
    held = board.snapshot()
    assert held.variables["topics"] is board.snapshot().variables["topics"]
