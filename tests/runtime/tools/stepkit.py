"""A moniker that calls tools in its second step, on a real worker, and people who answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from runtime.approvals.port import Decision
from runtime.contract import StepFrame, StepOut, WaitForInput
from runtime.tools.result import Call, ToolResult
from store.actions import Action, ApprovalDecision
from store.agent_requests import approval_action
from store.agent_state import SessionStatus
from store.approvals import Approval, list_approvals
from store.records import Record, list_records
from tests.runtime.kit import Gate, Workshop, moniker, out
from tests.support import eventually

Calls = Callable[[StepFrame], Sequence[Call]]


def call(name: str, number: int = 1, **arguments: Any) -> Call:
    return Call(id=f"c{number}", name=name, arguments=arguments)


def tools_file(folder: Path, text: str) -> str:
    """A `tools.toml` beside the store."""
    file = folder.parent / f"{folder.name}-tools.toml"
    file.write_text(text)
    return str(file)


class Caller:
    """Waits for an input, then calls what it was given and keeps what came of it."""

    def __init__(self, *calls: Call) -> None:
        self.calls = calls
        self.results: list[tuple[ToolResult, ...]] = []
        self.gate = Gate()
        self.gate.open()

    def moniker(self, name: str = "m") -> Any:
        return moniker(name, self)

    async def __call__(self, ctx: Any, frame: StepFrame) -> StepOut:
        if frame.step == "1":
            return out(frame, wait=WaitForInput())
        results = await ctx.tools.call_all(self.calls)
        await self.gate.passing()
        self.results.append(results)
        return out(frame, text=" | ".join(result.content for result in results), wait=WaitForInput())


async def said(shop: Workshop, caller: Caller, **spec: Any) -> Action:
    """Create the session and have it make its calls."""
    await shop.create("m", **spec)
    await shop.until(SessionStatus.WAITING)
    return await shop.say("go")


async def question(shop: Workshop, count: int = 1) -> Approval:
    """The one open question, once it is asked."""
    return (await questions(shop, count))[0]


async def questions(shop: Workshop, count: int) -> tuple[Approval, ...]:
    async def so() -> bool:
        return len((await list_approvals(shop.db)).items) == count

    await eventually(so)
    return (await list_approvals(shop.db)).items


async def answered(
    shop: Workshop, asked: Approval, decision: Decision, value: Any = None, feedback: str | None = None
) -> Action:
    """A person's answer."""
    return await approval_action(
        shop.db,
        asked.approval_id,
        ApprovalDecision(decision.value),
        value=value,
        feedback=feedback,
        by="ann",
        session_id=asked.session_id,
    )


async def records(shop: Workshop, since: int = 0) -> list[Record]:
    """Every record of the session's steps."""
    steps = len(await shop.steps())
    state = await shop.state()
    return await list_records(shop.db, state.session_id, steps, since_iteration=since)
