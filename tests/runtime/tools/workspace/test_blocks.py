"""SEARCH/REPLACE blocks change exactly what they say, or nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.tools.workspace.blocks import apply_blocks, read_blocks
from runtime.tools.workspace.errors import EditError
from tests.support import examples


def block(search: str, replace: str) -> str:
    return f"<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE\n"


def edited(text: str, *blocks: str) -> str:
    return apply_blocks(text, read_blocks("\n".join(blocks)))


@pytest.mark.parametrize(
    ("text", "search", "replace", "after"),
    [
        ("a\nb\nc\n", "b\n", "B\n", "a\nB\nc\n"),
        ("a\nb\nc\n", "a\nb\n", "", "c\n"),
        ("a\nb", "b\n", "B\nC\n", "a\nB\nC"),
        ("a\nb", "b\n", "", "a"),
        ("ab\nb\n", "b\n", "x\n", "ab\nx\n"),
        ("a\n\n  b\n", "\n  b\n", "\n\tb\n", "a\n\n\tb\n"),
        ("a\r\nb\r\n", "b\r\n", "c\r\n", "a\r\nc\r\n"),
        ("", "", "new\n", "new\n"),
        ("x\n", "x\n", "<b>&amp;</b>\n", "<b>&amp;</b>\n"),
        ("x\u2028y\nz\n", "z\n", "w\n", "x\u2028y\nw\n"),
    ],
)
def test_a_block(text: str, search: str, replace: str, after: str) -> None:
    assert edited(text, block(search, replace)) == after


def test_blocks_follow_each_other() -> None:
    fenced = "```python\n" + block("a\n", "b\n") + "```\n\n" + block("b\n", "c\n")
    assert edited("a\n", fenced) == "c\n"


@pytest.mark.parametrize(
    ("text", "blocks", "said"),
    [
        ("a\nb\na\n", block("a\n", "c\n"), "lines 1, 3"),
        ("def one():\n    pass\n", block("def ones():\n", "x\n"), r"line 1, 'def one\(\):'"),
        ("a\n", block("a\n", "b\n") + block("zzzz\n", "y\n"), "block 2 of 2"),
        ("a\r\nb\r\n", block("a\n", "b\n"), "CRLF"),
        ("a\n", block("", "b\n"), "SEARCH is empty"),
        ("a\n", "hello\n", "line 1 of the blocks"),
        ("a\n", "", "no block"),
        ("a\n", "<<<<<<< SEARCH\na\n", "no end"),
        ("a\n", "<<<<<<< SEARCH\na\n>>>>>>> REPLACE\n", "without ======="),
        ("a\n", block("a\n=======\n", "b\n"), "second ======="),
        ("a\n", "<<<<<<< SEARCH\na\n<<<<<<< SEARCH\n", "inside"),
        ("a", block("a\n\n", ""), "not in the file"),
        ("", block("\n", "a\n"), "not in the file"),
    ],
)
def test_a_block_that_does_not_fit(text: str, blocks: str, said: str) -> None:
    with pytest.raises(EditError, match=said):
        edited(text, blocks)


def test_a_long_file_of_equal_lines_is_searched_quickly() -> None:
    with pytest.raises(EditError, match="not in the file"):
        edited("a\n" * 400_000, block("a\n" * 200_000 + "b\n", "c\n"))


line = st.text(st.sampled_from("ab= <>é"), max_size=4)


@examples(300)
@given(
    before=st.lists(line, max_size=4),
    search=st.lists(line, min_size=1, max_size=3),
    after=st.lists(line, max_size=4),
    end=st.booleans(),
)
def test_what_is_there_once_is_replaced_and_nothing_else(
    before: list[str], search: list[str], after: list[str], end: bool
) -> None:
    text = "\n".join([*before, *search, *after]) + ("\n" if end else "")
    lines = [*before, *search, *after]
    places = [at for at in range(len(lines)) if lines[at : at + len(search)] == search]
    if not end and lines[-1] == "":
        return  # the last empty line is then the end of the line before it
    wanted = block("".join(f"{one}\n" for one in search), "new\n")
    if len(places) == 1:
        assert edited(text, wanted) == "\n".join([*before, "new", *after]) + ("\n" if end else "")
    else:
        with pytest.raises(EditError, match="several"):
            edited(text, wanted)


@examples(300)
@given(text=st.text(st.sampled_from("<>= SEARCHREPLACE\n\r`a")))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        blocks = read_blocks(text)
    except EditError:
        return
    assert blocks
