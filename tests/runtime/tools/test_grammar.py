"""Replies are read: calls in order and byte for byte, quotes never run, mistakes said with their place."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.tools.grammar import parse_reply
from runtime.tools.reply import CallErrorKind, PieceKind, Reply
from runtime.tools.tool import Tool, tool
from tests.runtime.tools.corpus import CASES, LIST, RM, UTC, Case, write
from tests.runtime.tools.kit import TOOLS
from tests.support import examples

#: pieces that replies are put together of, to find what random letters never would
FRAGMENTS = [
    *("<", ">", "</", "/>", "`", "``", "```", "\n```\n", "~~~\n", "\n> ", "\n\n", "\n", " ", "\\", "- ", "]]>"),
    *("<![CDATA[", "<!--", "-->", "<think>", "</think>", "<example>", "</example>", "<data>", "</data>"),
    *("<clock>", "</clock>", "<clock/>", "<zone>", "</zone>", "UTC", "<zone", "<clock a='b'>", "<tool_call>", "{"),
    *("<file_system>", "</file_system>", "<action>", "list", "</action>", "<content>", "</content>", "<path>"),
    "</path>",
    *("<shell>", "<command>", "</command>", "</shell>", "<x>", "</x>", "word", "é", "\x00"),
]


def read(text: str) -> Reply:
    """Read `text` and check what holds for every reply."""
    reply = parse_reply(text, TOOLS)
    place = 0
    for piece in reply.pieces:
        assert piece.start == place < piece.end
        place = piece.end
    assert place == len(text)
    assert sum(piece.kind is PieceKind.CALL for piece in reply.pieces) == len(reply.calls)
    kept = [text[p.start : p.end] for p in reply.pieces if p.kind in {PieceKind.PROSE, PieceKind.QUOTE}]
    assert "".join(kept).strip() == reply.text
    sources = [error.source for error in reply.errors if error.source]
    assert sources == [text[p.start : p.end] for p in reply.pieces if p.kind is PieceKind.BAD_CALL]
    for error in reply.errors:
        assert error.message.startswith(f"line {error.at.line}, column {error.at.column}: ")
        lines = text.split("\n")
        assert 1 <= error.at.line <= len(lines)
        assert 1 <= error.at.column <= len(lines[error.at.line - 1]) + 1
    return reply


def test_the_corpus_is_large() -> None:
    assert len(CASES) >= 80
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_reply(case: Case) -> None:
    reply = read(case.reply)
    assert tuple((call.name, call.arguments) for call in reply.calls) == case.calls
    assert tuple(error.kind for error in reply.errors) == case.errors, reply.errors
    assert reply.thoughts == case.thoughts
    if case.text is not None:
        assert reply.text == case.text
    if case.quoted is not None:
        assert reply.quoted == case.quoted


def test_calls_are_numbered_in_order() -> None:
    assert [call.id for call in read(f"{UTC}<clock><x/></clock>{LIST}").calls] == ["call-1", "call-2"]


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (
            "So:\n<clock>\n  <zoen>UTC</zoen>\n</clock>",
            "line 3, column 3: <clock> has no parameter <zoen>; did you mean 'zone'?",
        ),
        ("<clock><zone>UTC</zone>", "line 1, column 24: <clock> is not closed; end the call with </clock>."),
        (
            "<clock>\n<zone>UTC</clock>",
            "line 2, column 1: <zone> in <clock> is not closed; end its value with </zone>.",
        ),
        ("a <Clock><zone>UTC</zone></Clock>", "line 1, column 3: there is no tool <Clock>; did you mean 'clock'?"),
    ],
)
def test_an_error_says_where_and_how_to_mend_it(reply: str, message: str) -> None:
    assert [error.message for error in read(reply).errors] == [message]


def test_a_bad_value_is_found_where_it_stands() -> None:
    (error,) = read("<search>\n<query>x</query>\n<limit>many</limit>\n</search>").errors
    assert (error.at.line, error.at.column) == (3, 8)
    assert "many" in error.message
    assert "integer" in error.message


def test_without_tools_only_thoughts_are_taken_out() -> None:
    reply = parse_reply(f"<think>a</think>{UTC}", ())
    assert (reply.text, reply.thoughts, reply.calls, reply.errors) == (UTC, ("a",), (), ())


def test_a_parameter_may_have_the_name_of_its_tool() -> None:
    @tool()
    async def note(note: str) -> str:
        """Keeps a note."""
        return note

    (call,) = parse_reply("<note><note>x</note></note>", [note]).calls
    assert call.arguments == {"note": "x"}


# --- laws ---


@examples(200)
@given(st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=8), max_size=40).map("".join))
def test_nothing_is_lost_and_nothing_is_raised(text: str) -> None:
    read(text)


@examples(100)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=20).map("".join))
def test_what_is_fenced_is_never_run(text: str) -> None:
    fenced = "~~~~~~~~\n" + text + "\n~~~~~~~~\n"
    reply = read(f"{fenced}{UTC}")
    assert [call.arguments for call in reply.calls] == [{"zone": "UTC"}]
    assert reply.text == fenced.strip() or reply.text == fenced.rstrip("\n")


@examples(100)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=20).map("".join))
def test_a_thought_is_never_run_and_what_follows_is_kept(text: str) -> None:
    inside = text.replace("</think>", "")
    reply = read(f"<think>{inside}</think>The answer.")
    assert reply.calls == ()
    assert reply.text == "The answer."


@examples(100)
@given(st.lists(st.sampled_from([part for part in FRAGMENTS if "content" not in part and "CDATA" not in part])))
def test_a_value_is_kept_byte_for_byte_whatever_is_around(parts: list[str]) -> None:
    content = "".join(parts)
    reply = read(f"Before.\n\n{write(content)}\n\nAfter. {UTC}")
    assert [call.arguments.get("content", "") for call in reply.calls] == [content, ""]
    assert reply.text == "Before.\n\n\n\nAfter."


def test_mutated_replies_are_read() -> None:
    """A few thousand replies of the corpus, each with some random changes; the seed is fixed."""
    chance = random.Random(20260101)
    replies = [case.reply for case in CASES]
    for _ in range(2_000):
        text = chance.choice(replies)
        for _ in range(chance.randint(1, 4)):
            at, length = chance.randint(0, len(text)), chance.choice([0, 0, 1, 3, 10])
            put = chance.choice([*FRAGMENTS, "", chance.choice(replies)])
            text = text[:at] + put + text[at + length :]
        read(text)


def test_a_cut_reply_never_runs_what_it_was_writing() -> None:
    whole = f"{UTC}\n{write(f'docs: {RM} and {LIST}')}"
    for end in range(len(whole)):
        names = [call.name for call in read(whole[:end]).calls]
        assert names in ([], ["clock"]), whole[:end]


STEPS_A_CHARACTER = 12
MEGABYTE = 1_000_000
LONG = {
    "angles": "<",
    "closings": "</",
    "ticks": "` `` ",
    "fences": "```\n",
    "fence openers": "```a\n~~~b\n",
    "open tools": "<clock>",
    "open values": "<file_system><content>",
    "values without an end": "<file_system><content><content></file_system>",
    "ends without a value": "<file_system><content><content>x</content></file_system>",
    "good calls": UTC,
    "bad calls": "<clock><x>",
    "stray ends": "<clock><zone></x></y>",
    "thoughts": "<think>",
    "thoughts and ends": "<think><think></think>",
    "ends of thoughts": "<clock/></think>",
    "CDATA": "<file_system><content><![CDATA[",
    "ends of CDATA": "<file_system><content><![CDATA[]]>",
    "examples": "<example>",
    "examples and ends": "<example><example></example>",
    "comments": "<!--",
    "unknown tools": "<tool><action>",
    "blanks": "<clock> \n <zone> \n ",
    "slashes": "\\`",
    "a long name": "<a" + "b" * 200,
    "attributes": "<a b ",
    "lists": "- - 1. > ",
}


def steps(part: str, length: int) -> int:
    """How much work a reply of so many times `part` is."""
    return parse_reply((part * (length // len(part) + 1))[:length], TOOLS).steps


@pytest.mark.parametrize("part", LONG.values(), ids=LONG.keys())
def test_the_work_grows_with_the_length_alone(part: str) -> None:
    few, many = steps(part, 5_000), steps(part, 20_000)
    assert many <= STEPS_A_CHARACTER * 20_000
    assert many <= 4.5 * few + 100


def test_a_megabyte_of_angles_is_read() -> None:
    assert steps("<", MEGABYTE) <= STEPS_A_CHARACTER * MEGABYTE


def test_kinds_of_mistakes_are_all_in_the_corpus() -> None:
    assert {kind for case in CASES for kind in case.errors} == set(CallErrorKind)


def test_the_reader_takes_any_tool() -> None:
    tools: tuple[Tool, ...] = TOOLS[:1]
    assert parse_reply(UTC, tools).calls == ()
