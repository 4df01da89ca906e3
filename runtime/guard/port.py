"""The port of the guard: what a gate is given, and the closed set of what it may answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType, Protocol

from runtime.llm.port import ChatReply

AgentType = NewType("AgentType", str)
GateName = NewType("GateName", str)
RuleId = NewType("RuleId", str)


class Channel(StrEnum):
    """Where a text is on its way to."""

    INPUT = "input"  # from a person, into a session
    OUTPUT = "output"  # from a model, to people
    TOOL_OUTPUT = "tool_output"  # from a tool, into a prompt
    TOOL_ARGUMENTS = "tool_arguments"  # from a model, into a tool
    MEMORY = "memory"  # from the memory, into a prompt


class Severity(StrEnum):
    """How bad a concern is."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class FailureKind(StrEnum):
    """Why a gate has no verdict."""

    TIMEOUT = "timeout"
    RAISED = "raised"
    CANCELLED = (
        "cancelled"  # the gate was cancelled from inside; a cancel from outside is no failure and passes through
    )
    MALFORMED = "malformed"  # the judge's answer, or a gate's spans, are not what they must be
    MODEL = "model"  # the judge's model could not be reached
    TOO_LONG = "too_long"  # more text than the gate reads


@dataclass(frozen=True, slots=True)
class Passage:
    """One text at a gate. `source` names where it came from ("user:7", "tool:http"); it is itself not trusted."""

    text: str
    channel: Channel
    agent_type: AgentType
    source: str
    tainted: bool = False
    #: is told of every answer of a model that a gate pays for
    paid: Callable[[ChatReply], None] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Span:
    """The characters `start` up to `end` of a text, and what to put in their place. `label` names what was found."""

    start: int
    end: int
    label: str
    replacement: str


@dataclass(frozen=True, slots=True)
class Allow:
    """Nothing to say."""


@dataclass(frozen=True, slots=True)
class Concern:
    """The text may go on once a person has looked at it; what "once" means is the caller's."""

    reason: str
    rule: RuleId
    severity: Severity


@dataclass(frozen=True, slots=True)
class Block:
    """The text goes nowhere."""

    reason: str
    rule: RuleId


@dataclass(frozen=True, slots=True)
class Redact:
    """The text may go on with some of its parts replaced. Spans lie inside the text, in order, and do not overlap."""

    spans: tuple[Span, ...]
    rule: RuleId


@dataclass(frozen=True, slots=True)
class Failed:
    """The gate has no verdict. Whether the text then passes is said by the gate's own `fail_closed`.

    `detail` names the kind of mistake and never quotes the text, which may be the secret that the gate looks for.
    """

    kind: FailureKind
    detail: str = ""


Verdict = Allow | Concern | Block | Redact | Failed


class Gate(Protocol):
    """One check of a text."""

    @property
    def name(self) -> GateName:
        """A short name for the trace, unique within a guard."""
        ...

    @property
    def fail_closed(self) -> bool:
        """Whether a text that this gate could not judge is kept back. True unless somebody chose otherwise."""
        ...

    async def judge(self, passage: Passage) -> Verdict:
        """Judge `passage`. May raise and may be cancelled at any await; the guard turns both into `Failed`.

        Promises the same verdict for the same passage as far as the gate can (a model cannot), and to keep nothing
        of it, so a step that is run again after a crash may ask again.
        """
        ...


def replaced(text: str, spans: tuple[Span, ...]) -> str:
    """`text` with every span replaced. The spans are ordered and do not overlap (`well_formed`)."""
    parts: list[str] = []
    at = 0
    for span in spans:
        parts += [text[at : span.start], span.replacement]
        at = span.end
    return "".join([*parts, text[at:]])


def well_formed(text: str, spans: tuple[Span, ...]) -> bool:
    """Whether spans are not empty, inside `text`, in order and apart from each other."""
    at = 0
    for span in spans:
        if not at <= span.start < span.end <= len(text):
            return False
        at = span.end
    return True
