from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from monikers.summarize import FINAL, KEPT_SUMMARY_CHARS, MAX_SECTIONS, SUMMARIZE, SummarizeConfig
from runtime.contract import MonikerError, MonikerInputError, StepFrame
from runtime.llm.port import ChatRequest, read_data_block
from runtime.testing import FakeCtx, FakeFiles, Said, ScriptedModel, play

TEXT = "# One\nThe cat sat on the mat.\n# Two\nThe dog ran to the river.\n"


def shown(request: ChatRequest) -> dict[str, Any]:
    return read_data_block(request.messages) or {}


async def test_summarises_section_by_section_and_then_the_whole() -> None:
    model = ScriptedModel("about cats", "about dogs", "about both")
    outs = await play(SUMMARIZE, FakeCtx(SummarizeConfig(text=TEXT), llm=model), steps=10)
    assert [(out.step, out.next_step, out.text, out.done) for out in outs] == [
        ("1", "2", "about cats", False),
        ("2", FINAL, "about dogs", False),
        (FINAL, FINAL, "about both", True),
    ]
    assert outs[0].data == {"section": "1", "title": "One", "chars": 29, "summary": "about cats"}
    assert outs[2].data == {"section": FINAL, "title": "Summary", "chars": len(TEXT), "summary": "about both"}
    assert [request.purpose for request in model.requests] == ["summarize.section"] * 2 + ["summarize.merge"]
    assert [part["summary"] for part in shown(model.requests[2])["sections"]] == ["about cats", "about dogs"]


async def test_a_long_section_is_read_in_parts() -> None:
    text = "# One\nx\n# Two\n" + "word " * 100
    outs = await play(SUMMARIZE, FakeCtx(SummarizeConfig(text=text, max_section_chars=200)), steps=10)
    assert [out.step for out in outs] == ["1", "2.1", "2.2", "2.3", FINAL]
    assert [out.next_step for out in outs] == ["2.1", "2.2", "2.3", FINAL, FINAL]


async def test_the_state_holds_offsets_and_summaries_but_not_the_text() -> None:
    model = ScriptedModel("s" * 10_000, "short", "whole")
    outs = await play(SUMMARIZE, FakeCtx(SummarizeConfig(text=TEXT), llm=model), steps=3)
    assert all("cat sat" not in str(out.state) for out in outs)
    assert len(outs[0].state["summaries"][0]) == KEPT_SUMMARY_CHARS


async def test_a_step_repeated_after_a_crash_does_the_same_again() -> None:
    outs = await play(SUMMARIZE, FakeCtx(SummarizeConfig(text=TEXT)), steps=1)
    frame = StepFrame(step=outs[0].next_step, state=outs[0].state)
    first = await SUMMARIZE.step(FakeCtx(SummarizeConfig(text=TEXT)), frame)
    assert await SUMMARIZE.step(FakeCtx(SummarizeConfig(text=TEXT)), frame) == first
    assert first.step == "2"


async def test_the_task_and_the_guidance_go_into_every_later_section() -> None:
    model = ScriptedModel("a", "b", "c")
    ctx = FakeCtx(SummarizeConfig(text=TEXT), llm=model, task="for children")
    await play(SUMMARIZE, ctx, steps=3, said={1: Said(guidance="focus on costs"), 2: Said(inputs=("be short",))})
    assert [shown(request)["guidance"] for request in model.requests] == [
        ["for children"],
        ["for children", "focus on costs"],
        ["for children", "focus on costs", "be short"],
    ]


async def test_a_file_is_read_through_the_context() -> None:
    ctx = FakeCtx(SummarizeConfig(path="a.md"), files=FakeFiles({"a.md": TEXT}))
    outs = await play(SUMMARIZE, ctx, steps=5)
    assert [out.text for out in outs[:2]] == ["The cat sat on the mat.", "The dog ran to the river."]
    assert outs[-1].done


async def test_a_file_that_changed_meanwhile_stops_the_session() -> None:
    ctx = FakeCtx(SummarizeConfig(path="a.md"), files=FakeFiles({"a.md": TEXT}))
    outs = await play(SUMMARIZE, ctx, steps=1)
    ctx.files["a.md"] = TEXT + "!"
    with pytest.raises(MonikerInputError, match=r"a\.md changed while it was being read"):
        await SUMMARIZE.step(ctx, StepFrame(step="2", state=outs[0].state))


@pytest.mark.parametrize(
    ("files", "message"), [({}, "no such file"), ({"a.md": ""}, "file is empty"), ({"a.md": " \n"}, "file is empty")]
)
async def test_a_file_without_words_is_refused(files: dict[str, str], message: str) -> None:
    ctx = FakeCtx(SummarizeConfig(path="a.md"), files=FakeFiles(files))
    with pytest.raises(MonikerInputError, match=message):
        await play(SUMMARIZE, ctx, steps=1)


async def test_too_many_sections_are_refused_with_the_cure() -> None:
    text = "".join(f"# Heading {number}\nx\n" for number in range(MAX_SECTIONS + 1))
    with pytest.raises(MonikerInputError, match=r"201 sections and at most 200.*max_section_chars"):
        await play(SUMMARIZE, FakeCtx(SummarizeConfig(text=text)), steps=1)


async def test_an_empty_answer_is_an_error() -> None:
    with pytest.raises(MonikerError, match=r"summarize\.section with nothing"):
        await play(SUMMARIZE, FakeCtx(SummarizeConfig(text=TEXT), llm=ScriptedModel("  ")), steps=1)


@pytest.mark.parametrize("wrong", [{}, {"text": "a", "path": "b"}, {"text": ""}, {"text": " \n"}, {"path": ""}])
def test_a_config_needs_one_source_with_words(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        SummarizeConfig.model_validate(wrong)


@given(text=st.text(min_size=1).filter(str.strip), guidance=st.text(st.characters(codec=None)))
async def test_any_text_is_summarised_to_the_end(text: str, guidance: str) -> None:
    ctx = FakeCtx(SummarizeConfig(text=text))
    outs = await play(SUMMARIZE, ctx, steps=MAX_SECTIONS, said={0: Said(guidance=guidance)})
    assert outs[-1].done
    assert all(out.text for out in outs)
    outs[-1].model_dump_json()
