from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from monikers.echo import ECHO, EchoConfig
from runtime.contract import MAX_TEXT_CHARS, MonikerInputError, StepFrame, StepInput, WaitForInput
from runtime.testing import FakeCtx, Said, play


async def test_counts_its_steps_and_is_done_after_the_last() -> None:
    outs = await play(ECHO, FakeCtx(EchoConfig(text="hi", steps=3)), steps=10)
    assert [(out.step, out.next_step, out.text, out.done) for out in outs] == [
        ("1", "2", "hi", False),
        ("2", "3", "hi", False),
        ("3", "4", "hi", True),
    ]


async def test_without_steps_it_never_ends() -> None:
    outs = await play(ECHO, FakeCtx(EchoConfig(text="hi", steps=None)), steps=50)
    assert len(outs) == 50
    assert not any(out.done or out.wait for out in outs)


async def test_waits_for_input_and_echoes_each_one() -> None:
    ctx = FakeCtx(EchoConfig(text="hi", wait_for_input=True))
    outs = await play(ECHO, ctx, steps=10, said={1: Said(inputs=("one",)), 2: Said(inputs=("two", "three"))})
    assert [out.text for out in outs] == ["hi", "one", "two\nthree"]
    assert all(out.wait == WaitForInput() and not out.done for out in outs)


async def test_says_the_guidance_it_is_given() -> None:
    ctx = FakeCtx(EchoConfig(text="hi", steps=4))
    said = {1: Said(guidance="louder"), 2: Said(guidance={"text": "softer"}), 3: Said(guidance=[1, 2])}
    assert [out.text for out in await play(ECHO, ctx, steps=4, said=said)] == ["hi", "louder", "softer", "[1, 2]"]


async def test_the_delay_passes_on_the_clock_of_the_step() -> None:
    ctx = FakeCtx(EchoConfig(text="hi", steps=2, delay_s=0.5))
    await play(ECHO, ctx, steps=2)
    assert ctx.clock.slept == [0.5, 0.5]


async def test_the_state_grows_by_the_bytes_asked_for() -> None:
    outs = await play(ECHO, FakeCtx(EchoConfig(text="hi", steps=3, state_bytes=100)), steps=3)
    assert [len(out.state["pad"]) for out in outs] == [100, 200, 300]


async def test_a_foreign_step_token_is_refused() -> None:
    with pytest.raises(MonikerInputError, match="cannot carry on at 'plan'"):
        await ECHO.step(FakeCtx(EchoConfig(text="hi")), StepFrame(step="plan"))


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"delay_s": -1}, {"delay_s": float("nan")}, {"state_bytes": -1}])
def test_a_config_out_of_range_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        EchoConfig.model_validate({"text": "hi", **wrong})


@given(text=st.text(), inputs=st.lists(st.text(), max_size=3), guidance=st.none() | st.text())
async def test_any_text_is_echoed_as_it_is(text: str, inputs: list[str], guidance: str | None) -> None:
    frame = StepFrame(step="1", inputs=tuple(StepInput(text=said) for said in inputs), guidance=guidance)
    out = await ECHO.step(FakeCtx(EchoConfig(text=text)), frame)
    heard = [*inputs, *([] if guidance is None else [guidance])]
    assert out.text == ("\n".join(heard) if heard else text)


async def test_more_than_a_step_may_say_is_cut() -> None:
    said = StepInput(text="x" * MAX_TEXT_CHARS)
    out = await ECHO.step(FakeCtx(EchoConfig(text="hi")), StepFrame(step="1", inputs=(said, said)))
    assert out.text is not None
    assert len(out.text) == MAX_TEXT_CHARS
    assert out.text.endswith("x…")
