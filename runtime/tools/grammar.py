"""Reads a model's reply: prose with calls of tools in it, as XML (the format is spec 4's).

    I will look first.
    <file_system>
    <action>read</action>
    <path>notes.md</path>
    </file_system>

Which tags are calls is decided by the names of the known tools and their parameters; every other tag is prose. What
stands in a quote is never run: fenced code, code spans, block quotes, comments, CDATA, and the tags that
`runtime.tools.reserved` lists. Where it is in doubt whether something is quoted, or where a value ends, nothing is run
and an error says so.

The reader goes from left to right over the tokens of `runtime.tools.markup`; `CallReader` reads what is inside a call.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import assert_never

from runtime.tools.callreader import CallReader, ReadCall
from runtime.tools.convert import value_of
from runtime.tools.document import Document
from runtime.tools.errors import ArgumentsError
from runtime.tools.lookalikes import is_foreign_format, looks_like_call, looks_like_parameter
from runtime.tools.markup import Aside, Fence, QuotedLine, Tag, Ticks, Token
from runtime.tools.nearest import did_you_mean
from runtime.tools.reply import CallError, CallErrorKind, Piece, PieceKind, Reply
from runtime.tools.reserved import QUOTING_TAGS, THOUGHT_TAGS, WRAPPER_TAGS
from runtime.tools.result import Call
from runtime.tools.tool import Tool

_KEPT = frozenset({PieceKind.PROSE, PieceKind.QUOTE})


def parse_reply(text: str, tools: Iterable[Tool]) -> Reply:
    """Read a reply in which `tools` may be called. Never raises; takes time in proportion to the text's length.

    The calls are in the reply's order; one that is wrong is an error and leaves the others alone. Arguments are JSON
    values that the tool's own check has accepted.
    """
    return _Reader(text, {tool.name: tool for tool in tools}).read()


@dataclass(frozen=True, slots=True)
class _Mark:
    """How far a reply was read, and how much had been found by then."""

    place: int = 0
    pieces: int = 0
    calls: int = 0
    errors: int = 0
    quoted: int = 0


class _Reader:
    """One pass over one reply."""

    def __init__(self, text: str, tools: dict[str, Tool]) -> None:
        self._text = text
        self._tools = tools
        self._doc = Document(text, tools)
        self._params = frozenset(spec.name for tool in tools.values() for spec in tool.params)
        self._pieces: list[Piece] = []
        self._calls: list[Call] = []
        self._errors: list[CallError] = []
        self._thoughts: list[str] = []
        self._quoted: list[str] = []
        #: everything before it has been read
        self._place = 0
        #: where the last thought ended, and what had been found by then
        self._since = _Mark()
        #: ends of thoughts that are still to come: one at the start, for a thought whose beginning was in the prompt
        self._ends_owed = 1

    def read(self) -> Reply:
        """The whole reply."""
        for number, token in enumerate(self._doc.tokens):
            if token.start >= self._place:
                self._token(number, token)
        self._prose_up_to(len(self._text))
        return Reply(
            text="".join(self._text[piece.start : piece.end] for piece in self._pieces if piece.kind in _KEPT).strip(),
            thoughts=tuple(filter(None, map(str.strip, self._thoughts))),
            calls=tuple(call.model_copy(update={"id": f"call-{n}"}) for n, call in enumerate(self._calls, 1)),
            errors=tuple(self._errors),
            quoted=tuple(self._quoted),
            pieces=tuple(self._pieces),
            steps=self._doc.steps,
        )

    def _token(self, number: int, token: Token) -> None:
        match token:
            case Tag():
                self._tag(token)
            case Ticks():
                end = self._doc.closed_span(token)
                if end is not None:
                    self._take(PieceKind.QUOTE, token.start, end)
                elif token.is_fence_behind_words:
                    # Where such a fence ends is in doubt: read strictly, the line that is meant to close it opens one.
                    self._quote(token.start, None, "a code fence that begins behind words")
            case Fence():
                self._fence(number, token)
            case QuotedLine():
                self._quote(token.start, token.end, "the quote")
            case Aside():
                end = self._doc.finder.next(token.closer, token.end) + len(token.closer)
                self._quote(token.start, None if end > len(self._text) else end, self._text[token.start : token.end])
            case _:
                assert_never(token)

    # --- tags of the prose ---

    def _tag(self, tag: Tag) -> None:
        name = tag.name.lower()
        if name in THOUGHT_TAGS:
            self._thought(tag)
        elif name in QUOTING_TAGS and tag.opens:
            partner = self._doc.partner(tag)
            self._quote(tag.start, None if partner is None else partner.end, f"<{tag.name}>")
        elif tag.name in self._tools and not tag.closing:
            self._tool_tag(tag, self._tools[tag.name])
        elif is_foreign_format(tag, self._doc):
            self._foreign(tag)
        elif name in WRAPPER_TAGS:
            self._take(PieceKind.MARK, tag.start, tag.end)
        elif looks_like_call(tag, self._doc, self._params):
            self._unknown(tag)

    def _tool_tag(self, tag: Tag, tool: Tool) -> None:
        if tag.attributes:
            self._with_attributes(tag)
        elif self._is_call(tag, tool):
            self._call(tag, tool)

    def _is_call(self, tag: Tag, tool: Tool) -> bool:
        """Whether a tool's tag is more than a mention of its name."""
        if tag.empty or self._doc.partner(tag) is not None:
            return True
        behind = self._doc.near(tag)
        if behind is None or behind.closing:
            return False
        return any(spec.name == behind.name for spec in tool.params) or looks_like_parameter(behind, self._doc)

    def _call(self, tag: Tag, tool: Tool) -> None:
        read = CallReader(self._doc, tool, self._tools, tag).read()
        if read.mistake is not None:
            self._bad(read.mistake.kind, tool.name, tag.start, read.end, read.mistake.message, at=read.mistake.place)
            return
        arguments = {
            spec.name: value_of(read.values[spec.name].text, spec) for spec in tool.params if spec.name in read.values
        }
        try:
            tool.checked(arguments)
        except ArgumentsError as error:
            self._bad_arguments(tag, tool, read, error)
            return
        self._take(PieceKind.CALL, tag.start, read.end)
        self._calls.append(Call(id="", name=tool.name, arguments=arguments))

    def _bad_arguments(self, tag: Tag, tool: Tool, read: ReadCall, error: ArgumentsError) -> None:
        expected = "; ".join(
            f"<{spec.name}> is {spec.kind}{'' if spec.required else ' (may be left out)'}" for spec in tool.params
        )
        message = f"<{tool.name}> was not run: {'; '.join(error.problems)}. {expected or 'It takes no parameters'}"
        place = next(
            (read.values[name].start for name in map(_parameter, error.problems) if name in read.values), tag.start
        )
        self._bad(CallErrorKind.BAD_ARGUMENTS, tool.name, tag.start, read.end, message, at=place)

    def _with_attributes(self, tag: Tag) -> None:
        if "=" not in tag.attributes:  # words between angles, not a tag
            return
        partner = None if tag.empty else self._doc.partner(tag)
        message = (
            f"found attributes in <{tag.name}>, where they are not read; write each parameter as a tag of its own "
            f"inside <{tag.name}>...</{tag.name}>"
        )
        self._bad(CallErrorKind.ATTRIBUTES, tag.name, tag.start, partner.end if partner else tag.end, message)

    def _unknown(self, tag: Tag) -> None:
        partner = self._doc.partner(tag)
        known = did_you_mean(tag.name, list(self._tools)) or f"there are {', '.join(sorted(self._tools)) or 'none'}"
        message = f"there is no tool <{tag.name}>; {known}"
        self._bad(CallErrorKind.UNKNOWN_TOOL, tag.name, tag.start, partner.end if partner else tag.end, message)

    def _foreign(self, tag: Tag) -> None:
        partner = self._doc.partner(tag)
        message = (
            f"<{tag.name}> is not how tools are called here; write the tool's name as the tag and each parameter as a "
            "tag inside it: <tool_name><parameter>value</parameter></tool_name>"
        )
        self._bad(CallErrorKind.FOREIGN_FORMAT, None, tag.start, partner.end if partner else tag.end, message)

    # --- thoughts ---

    def _thought(self, tag: Tag) -> None:
        if tag.empty:
            self._take(PieceKind.MARK, tag.start, tag.end)
        elif tag.closing:
            self._end_of_thought(tag)
        else:
            self._whole_thought(tag)

    def _whole_thought(self, tag: Tag) -> None:
        closing = self._doc.end_of_thought(tag.end)
        end = len(self._text) if closing is None else closing.end
        self._thoughts.append(self._text[tag.end : end if closing is None else closing.start])
        self._take(PieceKind.THOUGHT, tag.start, end)
        if closing is None:
            self._error(
                CallErrorKind.NOT_CLOSED,
                None,
                tag.start,
                f"<{tag.name}> is not closed, so all behind it is taken for a thought; end it with </{tag.name}> and "
                "write calls and answer behind that",
            )
            return
        inner = [one for one in self._doc.thought_tags(tag.end, closing.start) if one.opens]
        self._ends_owed = len(inner)
        self._since = self._mark()

    def _end_of_thought(self, tag: Tag) -> None:
        """An end without a beginning.

        The beginning was in the prompt, or inside the last thought: what was read since then was a thought too, and
        what looked like calls in it must not run. A further end means nothing.
        """
        if not self._ends_owed:
            self._take(PieceKind.MARK, tag.start, tag.end)
            return
        self._ends_owed -= 1
        withdrawn = self._calls[self._since.calls :]
        del self._pieces[self._since.pieces :], self._calls[self._since.calls :], self._errors[self._since.errors :]
        del self._quoted[self._since.quoted :]
        self._place = self._since.place
        self._thoughts.append(self._text[self._place : tag.start])
        self._take(PieceKind.THOUGHT, self._since.place, tag.end)
        if withdrawn:
            names = ", ".join(call.name for call in withdrawn)
            message = f"calls before </{tag.name}> are thoughts and were not run ({names}); write them behind it"
            self._error(CallErrorKind.IN_THOUGHT, withdrawn[0].name, tag.start, message)
        self._since = self._mark()

    def _mark(self) -> _Mark:
        return _Mark(self._place, len(self._pieces), len(self._calls), len(self._errors), len(self._quoted))

    # --- pieces ---

    def _fence(self, number: int, fence: Fence) -> None:
        self._quote(fence.start, self._doc.end_of_fence(number, fence), f"the code fence {fence.letter * 3}")

    def _quote(self, start: int, end: int | None, what: str) -> None:
        """Take a quote; one without an end reaches to the end of the reply, or of the thought that it is in."""
        thought = self._doc.end_of_thought(start) if end is None and self._ends_owed else None
        if thought is not None:
            end = thought.start
        self._take(PieceKind.QUOTE, start, len(self._text) if end is None else end)
        tools = self._doc.tools_between(start, self._place)
        if end is None and tools:
            message = (
                f"{what} is not closed, so <{tools[0]}> behind it is quoted and was not run; close it, and begin and "
                "end fences on lines of their own"
            )
            self._error(CallErrorKind.OPEN_QUOTE, tools[0], start, message)

    def _bad(
        self, kind: CallErrorKind, tool: str | None, start: int, end: int, message: str, at: int | None = None
    ) -> None:
        self._take(PieceKind.BAD_CALL, start, end)
        self._error(kind, tool, start if at is None else at, message)
        self._errors[-1] = replace(self._errors[-1], source=self._text[start:end])

    def _error(self, kind: CallErrorKind, tool: str | None, at: int, message: str) -> None:
        where = self._doc.position(at)
        sentence = message if message.endswith("?") else f"{message.rstrip('.')}."
        self._errors.append(CallError(kind, tool, where, f"{where}: {sentence}"))

    def _take(self, kind: PieceKind, start: int, end: int) -> None:
        self._prose_up_to(start)
        if end > start:
            self._pieces.append(Piece(kind, start, end))
            self._place = end
        if kind is PieceKind.QUOTE:
            self._quoted.extend(self._doc.tools_between(start, end))

    def _prose_up_to(self, end: int) -> None:
        if end > self._place:
            self._pieces.append(Piece(PieceKind.PROSE, self._place, end))
            self._place = end


def _parameter(problem: str) -> str:
    """The parameter that a problem begins with."""
    return problem.partition(":")[0].partition(".")[0]
