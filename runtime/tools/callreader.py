"""Reads one call: `<tool>`, then parameters with nothing but white space between them, then `</tool>`.

A parameter's content is taken byte for byte. It ends

1. in a CDATA section: at the `]]>` that its closing tag follows; `]]]]><![CDATA[>` stands for `]]>`;
2. else at its own closing tag, its name's tags in the content paired like brackets;
3. and when they do not pair up within the call: at its first closing tag that the next parameter or the end of the
   call follows.

After a mistake the rest of the call is still read, only to find where it ends: a value is never looked into for other
calls. Where even that cannot be found, the rest of the reply is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from runtime.tools.document import Document
from runtime.tools.markup import CDATA, CDATA_END, Tag
from runtime.tools.nearest import did_you_mean
from runtime.tools.reply import CallErrorKind
from runtime.tools.reserved import THOUGHT_TAGS
from runtime.tools.schema import ParamSpec, shortened
from runtime.tools.tool import Tool


@dataclass(frozen=True, slots=True)
class RawValue:
    """A parameter's content as it was written, and where it begins."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Mistake:
    """What is wrong, where, and how to mend it."""

    kind: CallErrorKind
    place: int
    message: str


@dataclass(frozen=True, slots=True)
class ReadCall:
    """A call's values, or the first mistake in it; `end` is where the call ends."""

    end: int
    values: Mapping[str, RawValue]
    mistake: Mistake | None


