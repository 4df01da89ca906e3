"""A moniker that asks people, and how a test answers it."""

from __future__ import annotations

from typing import Any

from runtime.approvals.port import Answer, Question, QuestionKind
from runtime.contract import StepFrame, StepOut, WaitForApproval, WaitForInput
from store.actions import Action, ApprovalDecision
from store.agent_requests import approval_action
from store.approvals import Approval, list_approvals
from tests.runtime.kit import Workshop, out
from tests.support import eventually

PLAN: dict[str, Any] = {"kind": "plan", "question": "Shall it be done?", "editable": ["dig", "line"]}
FORM: dict[str, Any] = {
    "kind": "form",
    "question": "How deep?",
    "fields": [{"name": "depth", "kind": "number"}, {"name": "note", "required": False}],
}


class Asker:
    """Waits for an input, looks something up, asks `questions` in its step, and tells what it was answered."""

    def __init__(self, **questions: dict[str, Any]) -> None:
        self.questions = {key: Question.model_validate(asked) for key, asked in questions.items()}
        self.lookups = 0
        self.got: list[tuple[dict[str, Answer], list[str]]] = []

    async def __call__(self, ctx: Any, frame: StepFrame) -> StepOut:
        if frame.step == "1":
            return out(frame, wait=WaitForInput())
        await ctx.record("look up", self._look_up)
        answers = await ctx.ask_all(self.questions)
        self.got.append((answers, [said.text for said in frame.inputs]))
        words = ", ".join(f"{key} {one.decision.value}" for key, one in answers.items())
        return out(frame, text=words, wait=WaitForInput())

    async def _look_up(self) -> int:
        self.lookups += 1
        return self.lookups

    @property
    def decisions(self) -> list[dict[str, str]]:
        """What was decided each time."""
        return [{key: one.decision.value for key, one in answers.items()} for answers, _ in self.got]


class Waiter:
    """Waits for approval of `items` after its first step, and keeps what its next one reads."""

    def __init__(self, *items: Any) -> None:
        self.items = items
        self.read: list[tuple[dict[str, Answer], Any]] = []

    async def __call__(self, ctx: Any, frame: StepFrame) -> StepOut:
        if frame.step == "1":
            return out(frame, wait=WaitForApproval(items=self.items))
        self.read.append((dict(frame.answers), frame.guidance))
        words = ", ".join(f"{key} {one.decision.value}" for key, one in sorted(frame.answers.items()))
        return out(frame, text=words or "nothing", wait=WaitForInput())


async def asked(shop: Workshop, count: int = 1) -> list[Approval]:
    """The open questions, once there are so many."""

    async def so() -> bool:
        return len((await list_approvals(shop.db)).items) == count

    await eventually(so)
    return list((await list_approvals(shop.db)).items)


async def answer(shop: Workshop, approval: Approval, decision: str, **given: Any) -> Action:
    """Answer a question as the web process does."""
    given = {"digest": approval.digest, **given}
    return await approval_action(
        shop.db, approval.approval_id, ApprovalDecision(decision), session_id=approval.session_id, **given
    )


def question(**fields: Any) -> Question:
    """A question."""
    return Question(**{"kind": QuestionKind.PLAN, "question": "Shall it?", **fields})
