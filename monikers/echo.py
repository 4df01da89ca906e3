"""Says its text again and again: the smallest moniker, for trying out and measuring the runtime."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from monikers.words import as_words, clip
from runtime.contract import (
    MAX_TEXT_CHARS,
    Ctx,
    FrozenModel,
    Json,
    Moniker,
    MonikerInputError,
    MonikerName,
    StepFrame,
    StepOut,
    WaitForInput,
)


class EchoConfig(FrozenModel):
    """What to say, how often and at what cost."""

    text: Annotated[str, Field(max_length=MAX_TEXT_CHARS, description="What to say")]
    steps: Annotated[int, Field(ge=1, description="How many steps; null never ends")] | None = 1
    delay_s: Annotated[float, Field(ge=0, le=3600, description="Seconds each step takes")] = 0
    wait_for_input: Annotated[bool, Field(description="Afterwards wait, and echo each input")] = False
    state_bytes: Annotated[int, Field(ge=0, le=1_000_000, description="Growth of the state per step")] = 0


async def step(ctx: Ctx[EchoConfig], frame: StepFrame) -> StepOut:
    """Say the text, or what was just said to the session.

    Raises `MonikerInputError` when the step token is not a number.
    """
    config, number = ctx.config, _number(frame.step)
    if config.delay_s:
        await ctx.clock.sleep(config.delay_s)
    over = config.steps is not None and number >= config.steps
    return StepOut(
        step=frame.step,
        next_step=str(number + 1),
        state=_state(config, number),
        text=config.text if frame.guidance is None and not frame.inputs else _heard(frame),
        done=over and not config.wait_for_input,
        wait=WaitForInput() if over and config.wait_for_input else None,
    )


def _number(token: str) -> int:
    try:
        return int(token)
    except ValueError:
        raise MonikerInputError(f"echo counts its steps 1, 2, 3, ...; it cannot carry on at {token!r}") from None


def _state(config: EchoConfig, number: int) -> Json:
    return {"count": number, "pad": "x" * (config.state_bytes * number)} if config.state_bytes else {"count": number}


def _heard(frame: StepFrame) -> str:
    heard = [given.text for given in frame.inputs]
    if frame.guidance is not None:
        heard.append(as_words(frame.guidance))
    return clip("\n".join(heard))


ECHO = Moniker(
    name=MonikerName("echo"),
    summary="Says its text a number of times, or whatever it is told.",
    config_model=EchoConfig,
    step=step,
    takes_input="any_step",
    task_field="text",
    example={"text": "Hello from the well", "steps": 3},
)
