"""What is written is read again, byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.tools.errors import ArgumentsError
from runtime.tools.fake import ScriptedTool
from runtime.tools.grammar import parse_reply
from runtime.tools.render import render_call
from tests.runtime.tools.test_grammar import FRAGMENTS
from tests.support import examples

PARAMS = ("content", "path", "action", "note")
TOOLS = [ScriptedTool(name, params=PARAMS).tool for name in ("file_system", "shell", "note")]
CONTENT = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=5), max_size=12).map("".join) | st.text()
CALLS = st.lists(
    st.tuples(
        st.sampled_from(["file_system", "shell", "note"]),
        st.dictionaries(st.sampled_from(PARAMS), CONTENT, max_size=4),
    ),
    max_size=5,
)


@examples(200)
@given(CALLS, st.sampled_from(["\n", "", "\n\nand then\n\n"]))
def test_calls_survive_being_written_and_read(calls: list[tuple[str, dict[str, str]]], between: str) -> None:
    written = between.join(render_call(name, arguments) for name, arguments in calls)
    reply = parse_reply(written, TOOLS)
    assert reply.errors == ()
    assert [(call.name, call.arguments) for call in reply.calls] == calls


def test_plain_text_is_written_plainly() -> None:
    assert render_call("shell", {"note": "a < b", "path": "x"}) == (
        "<shell>\n<note>a < b</note>\n<path>x</path>\n</shell>"
    )


def test_other_values_are_written_as_json() -> None:
    assert "<note>[1, true, null]</note>" in render_call("shell", {"note": [1, True, None]})


def test_a_call_without_arguments() -> None:
    (call,) = parse_reply(render_call("note", {}), TOOLS).calls
    assert call.arguments == {}


@pytest.mark.parametrize(
    ("wrong", "said"), [({"other": "x"}, "other: there is no"), ({"note": 1}, "note: has to be text")]
)
def test_scripted_tools_are_strict(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ArgumentsError, match=said):
        TOOLS[0].check(wrong)
