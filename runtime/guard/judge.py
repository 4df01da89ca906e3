"""The model judge, ConstitutionalGuardian of spec 4: a model reads the text beside the principles that hold for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from runtime.guard.judging import Principle, messages, read_verdict
from runtime.guard.port import Allow, Failed, FailureKind, GateName, Passage, Verdict
from runtime.llm.port import ChatModel, ChatRequest, LlmError

NAME = GateName("constitutional_guardian")
PURPOSE = "guard.judge"


@dataclass(frozen=True, slots=True)
class JudgeGate:
    """Asks `model`. `nonce` gives 8 to 64 fresh letters and digits; `deadline_s` is the call's, in seconds.

    A model is no wall: a text may talk it round. It can not answer in the model's place: the verdict is only what the
    model's whole answer is, and every "<" of the text is written as an escape. Redact secrets before, it sees all else.
    """

    model: ChatModel
    principles: tuple[Principle, ...]
    nonce: Callable[[], str]
    deadline_s: float = 20.0
    max_characters: int = 20_000
    max_tokens: int = 300
    name: GateName = NAME
    fail_closed: bool = True

    async def judge(self, passage: Passage) -> Verdict:
        """The model's verdict; `Failed` when it has none. Without a principle for the agent's type, allow unasked."""
        principles = [each for each in self.principles if each.applies(passage.agent_type)]
        if not principles:
            return Allow()
        if len(passage.text) > self.max_characters:
            return Failed(
                FailureKind.TOO_LONG, f"{len(passage.text)} characters; the judge reads {self.max_characters}"
            )
        request = ChatRequest(
            purpose=PURPOSE,
            messages=messages(passage, principles, self.nonce()),
            max_tokens=self.max_tokens,
            temperature=0.0,
            deadline_s=self.deadline_s,
        )
        try:
            reply = await self.model.chat(request)
        except LlmError as error:
            return Failed(FailureKind.MODEL, error.kind.value)
        if passage.paid is not None:
            passage.paid(reply)
        return read_verdict(reply.text, principles)