@dataclass(slots=True)
class CallReader:
    """Reads the call that begins with `opening`. An object for one call."""

    doc: Document
    tool: Tool
    tools: Mapping[str, Tool]
    opening: Tag
    _values: dict[str, RawValue] = field(default_factory=dict)
    _mistake: Mistake | None = None
    #: where the call's last good part ends
    _place: int = 0

    def read(self) -> ReadCall:
        """The call. Never raises, whatever the text is."""
        self._place = self.opening.end
        if self.opening.empty:
            return self._ended(self.opening.end)
        while (end := self._next_part()) is None:
            pass
        return self._ended(end)

    def _ended(self, end: int) -> ReadCall:
        return ReadCall(end, self._values, self._mistake)

    def _next_part(self) -> int | None:
        """Read up to the end of the next parameter; the call's end when there is no other."""
        tag = self.doc.tag_after(self._place)
        if tag is None or (not self._is_own_end(tag) and self._is_out_of_call(tag)):
            self._never_closed()
            return self._place
        self._refuse_text_before(tag)
        if self._is_own_end(tag):
            return tag.end
        if tag.closing:
            return self._foreign_end(tag)
        spec = next((spec for spec in self.tool.params if spec.name == tag.name), None)
        if spec is None:
            return self._foreign_opening(tag)
        return self._parameter(tag, spec)

    def _is_own_end(self, tag: Tag) -> bool:
        return tag.closing and tag.name == self.tool.name

    def _is_out_of_call(self, tag: Tag) -> bool:
        """Whether `tag` is behind this call, which then has no end: it begins the next one, or ends a thought."""
        if self._is_param(tag.name):
            return False
        if tag.closing:
            return tag.name.lower() in THOUGHT_TAGS
        if tag.name not in self.tools:
            return False
        own = self.doc.partner(self.opening)
        return own is None or own.start < tag.start

    def _is_param(self, name: str) -> bool:
        return any(spec.name == name for spec in self.tool.params)

    def _refuse_text_before(self, tag: Tag) -> None:
        place = self.doc.after_space(self._place)
        if place >= tag.start:
            return
        self.doc.step(tag.start - place)
        found = self.doc.text[place : tag.start].strip()
        self._wrong(
            CallErrorKind.STRAY_TEXT,
            place,
            f"found {shortened(found)} where only parameters may stand in <{self.tool.name}>; {self._how_to_write()}",
        )

    def _foreign_end(self, tag: Tag) -> int | None:
        self._wrong(
            CallErrorKind.WRONG_CLOSING,
            tag.start,
            f"found </{tag.name}> where </{self.tool.name}> or a parameter of it is expected; every tag is closed by "
            "its own name, and a value that holds its own closing tag is written as <![CDATA[...]]>",
        )
        self._place = tag.end
        own = self.doc.partner(self.opening)
        return None if own is not None and own.start > tag.start else tag.end

    def _foreign_opening(self, tag: Tag) -> int | None:
        if tag.name in self.tools:
            kind, found = CallErrorKind.NESTED, f"found the call <{tag.name}> inside <{self.tool.name}>"
            cure = "write one call after the other"
        else:
            kind, found = CallErrorKind.UNKNOWN_PARAMETER, f"<{self.tool.name}> has no parameter <{tag.name}>"
            cure = did_you_mean(tag.name, [spec.name for spec in self.tool.params]) or self._how_to_write()
        self._wrong(kind, tag.start, f"{found}; {cure}")
        closing = self.doc.partner(tag)
        self._place = tag.end if closing is None else closing.end
        return None

    def _parameter(self, tag: Tag, spec: ParamSpec) -> int | None:
        if tag.attributes:
            self._wrong(
                CallErrorKind.ATTRIBUTES,
                tag.start,
                f"found {shortened(tag.attributes)} in the tag <{tag.name}>; parameters have no attributes, "
                f"write <{tag.name}>value</{tag.name}>",
            )
        if spec.name in self._values:
            self._wrong(
                CallErrorKind.REPEATED_PARAMETER,
                tag.start,
                f"found <{tag.name}> a second time in one <{self.tool.name}>; give it once, or make two calls",
            )
        if tag.empty:
            self._values[spec.name] = RawValue("", tag.end)
            self._place = tag.end
            return None
        return self._value(tag)

    def _value(self, tag: Tag) -> int | None:
        begun = self.doc.after_space(tag.end)
        if self.doc.text.startswith(CDATA, begun):
            return self._cdata(tag, begun + len(CDATA))
        closing = self._closing(tag)
        if closing is None:
            return self._unclosed(tag)
        self._keep(tag, self.doc.text[tag.end : closing.start], closing)
        return None

    def _keep(self, tag: Tag, text: str, closing: Tag) -> None:
        self._values[tag.name] = RawValue(text, tag.end)
        self._place = closing.end

    def _cdata(self, tag: Tag, begun: int) -> int | None:
        """Read CDATA sections, one behind the other, up to the closing tag."""
        parts: list[str] = []
        since, at = begun, begun
        while (end := self.doc.finder.next(CDATA_END, at)) < len(self.doc.text):
            at = end + len(CDATA_END)
            if self.doc.text.startswith(CDATA, at):
                parts.append(self.doc.text[since:end])
                since = at = at + len(CDATA)
                continue
            closing = self.doc.tag_at(self.doc.after_space(at))
            if closing is not None and closing.closing and closing.name == tag.name:
                self._keep(tag, "".join([*parts, self.doc.text[since:end]]), closing)
                return None
        self._wrong(
            CallErrorKind.NOT_CLOSED,
            tag.start,
            f"the CDATA section of <{tag.name}> is not closed; end it with ]]></{tag.name}>. "
            "Nothing behind it was read, for it may belong to the value",
        )
        return len(self.doc.text)

    def _closing(self, tag: Tag) -> Tag | None:
        partner, own_end = self.doc.partner(tag), self.doc.next_close(self.tool.name, tag.end)
        if partner is not None and (own_end is None or partner.start <= own_end.start or self._goes_on(partner)):
            return partner
        if own_end is None:
            return None
        candidates = self.doc.closes_between(tag.name, tag.end, own_end.start)
        return next((close for close in candidates if self._goes_on(close)), None)

    def _goes_on(self, closing: Tag) -> bool:
        """Whether the next parameter or the end of the call follows."""
        behind = self.doc.near(closing)
        if behind is None:
            return False
        return self._is_own_end(behind) or (not behind.closing and behind.plain and self._is_param(behind.name))

    def _unclosed(self, tag: Tag) -> int:
        """The call's end after a value without one.

        At the next `</tool>`, unless a call begins before it: then that may all be the value, and none of it is run.
        """
        own_end = self.doc.next_close(self.tool.name, tag.end)
        sure = own_end is not None and not self.doc.tools_between(tag.end, own_end.start)
        rest = "" if sure else ". Nothing behind it was read, for it may belong to the value"
        self._wrong(
            CallErrorKind.NOT_CLOSED,
            tag.start,
            f"<{tag.name}> in <{self.tool.name}> is not closed; end its value with </{tag.name}>{rest}",
        )
        return own_end.end if sure and own_end is not None else len(self.doc.text)

    def _wrong(self, kind: CallErrorKind, place: int, message: str) -> None:
        """Keep the first mistake; the later ones are mostly its consequences."""
        if self._mistake is None:
            self._mistake = Mistake(kind, place, message)

    def _never_closed(self) -> None:
        if self._mistake is not None and self._mistake.kind is CallErrorKind.STRAY_TEXT:
            self._mistake = None  # what strayed into the call was the prose behind it
        message = f"<{self.tool.name}> is not closed; end the call with </{self.tool.name}>"
        self._wrong(CallErrorKind.NOT_CLOSED, self._place, message)

    def _how_to_write(self) -> str:
        if not self.tool.params:
            return f"it takes no parameters: write <{self.tool.name}></{self.tool.name}>"
        names = [spec.name for spec in self.tool.params]
        return f"write each value in its tag, as in <{names[0]}>value</{names[0]}>; its parameters: {', '.join(names)}"
