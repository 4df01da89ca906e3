"""The guard of one step: what it decided is a record, so a judge is not paid twice, and traces tell every decision.

Crash before the record: the gates are asked again. After it: what they said is read. A record holds no text. Gates
of which one asks a model are not asked while a budget is spent: the session pauses, and its text waits unjudged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from runtime.approvals.port import Answer, Decision, Question, QuestionKind
from runtime.calls import RecordKind
from runtime.guard.decision import VerdictName
from runtime.guard.errors import GateFailedError
from runtime.guard.guard import Guard
from runtime.guard.judgement import Admitted, Judgement, Outcome, passed
from runtime.guard.port import AgentType, Block, Channel, FailureKind, Passage, RuleId
from runtime.guard.stored import judgement_of, written
from runtime.ports import Json
from runtime.stepcalls import StepCalls
from runtime.usage import Bill

SHOWN_CHARS = 20_000
_SOURCE_CHARS = 200
#: a failure that another try will not mend: the text is blocked
_LASTING = f"failed.{FailureKind.TOO_LONG}"
_WORDS = {
    Channel.INPUT: "what was said to this session",
    Channel.OUTPUT: "what this session is about to say",
    Channel.TOOL_OUTPUT: "what a tool answered",
    Channel.TOOL_ARGUMENTS: "what a tool is to be called with",
    Channel.MEMORY: "what was read from the memory",
}


@dataclass(frozen=True, slots=True)
class GuardService:
    """A deployment's guard. Unless it `keeps_all`, a check that nobody had anything to say to and no model was asked
    for leaves no record: it costs no commit, and said again it says the same."""

    guard: Guard
    keeps_all: bool = True


@dataclass(frozen=True, slots=True)
class Asking:
    """A text to be admitted. `editable` is what a person may change of it, `more` is shown beside it."""

    text: str
    source: str
    editable: Any = None
    more: Json = field(default_factory=dict)
    #: of its record; it is numbered when left out
    key: str = ""


@dataclass(frozen=True, slots=True)
class _Checked:
    judgement: Judgement
    #: of the question to a person: it names the text, so that an answer never counts for another one
    key: str


class StepGuard:
    """The `StepGates` of one step. Without a service every text passes."""

    def __init__(self, calls: StepCalls, service: GuardService | None, agent_type: AgentType) -> None:
        self._calls = calls
        self._service = service
        self._agent_type = agent_type

    def see(self, channel: Channel) -> bool:
        """See `StepGates.see`."""
        return self._service is not None and self._service.guard.sees(channel, self._agent_type)

    async def check(
        self, text: str, channel: Channel, source: str, *, tainted: bool = False, key: str = ""
    ) -> Judgement:
        """See `StepGates.check`."""
        return (await self._checked(Asking(text, source, key=key), channel, tainted=tainted)).judgement

    async def admit(
        self, text: str, channel: Channel, source: str, *, tainted: bool = False, key: str = ""
    ) -> Admitted:
        """See `StepGates.admit`."""
        return (await self.admit_all([Asking(text, source, key=key)], channel, tainted=tainted))[0]

    async def admit_all(self, askings: Sequence[Asking], channel: Channel, *, tainted: bool = False) -> list[Admitted]:
        """`admit` for several texts: people are asked about all of them at once."""
        checked = [await self._checked(each, channel, tainted=tainted) for each in askings]
        questions = {
            found.key: _question(asking, found.judgement, channel)
            for asking, found in zip(askings, checked, strict=True)
            if found.judgement.outcome is Outcome.CONCERN
        }
        answers = await self._calls.answers(questions) if questions else {}
        return [_admitted(found.judgement, answers.get(found.key)) for found in checked]

    async def _checked(self, asking: Asking, channel: Channel, *, tainted: bool) -> _Checked:
        key = f"gate:{channel}:{asking.key or self._calls.next_number(f'gate:{channel}')}"
        # Salted, so that equal texts of two sessions cannot be told by their digests.
        said = f"{self._calls.session.session_id}\0{key}\0{asking.text}"
        digest = hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()
        passage = Passage(asking.text, channel, self._agent_type, asking.source, tainted)
        return _Checked(await self._judged(key, digest, passage), f"{key}:{digest[:16]}")

    async def _judged(self, key: str, digest: str, passage: Passage) -> Judgement:
        service = self._service
        if service is None or not service.guard.sees(passage.channel, self._agent_type):
            return passed(passage.text)
        if service.keeps_all or service.guard.pays(passage.channel, self._agent_type):
            return await self._recorded(key, digest, passage, service.guard)
        judgement = await service.guard.check(passage)
        return judgement if judgement.is_plain else await self._recorded(key, digest, passage, judgement)

    async def _recorded(self, key: str, digest: str, passage: Passage, by: Guard | Judgement) -> Judgement:
        is_paid = isinstance(by, Guard) and by.pays(passage.channel, self._agent_type)
        bill = Bill() if is_paid else None

        async def judge() -> Json:
            asked = passage if bill is None else replace(passage, paid=bill.add)
            found = by if isinstance(by, Judgement) else await by.check(asked)
            if (said := _failure(found)) is not None:
                raise GateFailedError(said)
            return written(found)

        stored = await self._calls.recorded(
            key, judge, kind=RecordKind.GATE, digest=digest, facts=lambda result: _facts(passage, result), bill=bill
        )
        return judgement_of(stored, passage.text)


def _failure(judgement: Judgement) -> str | None:
    """Why the step has to be tried again: the block is no verdict, but the lack of one."""
    last = judgement.decisions[-1] if judgement.decisions else None
    if judgement.block is None or last is None or last.verdict is not VerdictName.FAILED or last.rule == _LASTING:
        return None
    detail = f", {last.reason}" if last.reason else ""
    return f"the gate {last.gate} has no verdict on a text of channel {last.channel} ({last.rule}{detail})"


def _facts(passage: Passage, result: Json) -> Json:
    """What traces tell: every decision, which holds no text."""
    return {
        "channel": passage.channel.value,
        "source": passage.source[:_SOURCE_CHARS],
        "outcome": result["outcome"],
        "decisions": result["decisions"],
    }


def _question(asking: Asking, judgement: Judgement, channel: Channel) -> Question:
    rules = ", ".join(sorted({concern.rule for concern in judgement.concerns}))
    return Question(
        kind=QuestionKind.CONCERN,
        question=f"The guard has doubts about {_WORDS[channel]} ({rules}). May it go on?",
        about={
            "channel": channel.value,
            "source": asking.source[:_SOURCE_CHARS],
            "reasons": [
                {"rule": concern.rule, "severity": concern.severity.value, "reason": concern.reason}
                for concern in judgement.concerns
            ],
            "text": judgement.text[:SHOWN_CHARS],
            **asking.more,
        },
        editable=judgement.text if asking.editable is None else asking.editable,
    )


def _admitted(judgement: Judgement, answer: Answer | None) -> Admitted:
    if judgement.block is not None:
        return Admitted("", judgement.block)
    if answer is not None and not answer.agrees:
        rule = judgement.concerns[0].rule if judgement.concerns else RuleId("concern")
        return Admitted("", Block("a person did not let it go on", rule))
    edited = answer.value if answer is not None and answer.decision is Decision.EDIT else None
    text = edited if isinstance(edited, str) else judgement.text
    return Admitted(text, None, judgement.redactions, edited)
