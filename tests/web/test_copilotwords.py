"""What is said of insights, turns and agents: words out of closed lists, whatever a model gave."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import examples
from web.copilotwords import (
    agent_name,
    as_copilot,
    did_words,
    fact_name,
    insight_kind,
    is_dry_run,
    line_to_say,
    number_words,
    set_title,
    since_start,
    skip_words,
    sureness,
    took_words,
    trigger_words,
    turn_words,
    zone_of,
)

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
TONES = {"running", "waiting", "done", "quiet", "sleeping", "failed"}


@pytest.mark.parametrize(
    ("zone", "found"), [("A", "A"), (" b ", "B"), ("C", "C"), ("Z", "C"), (None, "C"), ("", "C"), (["A"], "C")]
)
def test_what_names_no_zone_of_ours_is_good_to_know(zone: Any, found: str) -> None:
    assert zone_of({"metadata": {"zone": zone}}) == found


@pytest.mark.parametrize(
    ("told", "tone"),
    [
        ({"type": "warning"}, "waiting"),
        ({"type": "warning", "metadata": {"color": "Red"}}, "failed"),
        ({"type": "praise", "metadata": {"color": "url(//evil)"}}, "sleeping"),
        ({"type": "suggestion", "metadata": {"color": "#ff0000"}}, "running"),
        ({"type": "<b>", "metadata": "none"}, "quiet"),
    ],
)
def test_a_colour_is_a_hint_out_of_a_closed_list(told: Any, tone: str) -> None:
    assert insight_kind(told)[1] == tone


@examples(100)
@given(ANYTHING, ANYTHING)
def test_nothing_that_a_model_gives_breaks_a_card(kind: Any, metadata: Any) -> None:
    told = {"type": kind, "metadata": metadata, "confidence": kind}
    word, tone, glyph = insight_kind(told)
    assert all((word, glyph))
    assert tone in TONES
    assert zone_of(told) in "ABC"
    assert isinstance(line_to_say(told), str)
    assert sureness(kind) in {"", "sure", "likely", "maybe"}
    assert isinstance(since_start(kind), str)


@pytest.mark.parametrize(
    ("confidence", "word"), [(1, "sure"), (0.8, "sure"), (0.79, "likely"), (0.5, "likely"), (0, "maybe")]
)
def test_a_confidence_is_a_word(confidence: float, word: str) -> None:
    assert sureness(confidence) == word


@pytest.mark.parametrize(("seconds", "words"), [(0, "0:00"), (65.9, "1:05"), (3725, "1:02:05"), (None, ""), (-1, "")])
def test_time_is_counted_from_the_start(seconds: Any, words: str) -> None:
    assert since_start(seconds) == words


@pytest.mark.parametrize(("ms", "words"), [(0, "0 ms"), (419.6, "420 ms"), (1430, "1.4 s"), (None, ""), ("1", "")])
def test_how_long_it_took(ms: Any, words: str) -> None:
    assert took_words(ms) == words


def test_a_number_is_written_as_a_browser_writes_it() -> None:
    assert [number_words(value) for value in (0.0, 2, 0.5, -3.0)] == ["0", "2", "0.5", "-3"]


def test_a_turn_says_why_it_came() -> None:
    assert trigger_words({"trigger": "keyword", "metadata": {"keyword": "price"}}) == "a word was said: price"
    assert trigger_words({"trigger": "silence", "metadata": {"silence_duration": 6.2}}) == "it was quiet for 6 s"
    assert trigger_words({"trigger": "turn_based", "metadata": None}) == "somebody spoke"
    assert trigger_words({"trigger": "my_own"}) == "my own"
    spoken = [{"trigger": "keyword", "metadata": {"keyword": "price"}}, {"trigger": "turn_based"}]
    assert turn_words({"turns": spoken}) == "a word was said: price, then somebody spoke"
    assert turn_words({"turns": [], "problem": "trigger: ..."}) == "not taken up"
    assert turn_words({"turns": []}) == "a person decided"


@pytest.mark.parametrize("reason", ["not_allowed", "group_off", "silence", "cooldown", "rate_limit", "conditions"])
def test_every_reason_to_pass_an_agent_over_has_plain_words(reason: str) -> None:
    assert " " in skip_words(reason)
    assert "_" not in skip_words(reason)


def test_a_run_says_what_came_of_it() -> None:
    run = {
        "insights": ["i1", "i2"],
        "variables": {"stage": 1},
        "queues": {"objections": ["x"]},
        "facts": [{"type": "budget", "key": "year"}],
        "memory": {"asked": 2},
        "events": ["question_detected"],
    }
    wrote = "wrote stage; pushed to objections; learned budget · year; remembers asked; emitted question_detected"
    told = f"2 insights; {wrote}"
    assert did_words(run) == told
    assert did_words({**run, "failed": True}) == f"failed; {told}"
    assert did_words({}) == "had nothing to say"


@pytest.mark.parametrize(
    ("config", "is_one"),
    [({"dry_run": True}, True), ({"dry_run": False}, False), ({"dry_run": "x"}, False), (None, False)],
)
def test_a_try_of_an_agent_is_no_conversation(config: Any, is_one: bool) -> None:
    assert is_dry_run({"config": config}) is is_one


def test_names_for_people() -> None:
    assert (fact_name({"type": "budget", "key": None}), fact_name({})) == ("budget", "")
    assert (agent_name("price_guard"), agent_name(None)) == ("Price guard", "")
    assert set_title({"config": {"agent_set": "sales_call"}}) == "Sales call"
    assert set_title({"config": None}) == "Own agents"


@pytest.mark.parametrize(
    ("status", "reason", "seen"),
    [
        ("waiting", None, "listening"),
        ("waiting", "waiting for input: a segment of the conversation", "listening"),
        ("waiting", "sleeping until 2026-01-01T00:00:00+00:00", "listening"),
        ("waiting", "May it send this?", "waiting"),
        ("paused", "by hand", "paused"),
        ("error", None, "error"),
    ],
)
def test_a_copilot_that_waits_for_words_listens(status: str, reason: str | None, seen: str) -> None:
    assert as_copilot({"status": status, "reason": reason})["status"] == seen
