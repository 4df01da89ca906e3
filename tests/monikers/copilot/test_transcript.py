"""Helpers for segments: windows, drafts, speakers (spec 2 §5.1, §12.3)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monikers.copilot.models import TranscriptSegment
from monikers.copilot.transcript import formatted, last_turns, merged, settled, silence_after
from tests.support import examples


def seg(speaker: str, text: str, timestamp: float = 0.0, *, final: bool = True) -> TranscriptSegment:
    return TranscriptSegment(speaker=speaker, text=text, timestamp=timestamp, is_final=final)


def words(segments: list[TranscriptSegment]) -> list[str]:
    return [f"{one.speaker}:{one.text}" for one in segments]


@pytest.mark.parametrize(
    ("count", "left"), [(2, ["b", "c"]), (3, ["a", "b", "c"]), (9, ["a", "b", "c"]), (0, ["a", "b", "c"])]
)
def test_the_last_turns(count: int, left: list[str]) -> None:
    segments = [seg("A", text) for text in "abc"]
    assert [one.text for one in last_turns(segments, count)] == left


def test_a_draft_gives_way_to_what_its_speaker_says_next() -> None:
    said = [
        seg("A", "How mu", 1, final=False),
        seg("B", "Mhm", 1.5),
        seg("A", "How much is", 1, final=False),
        seg("A", "How much is it?", 1),
        seg("A", "And when?", 4),
        seg("B", "I thi", 5, final=False),
    ]
    assert words(settled(said)) == ["B:Mhm", "A:How much is it?", "A:And when?", "B:I thi"]


def test_a_draft_of_later_is_not_replaced_by_what_was_said_before() -> None:
    said = [seg("A", "later", 9, final=False), seg("A", "earlier", 2)]
    assert words(settled(said)) == ["A:later", "A:earlier"]
    assert words(settled([*said, seg("A", "much later", 20)])) == ["A:later", "A:earlier", "A:much later"]


def test_adjacent_segments_of_a_speaker_become_one() -> None:
    said = [seg("A", "One ", 1), seg("A", " two", 2, final=False), seg("B", "Yes", 3), seg("A", "three", 4)]
    found = merged(said)
    assert words(found) == ["A:One two", "B:Yes", "A:three"]
    assert (found[0].timestamp, found[0].is_final) == (1, False)


def test_a_gap_keeps_segments_apart() -> None:
    said = [seg("A", "One", 1), seg("A", "two", 2), seg("A", "three", 20)]
    assert words(merged(said, gap_s=5)) == ["A:One two", "A:three"]


def test_a_segment_stays_on_its_line() -> None:
    said = [seg("A\nB", "one\ntwo", 61), seg("B", "dra", 125.9, final=False)]
    assert formatted(said) == "A B: one two\nB: dra …"
    assert formatted(said, times=True) == "[01:01] A B: one two\n[02:05] B: dra …"


def test_silence_counts_from_the_newest_segment() -> None:
    assert silence_after([seg("A", "x", 3), seg("B", "y", 7)], 10.5) == 3.5
    assert silence_after([], 4) == 4
    assert silence_after([seg("A", "x", 9)], 4) == 0


SEGMENTS = st.lists(
    st.builds(seg, st.sampled_from("AB"), st.text(max_size=3), st.floats(0, 9), final=st.booleans()), max_size=12
)


@given(SEGMENTS)
@examples(150)
def test_settling_keeps_every_final_segment_in_order_and_settles_once(segments: list[TranscriptSegment]) -> None:
    once = settled(segments)
    assert [one for one in once if one.is_final] == [one for one in segments if one.is_final]
    assert settled(once) == once


@given(SEGMENTS)
@examples(150)
def test_merging_loses_no_words_and_leaves_no_neighbours(segments: list[TranscriptSegment]) -> None:
    found = merged(segments)
    assert "".join("".join(one.text for one in found).split()) == "".join("".join(one.text for one in segments).split())
    assert all(one.speaker != two.speaker for one, two in pairwise(found))
