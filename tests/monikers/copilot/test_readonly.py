"""What a template is handed can be read and leads nowhere else (spec 2 §6.4, §6.5.2)."""

from __future__ import annotations

from typing import Any

import pytest

from monikers.copilot.blackboard import Blackboard
from monikers.copilot.models import AgentContext, Fact, TriggerType
from monikers.copilot.readonly import Fields, Items, board_of, context_of, readonly
from monikers.copilot.records import Event
from monikers.copilot.templates import PromptTemplateError, render


def board() -> Blackboard:
    it = Blackboard()
    it.set_var("phase", "closing")
    it.set_var("deep", {"list": [1, {"x": 2}]})
    it.push_queue("items", "one")
    it.add_fact(Fact(type="budget", key="first", value={"usd": 5}))
    it.emit_event(Event(name="asked", payload={"q": [1]}))
    it.set_memory("coach", {"n": 1})
    return it


READ = [
    ("{{ b.variables.deep.list[1].x }}", "2"),
    ("{{ b.queues.items[0] }}{{ b.queue_length('items') }}", "one1"),
    ("{{ b.facts[0].value.usd }} {{ b.get_fact('budget', 'first').value.usd }}", "5 5"),
    ("{{ b.events[0].payload.q[0] }} {{ b.has_event('asked') }}", "1 True"),
    ("{{ b.memory['coach'].n }} {{ b.get_memory('coach').n }}", "1 1"),
    ("{{ b.get_var('none', 'else') }} {{ b.peek_queue('items') }}", "else one"),
    ("{% for name, value in b.variables.items() %}{{ name }};{% endfor %}", "phase;deep;"),
    ("{{ b.facts | map(attribute='type') | join(',') }}", "budget"),
]


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize(("text", "shown"), READ)
def test_a_board_and_a_picture_of_it_read_alike(text: str, shown: str, live: bool) -> None:
    it = board()
    assert render(text, {"b": board_of(it if live else it.snapshot())}) == shown


@pytest.mark.parametrize(
    "call",
    [
        "set_var('phase', 'x')",
        "push_queue('items', 1)",
        "pop_queue('items')",
        "clear_queue('items')",
        "add_fact(1)",
        "emit_event(1)",
        "clear_events()",
        "update_memory('coach', {})",
        "delete_var('phase')",
        "variables.update({})",
        "variables.clear()",
        "variables.pop('phase')",
        "queues.items.append(1)",
        "facts.clear()",
        "snapshot()",
        "to_dict()",
    ],
)
def test_a_template_cannot_write_the_board(call: str) -> None:
    it = board()
    before = it.to_dict()
    with pytest.raises(PromptTemplateError):
        render("{{ b.CALL }}".replace("CALL", call), {"b": board_of(it)})
    assert it.to_dict() == before


def test_nothing_behind_a_value_can_be_reached() -> None:
    for name in ("_held", "_of", "_names", "_ask", "__dict__"):
        for value in (board_of(board()), readonly({"a": 1}), readonly([1])):
            with pytest.raises(PromptTemplateError, match="underscore"):
                render("{{ b.NAME }}".replace("NAME", name), {"b": value})


def test_a_context_shows_its_fields_and_not_the_overrides() -> None:
    context = AgentContext(session_id="s", trigger_type=TriggerType.SILENCE, trigger_metadata={"silence_duration": 5})
    found = context_of(context, None)
    assert (found["session_id"], found["trigger_type"]) == ("s", "silence")
    assert isinstance(found["trigger_metadata"], Fields)
    assert "agent_config_overrides" not in found


@pytest.mark.parametrize(
    ("value", "kind"), [({"a": 1}, Fields), ([1], Items), ((1,), Items), ({1}, Items), (Fact(type="t"), Fields)]
)
def test_what_holds_others_is_wrapped(value: Any, kind: type) -> None:
    assert isinstance(readonly(value), kind)


def test_what_is_of_no_known_kind_is_its_name() -> None:
    assert readonly(object()) == "(object)"
    assert readonly(b"x") == "(bytes)"
