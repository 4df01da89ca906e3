from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monikers.joke import JOKE, KNOWN_JOKES, MAX_SUBJECT_CHARS, SHOWN_JOKES, JokeConfig
from runtime.contract import MonikerError, StepFrame, StepInput, WaitUntil
from runtime.llm.offline_jokes import JOKES
from runtime.llm.port import LlmError, LlmErrorKind, read_data_block
from runtime.testing import START, FakeCtx, Said, ScriptedModel, play

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def ctx(*answers: str, interval_s: float = 3) -> tuple[FakeCtx[JokeConfig], ScriptedModel]:
    model = ScriptedModel(*answers)
    return FakeCtx(JokeConfig(subject="cats", interval_s=interval_s), llm=model), model


async def test_tells_one_joke_a_step_and_rests_in_between() -> None:
    fake, model = ctx(" first \n", "second")
    outs = await play(JOKE, fake, steps=2)
    assert [(out.step, out.next_step, out.text) for out in outs] == [("1", "2", "first"), ("2", "3", "second")]
    assert [out.wait for out in outs] == [WaitUntil(time=START + timedelta(seconds=after)) for after in (3, 6)]
    assert not any(out.done for out in outs)
    assert [request.purpose for request in model.requests] == ["joke.tell", "joke.tell"]


async def test_without_an_interval_it_does_not_rest() -> None:
    fake, _ = ctx("one", interval_s=0)
    assert (await play(JOKE, fake, steps=1))[0].wait is None


@pytest.mark.parametrize(
    "said",
    [
        Said(guidance="dogs"),
        Said(guidance=" dogs \n"),
        Said(guidance={"subject": "dogs"}),
        Said(guidance={"guidance": "dogs"}),
        Said(inputs=("dogs",)),
        Said(inputs=("birds", "dogs", "  ")),
        Said(inputs=("birds",), guidance="dogs"),
    ],
)
async def test_whoever_says_something_changes_the_subject(said: Said) -> None:
    fake, model = ctx("one", "two", "three")
    outs = await play(JOKE, fake, steps=3, said={1: said})
    assert [out.state["subject"] for out in outs] == ["cats", "dogs", "dogs"]
    assert outs[1].notes == "subject changed from 'cats' to 'dogs'"
    assert outs[2].notes is None
    assert [(read_data_block(request.messages) or {})["subject"] for request in model.requests] == [
        "cats",
        "dogs",
        "dogs",
    ]


async def test_the_subject_in_an_inputs_data_counts() -> None:
    fake, _ = ctx("one")
    out = await JOKE.step(fake, StepFrame(step="1", inputs=(StepInput(text="hey", data={"subject": "dogs"}),)))
    assert out.state["subject"] == "dogs"


async def test_the_prompt_lists_what_was_told_and_the_state_stays_small() -> None:
    count = KNOWN_JOKES + 10
    fake, model = ctx(*(f"joke {number} " + "x" * 2_000 for number in range(count)))
    outs = await play(JOKE, fake, steps=count)
    told = (read_data_block(model.requests[-1].messages) or {})["told"]
    assert [joke.split(" x")[0] for joke in told] == [f"joke {n}" for n in range(count - 1 - SHOWN_JOKES, count - 1)]
    assert len(outs[-1].state["digests"]) == KNOWN_JOKES
    assert len(str(outs[-1].state)) < 3_000


async def test_a_repeated_joke_is_asked_for_once_more() -> None:
    fake, model = ctx("same", "Same ", "new")
    outs = await play(JOKE, fake, steps=2)
    assert [out.text for out in outs] == ["same", "new"]
    assert len(model.requests) == 3
    assert outs[1].notes is None


async def test_a_joke_that_comes_again_and_again_is_noted() -> None:
    fake, _ = ctx("same", "same", "same")
    assert (await play(JOKE, fake, steps=2))[1].notes == "the model repeated an earlier joke"


async def test_an_empty_answer_is_an_error_and_a_failing_model_shows_through() -> None:
    fake, _ = ctx(" \n")
    with pytest.raises(MonikerError, match=r"answered joke\.tell with nothing"):
        await play(JOKE, fake, steps=1)
    broken = FakeCtx(JokeConfig(subject="cats"), llm=ScriptedModel(LlmError(LlmErrorKind.RATE_LIMIT, "slow down")))
    with pytest.raises(LlmError):
        await play(JOKE, broken, steps=1)


async def test_the_offline_model_does_not_repeat_itself_before_its_jokes_are_all_told() -> None:
    outs = await play(JOKE, FakeCtx(JokeConfig(subject="queues")), steps=len(JOKES))
    assert len({out.text for out in outs}) == len(JOKES)
    assert all("queues" in (out.text or "").lower() for out in outs)


@given(subject=st.text(min_size=1), guidance=ANYTHING, inputs=st.lists(st.text(), max_size=2))
async def test_any_words_make_a_joke(subject: str, guidance: Any, inputs: list[str]) -> None:
    fake = FakeCtx(JokeConfig(subject=subject))
    outs = await play(JOKE, fake, steps=2, said={1: Said(inputs=tuple(inputs), guidance=guidance)})
    assert all(out.text for out in outs)
    kept = outs[-1].state["subject"]
    assert len(kept) <= MAX_SUBJECT_CHARS
    assert kept == "".join(char for char in kept if char.isprintable())
    outs[-1].model_dump_json()
