from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monikers.words import (
    KEPT_GUIDANCE,
    MAX_GUIDANCE_CHARS,
    as_words,
    clip,
    needed,
    one_line,
    remembered_guidance,
    said,
)
from runtime.contract import MonikerInputError, StepFrame, StepInput


@given(text=st.text(), limit=st.integers(1, 20))
def test_a_clipped_text_fits_and_a_short_one_is_left_alone(text: str, limit: int) -> None:
    assert len(clip(text, limit)) <= limit
    assert clip(text, limit) == text or len(text) > limit


@given(st.text(st.characters(codec=None)))
def test_one_line_has_nothing_that_cannot_be_shown_or_stored(text: str) -> None:
    line = one_line(text, 50)
    assert line == line.strip()
    assert line == "" or line.isprintable()
    line.encode()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("as it is ", "as it is "),
        ({"guidance": "a", "text": "b"}, "a"),
        ({"text": "b", "x": 1}, "b"),
        ({"x": "é"}, '{"x": "é"}'),
        ({"text": 1}, '{"text": 1}'),
        ([1, None], "[1, null]"),
        (3, "3"),
        ("\ud800!", "?!"),
    ],
)
def test_whatever_is_sent_can_be_read_as_words(value: Any, words: str) -> None:
    assert as_words(value) == words


def test_what_was_said_is_inputs_then_guidance_without_blanks() -> None:
    inputs = (StepInput(text=" one "), StepInput(text=" \n"))
    assert said(StepFrame(step="1", inputs=inputs, guidance="two")) == ["one", "two"]
    assert said(StepFrame(step="1", guidance="x" * 5_000)) == ["x" * (MAX_GUIDANCE_CHARS - 1) + "…"]
    assert said(StepFrame(step="1")) == []


def test_the_newest_guidance_is_remembered() -> None:
    state = {"guidance": [str(number) for number in range(KEPT_GUIDANCE)]}
    kept = remembered_guidance(StepFrame(step="1", state=state, guidance="new"))
    assert kept == [*state["guidance"][1:], "new"]


def test_a_state_without_what_is_needed_is_refused() -> None:
    assert needed({"a": 1}, "a") == 1
    with pytest.raises(MonikerInputError, match="no 'b'"):
        needed({"a": 1}, "b")
