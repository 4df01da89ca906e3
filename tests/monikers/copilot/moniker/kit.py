"""A copilot session without a store: people talk, agents are answered by a script, and the clock moves when told."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

from monikers.copilot.moniker import COPILOT, CopilotConfig
from runtime.contract import Json, StepFrame, StepInput, StepOut, WaitUntil
from runtime.guard.fake import FakeGuard
from runtime.guard.port import Channel
from runtime.llm.port import ChatReply, ChatRequest, LlmError, Usage
from runtime.testing import FakeClock, FakeCtx, FakeModel

Answer = Json | str | LlmError | Exception | Callable[[ChatRequest], Json]
_ID = re.compile(r"AGENT (\S+)")
QUIET: Json = {"has_insight": False}


def advice(content: str = "Ask why.", **fields: Any) -> Json:
    """An answer with an insight."""
    return {"has_insight": True, "content": content, "type": "suggestion", **fields}


def agent(agent_id: str, mode: Any = "turn_based", **fields: Any) -> Json:
    """A definition that the scripted model knows by its id."""
    trigger = {"mode": mode, "cooldown": 0, **fields.pop("trigger_config", {})}
    return {"id": agent_id, "name": agent_id.title(), "text": f"AGENT {agent_id}", "trigger_config": trigger, **fields}


class Panel:
    """A chat model that answers each agent as a test says, and nothing to the others."""

    label = "panel"

    def __init__(self, **answers: Answer) -> None:
        self.answers: dict[str, Answer] = answers
        self.requests: list[ChatRequest] = []
        self.asked: list[str] = []

    async def chat(self, request: ChatRequest) -> ChatReply:
        """The answer of the agent whose prompt it is."""
        agent_id = agent_of(request)
        self.asked.append(agent_id)
        self.requests.append(request)
        answer = self.answers.get(agent_id, QUIET)
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            answer = answer(request)
        text = answer if isinstance(answer, str) else json.dumps(answer)
        return ChatReply(text=text, model=self.label, usage=Usage(input_tokens=10, output_tokens=2, calls=1))


def agent_of(request: ChatRequest) -> str:
    """Whose prompt a request is."""
    found = _ID.search(request.messages[0].content)
    assert found is not None, request.messages[0].content
    return found.group(1)


class TalkClock(FakeClock):
    """Time that moves only when a test says so: nobody's sleep moves it."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.Event().wait()


class NoGates(FakeGuard):
    """A deployment without a guard."""

    def see(self, channel: Channel) -> bool:
        return False


class Talk:
    """One session, carried from step to step as a runner does."""

    def __init__(self, model: Panel | None = None, **config: Any) -> None:
        self.panel = model or Panel()
        self.ctx: FakeCtx[CopilotConfig] = FakeCtx(
            CopilotConfig(**config), llm=FakeModel(self.panel), clock=TalkClock(), guard=NoGates()
        )
        self.state: Json = {}
        self.outs: list[StepOut] = []

    async def step(self, *inputs: StepInput, guidance: Any = None) -> StepOut:
        """Take one step; its state has been through JSON."""
        self.ctx.iteration = len(self.outs)
        self.ctx.records.clear()
        return await self.again(*inputs, guidance=guidance)

    async def again(self, *inputs: StepInput, guidance: Any = None) -> StepOut:
        """Take a step with the records that there are, as after a crash."""
        frame = StepFrame(step="listen", state=json.loads(json.dumps(self.state)), inputs=inputs, guidance=guidance)
        out = await COPILOT.step(self.ctx, frame)
        self.outs.append(out)
        self.state = json.loads(json.dumps(out.state))
        return out

    async def say(self, text: str, speaker: str = "ANN", *, after: float = 1.0, **segment: Any) -> StepOut:
        """Somebody says something, `after` seconds later."""
        self.ctx.clock.advance(after)
        return await self.step(said(text, speaker, **segment))

    async def command(self, text: str = "", **data: Any) -> StepOut:
        """A program asks for something."""
        return await self.step(StepInput(text=text, data=data))

    async def wake(self) -> StepOut:
        """Wait for what the last step waits for, and take the next one."""
        wait = self.outs[-1].wait
        assert isinstance(wait, WaitUntil), wait
        self.ctx.clock.advance((wait.time - self.ctx.clock.now()).total_seconds())
        return await self.step()

    @property
    def waits_s(self) -> float | None:
        """How many seconds it sleeps; None when it waits for somebody to speak."""
        wait = self.outs[-1].wait
        return (wait.time - self.ctx.clock.now()).total_seconds() if isinstance(wait, WaitUntil) else None

    @property
    def is_due(self) -> bool:
        """Whether the moment that it waits for has come."""
        return self.waits_s is not None and self.waits_s <= 0


def said(text: str, speaker: str = "ANN", **segment: Any) -> StepInput:
    """A segment as a post brings it."""
    return StepInput(text=text, data={"segment": {"speaker": speaker, **segment}})


def insights(out: StepOut) -> list[Json]:
    """What a step tells people."""
    assert out.data is not None
    found: list[Json] = out.data["insights"]
    return found


def ran(out: StepOut) -> list[str]:
    """Who ran in a step, in order."""
    return [run["agent_id"] for phase in _phases(out) for run in phase["ran"]]


def skipped(out: StepOut) -> dict[str, str]:
    """Who did not, and why."""
    return {one["agent_id"]: one["reason"] for phase in _phases(out) for one in phase["skipped"]}


def _phases(out: StepOut) -> list[Json]:
    assert out.data is not None
    return [phase for turn in out.data["turns"] for phase in turn["phases"]]
