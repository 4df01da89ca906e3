"""What a reply of a model says: prose, thoughts, calls, and calls that could not be read, with the way to mend them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from runtime.tools.document import Position
from runtime.tools.result import Call


class CallErrorKind(StrEnum):
    """Why something that looks like a call was not taken for one."""

    UNKNOWN_TOOL = "unknown_tool"
    UNKNOWN_PARAMETER = "unknown_parameter"
    REPEATED_PARAMETER = "repeated_parameter"
    STRAY_TEXT = "stray_text"
    WRONG_CLOSING = "wrong_closing"
    NOT_CLOSED = "not_closed"
    NESTED = "nested"
    ATTRIBUTES = "attributes"
    BAD_ARGUMENTS = "bad_arguments"
    FOREIGN_FORMAT = "foreign_format"
    IN_THOUGHT = "in_thought"
    OPEN_QUOTE = "open_quote"


@dataclass(frozen=True, slots=True)
class CallError:
    """One thing that went wrong. `message` is a whole sentence for the model: where, what was found, how to mend it."""

    kind: CallErrorKind
    tool: str | None
    at: Position
    message: str
    #: the text that was taken out of the prose because of it, byte for byte
    source: str = ""


class PieceKind(StrEnum):
    """What a piece of a reply is."""

    PROSE = "prose"
    QUOTE = "quote"  # shown with the prose, never read for calls
    THOUGHT = "thought"
    CALL = "call"
    BAD_CALL = "bad_call"
    MARK = "mark"  # a tag that means nothing and is not shown


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a reply, by its place. The pieces of a reply lie side by side and are all of it: nothing is lost."""

    kind: PieceKind
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply that was read."""

    #: the prose with its quotes, without calls and thoughts; white space at both ends is taken off
    text: str
    thoughts: tuple[str, ...]
    calls: tuple[Call, ...]
    errors: tuple[CallError, ...]
    #: tools whose tags stand in quotes, in order. When no call was found, the model may have quoted what it meant.
    quoted: tuple[str, ...] = ()
    pieces: tuple[Piece, ...] = ()
    #: how much work it was to read; grows with the length of the text and nothing else
    steps: int = 0
