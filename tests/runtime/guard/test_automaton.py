"""Patterns: what they find is what Python's own engine finds, in time that no pattern and no text can stretch."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from runtime.guard.automaton import Automaton, Ranges
from runtime.guard.errors import PatternError
from tests.support import examples


def covered(pattern: str, text: str) -> set[int]:
    """The characters of any match, by trying every part of a short text."""
    whole = re.compile(pattern)
    ends = range(len(text) + 1)
    return {at for i in ends for j in ends if i < j and whole.fullmatch(text, i, j) for at in range(i, j)}


def characters(ranges: Ranges) -> set[int]:
    return {at for start, end in ranges for at in range(start, end)}


_ATOMS = st.sampled_from(["a", "b", "c", ".", "[ab]", "[^a]", r"\d", r"\w", r"\s", "[a-c1]", r"\.", "é"])
_PATTERNS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}", "{,2}"])).map(
            lambda two: f"(?:{two[0]}){two[1]}"
        ),
        inner.map(lambda one: f"({one})"),
    ),
    max_leaves=8,
)
_TEXTS = st.text(alphabet="abc1 .\né", max_size=12)


@given(pattern=_PATTERNS, text=_TEXTS)
@examples(400)
def test_finds_what_the_standard_engine_finds(pattern: str, text: str) -> None:
    assume(not re.fullmatch(pattern, ""))
    assert characters(Automaton(pattern).ranges(text)) == covered(pattern, text)


@given(pattern=_PATTERNS, edge=st.sampled_from([r"^{}", r"{}$", r"\b{}\b", r"{}\B", r"^(?:{})$"]), text=_TEXTS)
@examples(200)
def test_edges_of_lines_and_words_are_the_standard_ones(pattern: str, edge: str, text: str) -> None:
    assume(not re.fullmatch(pattern, ""))
    expression = edge.format(f"(?:{pattern})")
    assert bool(Automaton(expression).ranges(text)) == bool(re.search(expression, text, re.MULTILINE))


@given(pattern=st.text(alphabet=r"ab()[]{}|*+?\^$.-,0129dwsbBxu", max_size=14), text=_TEXTS)
@examples(400)
def test_any_text_is_a_pattern_or_refused_with_its_place(pattern: str, text: str) -> None:
    try:
        automaton = Automaton(pattern)
    except PatternError:
        return
    ranges = automaton.ranges(text)
    assert all(0 <= start < end <= len(text) for start, end in ranges)
    try:
        standard = re.compile(pattern, re.MULTILINE)
    except re.error:
        return
    assert bool(ranges) == bool(standard.search(text))


def test_case_is_ignored_when_asked() -> None:
    assert Automaton("ignore (all|my) rules", ignore_case=True).ranges("x IGNORE My Rules") == [(2, 17)]
    assert Automaton("Straße", ignore_case=True).ranges("STRAßE") == [(0, 6)]
    assert Automaton("abc").ranges("ABC") == []


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(a*)*b", "(a|aa)+$b", "(.*a){20}b", "a{0,200}a{0,200}b"])
def test_patterns_that_stall_other_engines_do_not_stall_this_one(pattern: str) -> None:
    automaton = Automaton(pattern)
    assert automaton.ranges("a" * 20_000) == []


def test_where_two_ways_meet_the_one_that_began_first_counts() -> None:
    assert Automaton("(?:ab|.)c").ranges("abc") == [(0, 3)]


def test_long_work_is_done_in_pieces() -> None:
    run = Automaton("(a+)+b").pieces("a" * 100_000 + "b")
    pieces = sum(1 for _ in run)
    assert pieces >= 10


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"(a)\1", "references"),
        (r"(?=a)b", "looking around"),
        (r"(?i)a", "ignore_case"),
        ("a*?", "repetition of a repetition"),
        ("a**", "repetition of a repetition"),
        ("*a", "repeats nothing"),
        ("(a", "never closed"),
        ("a)", "closes nothing"),
        ("[a", "never closed"),
        ("[z-a]", "upside down"),
        ("a{3,1}", "swap"),
        ("a{501}", "limit is 500"),
        ("a{x}", r"\{"),
        ("a\\", "finish it"),
        (r"\xZZ", "hexadecimal"),
        ("a*", "empty text"),
        ("^$", "empty text"),
        ("(a{400}){400}", "states"),
        ("(" * 31 + "a" + ")" * 31, "deep"),
        ("a" * 2_001, "limit is 2000"),
        (r"\U00110000", "no character"),
    ],
)
def test_what_is_not_run_is_refused_with_the_cure(pattern: str, why: str) -> None:
    with pytest.raises(PatternError, match=re.escape(why)):
        Automaton(pattern)
