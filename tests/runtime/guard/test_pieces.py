from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runtime.guard.pieces import joined, redacted, strings_of, with_strings
from runtime.guard.port import Span, replaced
from tests.support import examples

LETTERS = st.text("abc", max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | LETTERS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(LETTERS, inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
@examples(100)
def test_strings_put_back_give_the_same_value(value: Any) -> None:
    assert with_strings(value, iter(list(strings_of(value)))) == value


@given(st.lists(LETTERS, min_size=1, max_size=6), st.data())
@examples(300)
def test_the_parts_lose_what_the_passage_loses(pieces: list[str], data: st.DataObject) -> None:
    """Two gates, the second of which sees what the first one left."""
    passage, redactions = joined(pieces), []
    for mark in "XY":
        spans = data.draw(spans_in(passage, mark))
        redactions.append(spans)
        passage = replaced(passage, spans)
    assert "".join(redacted(pieces, redactions)) == passage.replace("\n", "")


@st.composite
def spans_in(draw: st.DrawFn, text: str, mark: str) -> tuple[Span, ...]:
    """Places that begin at a letter: what stands for a gap alone would be lost with it."""
    at, found = 0, list[Span]()
    while at < len(text):
        start = draw(st.integers(at, len(text)))
        if start >= len(text) or text[start] == "\n":
            break
        end = draw(st.integers(start + 1, len(text)))
        found.append(Span(start, end, "l", mark))
        at = end
    return tuple(found)


def test_keys_that_become_equal_lose_no_value() -> None:
    assert with_strings({"a": 1, "b": 2}, iter(["x", "x"])) == {"x": 1, "x 2": 2}
