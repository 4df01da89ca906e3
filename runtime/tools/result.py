"""A call of a tool and what came of it. Both are stored, so both survive a round trip through JSON."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import Field

from runtime.ports import FrozenModel
from runtime.tools.escaping import wrap_as_data


class Call(FrozenModel):
    """One call that a model asked for. `arguments` are JSON values, not yet checked against the tool."""

    id: str
    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)


class ToolErrorKind(StrEnum):
    """Why a call gave no good answer."""

    UNKNOWN_TOOL = "unknown_tool"  # there is none of that name
    NOT_PERMITTED = "not_permitted"  # this type of agent may not use it
    CHANGED = "changed"  # it is not what a person agreed to, or that was withdrawn (S48)
    BAD_ARGUMENTS = "bad_arguments"  # they do not fit its schema
    NEEDS_APPROVAL = "needs_approval"  # a person has to agree to exactly this call first (S33)
    REJECTED = "rejected"  # a person said no, or wants it done otherwise
    TIMED_OUT = "timed_out"  # it was cancelled; what it had done by then, nobody knows
    FAILED = "failed"  # it said that it could not, or broke
    OUTPUT_TOO_LARGE = "output_too_large"  # it did its work, and its answer is too large to be shown whole


class ToolResult(FrozenModel):
    """What goes back to the model: an answer, or an error as data.

    `content` is the tool's own text and trusted by nobody; with an error it is a message of ours that says what was
    wrong and how to mend it.
    """

    call: Call
    ok: bool
    content: str
    error: ToolErrorKind | None = None
    #: characters of the answer that are not shown
    cut_chars: int = 0
    #: how often the tool was begun
    attempts: int = 0
    #: with `needs_approval`: what a person has to agree to
    approval_key: str | None = None
    #: `content` is JSON that the tool answered; otherwise it is text
    is_json: bool = False
    #: where text from outside in `content` came from (runtime/guard/taint.py)
    taint: tuple[str, ...] = ()
    #: a person changed the arguments before agreeing; `call` has theirs
    edited: bool = False

    def for_prompt(self) -> str:
        """The result as a block of data for a prompt; nothing in it can be read as structure or as a call (S35)."""
        outcome = "ok" if self.error is None else self.error.value
        if self.edited:
            outcome += ", with arguments that a person changed"
        return wrap_as_data(self.content, source=f"tool {self.call.name} ({self.call.id}): {outcome}")
