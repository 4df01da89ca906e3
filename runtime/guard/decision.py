"""What a trace keeps of a gate's decision: everything but the text."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, assert_never

from runtime.guard.port import Allow, Block, Channel, Concern, Failed, GateName, Passage, Redact, RuleId, Verdict

MAX_REASON_CHARS = 500


class VerdictName(StrEnum):
    """A verdict's name in the trace."""

    ALLOW = "allow"
    CONCERN = "concern"
    BLOCK = "block"
    REDACT = "redact"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Mark:
    """Where something was found, and what kind of thing; not what it said."""

    start: int
    end: int
    label: str


@dataclass(frozen=True, slots=True)
class Decision:
    """One gate's answer to one passage. Positions are those of the text that this gate saw.

    `digest` is a keyed hash, so that nobody who reads traces can try short secrets against it.
    """

    gate: GateName
    channel: Channel
    verdict: VerdictName
    rule: RuleId
    reason: str
    held_back: bool
    latency_ms: float
    digest: str
    chars: int
    marks: tuple[Mark, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The decision as JSON values, for a trace."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Notary:
    """Writes decisions. `key` keys the digests; `scrub` takes secrets out of reasons, which models may write."""

    key: bytes
    scrub: Callable[[str], str]

    def __post_init__(self) -> None:
        if not 16 <= len(self.key) <= 64:
            raise ValueError(f"the key of the digests has {len(self.key)} bytes: give 16 to 64 random ones")

    def note(
        self, gate: GateName, passage: Passage, verdict: Verdict, *, held_back: bool, latency_ms: float
    ) -> Decision:
        """The record of `verdict`."""
        name, rule, reason = _told(verdict)
        spans = verdict.spans if isinstance(verdict, Redact) else ()
        return Decision(
            gate=gate,
            channel=passage.channel,
            verdict=name,
            rule=rule,
            reason=self.scrub(reason)[:MAX_REASON_CHARS],
            held_back=held_back,
            latency_ms=latency_ms,
            digest=self.digest(passage.text),
            chars=len(passage.text),
            marks=tuple(Mark(span.start, span.end, span.label) for span in spans),
        )

    def digest(self, text: str) -> str:
        """A keyed hash of any text, lone surrogates included."""
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=self.key, digest_size=16).hexdigest()


def _told(verdict: Verdict) -> tuple[VerdictName, RuleId, str]:
    match verdict:
        case Allow():
            return VerdictName.ALLOW, RuleId(""), ""
        case Concern(reason, rule, severity):
            return VerdictName.CONCERN, rule, f"{severity}: {reason}"
        case Block(reason, rule):
            return VerdictName.BLOCK, rule, reason
        case Redact(spans, rule):
            return VerdictName.REDACT, rule, f"{len(spans)} replaced"
        case Failed(kind, detail):
            return VerdictName.FAILED, RuleId(f"failed.{kind}"), detail
        case _ as other:
            assert_never(other)
