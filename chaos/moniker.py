"""The moniker that chaos runs: each step asks the model, lets a tool act, and says which answers it was given.

A turn is some steps long. In the middle of the first one the session waits for a moment, after each turn it waits for
an input, and after the last one it is done. It ships with the harness, not with the product.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import aiohttp
from pydantic import AwareDatetime, Field

from runtime.contract import (
    Ctx,
    FrozenModel,
    Json,
    Moniker,
    MonikerError,
    MonikerName,
    StepFrame,
    StepOut,
    Wait,
    WaitForInput,
    WaitUntil,
)
from runtime.llm.port import ChatMessage, ChatRequest, data_block

NAME = MonikerName("chaos")
_PATIENCE_S = 60.0


class ChaosConfig(FrozenModel):
    """One session's plan."""

    tool_url: str
    #: steps of each turn
    steps: Annotated[int, Field(ge=1)] = 3
    #: inputs that it hears before it is done
    turns: Annotated[int, Field(ge=0)] = 1
    #: the moment that it waits for in its first turn
    wait_at: AwareDatetime | None = None


async def step(ctx: Ctx[ChaosConfig], frame: StepFrame) -> StepOut:
    """Ask, act, ask again; raises `MonikerError` when the tool cannot be reached."""
    heard = int(frame.state.get("heard", 0)) + len(frame.inputs)
    taken = 1 if frame.inputs else int(frame.state.get("taken", 0)) + 1
    first = await _ask(ctx, 1)
    effect = await _act(ctx, "effect")
    second = await _ask(ctx, 2)
    turn_ended = taken >= ctx.config.steps
    done = turn_ended and heard >= ctx.config.turns
    return StepOut(
        step=frame.step,
        next_step=str(int(frame.step) + 1),
        state={"heard": heard, "taken": taken},
        text=f"{first} {effect} {second}",
        data={"model": [first, second], "tool": effect},
        done=done,
        wait=WaitForInput() if turn_ended and not done else _pause(ctx.config, heard, taken),
    )


def _pause(config: ChaosConfig, heard: int, taken: int) -> Wait | None:
    """The moment is given from outside: the clock of the worker that looks may be wrong."""
    if config.wait_at is None or heard or taken != 1:
        return None
    return WaitUntil(time=config.wait_at)


async def _ask(ctx: Ctx[ChaosConfig], call: int) -> int:
    """The number that the stand-in model gave this answer."""
    who = {"session": ctx.session_id, "iteration": ctx.iteration, "call": call}
    message = ChatMessage(role="user", content=data_block(who))
    return int((await ctx.llm.chat(ChatRequest(purpose="chaos.ask", messages=(message,)))).text)


async def _act(ctx: Ctx[ChaosConfig], key: str) -> int:
    """The number that the stand-in tool gave this effect."""
    body = {"key": f"{ctx.session_id}:{ctx.iteration}:{key}", "worker": ctx.llm.label}
    return await ctx.record(key, partial(_post, ctx.config.tool_url, body))


async def _post(url: str, body: Json) -> int:
    limit = aiohttp.ClientTimeout(total=_PATIENCE_S)
    try:
        async with aiohttp.ClientSession(timeout=limit) as session, session.post(url, json=body) as answer:
            answer.raise_for_status()
            return int((await answer.json())["serial"])
    except (aiohttp.ClientError, TimeoutError) as error:
        raise MonikerError(f"the tool at {url} did not answer: {error}") from error


CHAOS: Moniker[Any] = Moniker(
    name=NAME,
    summary="Asks, acts and waits while the processes around it die",
    config_model=ChaosConfig,
    step=step,
)
