from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from monikers.sections import MAX_TITLE_CHARS, Section, split_sections

LINES = st.sampled_from(
    ["# One", "## Two", "### Three", "Title", "=====", "-----", "", "  ", "```", "- item", "> quote", "    code"]
)
WORDS = st.text("ab .\n\r\t\x0b\x1c\u2028\x00#é。😀\u202e", max_size=60)
MARKDOWN = st.lists(LINES | WORDS).flatmap(
    lambda lines: st.sampled_from(["\n", "\r\n", "\r", "\n\n"]).map(lambda end: end.join(lines))
)


def pieces(text: str, max_chars: int = 1_000) -> list[tuple[str, str, str]]:
    return [(part.token, part.title, text[part.start : part.end]) for part in split_sections(text, max_chars)]


@given(text=MARKDOWN | st.text(), max_chars=st.integers(1, 50))
@example(text="a" * 101, max_chars=50)
@example(text=" \n" * 60 + "# A\n" + " " * 60, max_chars=5)
def test_sections_cover_the_text_exactly(text: str, max_chars: int) -> None:
    sections = split_sections(text, max_chars)
    slices = [text[part.start : part.end] for part in sections]
    assert "".join(slices) == (text if text.strip() else "")
    assert all(piece.strip() for piece in slices)
    assert all(len(piece.strip()) <= max_chars for piece in slices)
    assert all(len(part.title) <= MAX_TITLE_CHARS and "\n" not in part.title for part in sections)


@given(text=MARKDOWN, max_chars=st.integers(1, 50))
def test_tokens_are_unique_and_in_order(text: str, max_chars: int) -> None:
    order = [tuple(map(int, part.token.split("."))) for part in split_sections(text, max_chars)]
    assert order == sorted(set(order))
    assert [first for first, *_ in order] == sorted(first for first, *_ in order)


def test_headings_divide_and_name_the_sections() -> None:
    assert pieces("# One\na\n# Two\nb\n") == [("1", "One", "# One\na\n"), ("2", "Two", "# Two\nb\n")]


def test_underlined_headings_count() -> None:
    assert [title for _, title, _ in pieces("One\n===\na\n\nTwo\n===\nb\n")] == ["One", "Two"]


def test_a_lone_title_does_not_make_one_section_of_it_all() -> None:
    text = "# Title\nintro\n## A\na\n### deep\nx\n## B\nb\n"
    assert [(token, title) for token, title, _ in pieces(text)] == [("1", "Title"), ("2", "A"), ("3", "B")]


def test_words_before_the_first_heading_are_a_section_but_blanks_are_not() -> None:
    assert pieces("intro\n# A\na\n# B\nb") == [
        ("1", "", "intro\n"),
        ("2", "A", "# A\na\n"),
        ("3", "B", "# B\nb"),
    ]
    assert pieces("\n \n# A\na\n# B\nb")[0] == ("1", "A", "\n \n# A\na\n")


def test_what_only_looks_like_a_heading_divides_nothing() -> None:
    assert len(pieces("```\n# no\n# heading\n```\n- # nor this\n- # nor that\n")) == 1


def test_a_text_without_headings_is_one_section() -> None:
    assert pieces("just words") == [("1", "", "just words")]


@pytest.mark.parametrize("text", ["", " ", "\n\r\n\t"])
def test_a_blank_text_has_no_sections(text: str) -> None:
    assert split_sections(text, 100) == []


@pytest.mark.parametrize(
    ("text", "second"),
    [
        ("aaa aaa. aa\naa\n\nbbb bbb", "bbb bbb"),
        ("aaa aaaa. aaaa\nbbb. bbb bbbbb", "bbb. bbb bbbbb"),
        ("aaa aaaa aaaa. bbb bbb bbbbb", "bbb bbb bbbbb"),
        ("aaaaaaaaaaaaaaaa bbb bbb-bbb", "bbb bbb-bbb"),
        ("a" * 20 + "bbbb", "bbbb"),
    ],
    ids=["paragraph", "line", "sentence", "word", "anywhere"],
)
def test_a_long_section_is_cut_at_the_best_place(text: str, second: str) -> None:
    parts = split_sections(f"# A\nx\n# B\n\n\n{text}", 20)
    assert [part.token for part in parts][:1] == ["1"]
    whole = split_sections(text, 20)
    assert [part.token for part in whole] == ["1.1", "1.2"]
    assert text[whole[1].start :] == second


def test_a_part_does_not_end_in_a_heading() -> None:
    text = "# A\nx\n# B\n" + "word " * 30 + "\n\n### Next\n\nwords of the next one and more of them"
    parts = split_sections(text, 180)
    assert [(part.token, part.title) for part in parts] == [("1", "A"), ("2.1", "B"), ("2.2", "B")]
    assert text[parts[2].start :].startswith("### Next")


def test_the_same_text_gives_the_same_sections() -> None:
    assert split_sections("# A\nx\n# B\ny", 100) == [Section("1", "A", 0, 6), Section("2", "B", 6, 11)]
