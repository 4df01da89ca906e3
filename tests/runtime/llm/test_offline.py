from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from runtime.llm.extract import keywords, matching, sentences, summary
from runtime.llm.offline import OfflineModel
from runtime.llm.offline_jokes import JOKES, tell
from runtime.llm.offline_steps import instance_of
from runtime.llm.port import ChatMessage, ChatRequest, Usage, data_block

PURPOSES = [
    "joke.tell",
    "summarize.section",
    "summarize.merge",
    "research.plan",
    "research.findings",
    "research.report",
    "stepframe",
    "something.else",
]
TEXT = "Rain fills the well. The well holds rain water for the town. Birds sing. The town drinks well water all year."


def request(purpose: str, content: str) -> ChatRequest:
    return ChatRequest(purpose=purpose, messages=(ChatMessage(role="user", content=content),))


async def ask(purpose: str, **data: Any) -> str:
    return (await OfflineModel().chat(request(purpose, data_block(data)))).text


@pytest.mark.parametrize("purpose", PURPOSES)
async def test_the_same_prompt_gives_the_same_answer(purpose: str) -> None:
    first = await ask(purpose, text=TEXT, subject="wells", question="What fills the well?")
    assert first.strip()
    assert await ask(purpose, text=TEXT, subject="wells", question="What fills the well?") == first


async def test_a_reply_says_who_answered_and_what_it_used() -> None:
    reply = await OfflineModel().chat(request("something.else", "x" * 40))
    assert (reply.model, OfflineModel().label) == ("offline", "offline")
    assert reply.usage == Usage(input_tokens=10, output_tokens=-(-len(reply.text) // 4), calls=1)


async def test_an_unknown_purpose_is_answered_with_a_label() -> None:
    assert (await ask("something.else", text="Words here.")).startswith("[offline model]")


async def test_a_joke_is_about_the_subject_and_not_one_of_those_told() -> None:
    first = await ask("joke.tell", subject="tea", count=1, told=[])
    again = await ask("joke.tell", subject="tea", count=1, told=[first])
    assert "tea" in first.lower()
    assert "tea" in again.lower()
    assert again != first


def test_there_are_dozens_of_jokes_and_each_has_its_subject() -> None:
    assert len(set(JOKES)) == len(JOKES) >= 36
    assert all("{s}" in joke or "{S}" in joke for joke in JOKES)
    assert all("{" not in tell("tea", turn, []) for turn in range(len(JOKES)))


def test_a_subject_with_braces_stays_as_it_is() -> None:
    assert all("{s} {S}" in tell("{s} {S}", turn, []) for turn in range(len(JOKES)))


def test_when_all_jokes_are_told_there_is_an_encore() -> None:
    told = [tell("tea", turn, []) for turn in range(len(JOKES))]
    assert tell("tea", 1, told).startswith("Encore")


async def test_a_summary_is_made_of_the_texts_own_sentences() -> None:
    answer = await ask("summarize.section", text=f"# A heading\n{TEXT}", guidance=[])
    assert "Birds sing" not in answer
    assert "heading" not in answer
    assert all(sentence in TEXT for sentence in sentences(answer))


async def test_guidance_moves_the_summary() -> None:
    assert "Birds sing." in await ask("summarize.section", text=TEXT, guidance=["tell me about birds"])


async def test_a_merged_summary_has_a_sentence_of_each_section() -> None:
    parts = [{"summary": "Cats sleep all day."}, {"summary": "Dogs run. Dogs run to the dog park."}]
    assert await ask("summarize.merge", sections=parts) == "Cats sleep all day. Dogs run."


async def test_findings_are_sentences_that_stand_in_the_document() -> None:
    answer = json.loads(await ask("research.findings", question="What does the town drink?", text=TEXT))
    quotes = [finding["quote"] for finding in answer["findings"]]
    assert "The town drinks well water all year." in quotes
    assert all(quote in TEXT for quote in quotes)
    nothing = json.loads(await ask("research.findings", question="How tall are giraffes?", text=TEXT))
    assert nothing == {"findings": []}


async def test_a_report_cites_its_findings() -> None:
    findings = [{"claim": "Rain fills the well.", "document": 2}]
    assert "Rain fills the well. [2]" in await ask("research.report", question="Why?", findings=findings)
    assert await ask("research.report", question="Why?") == "The documents do not answer the question."


SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a"]},
    {"properties": {"a": {"type": "array", "items": {"type": "boolean"}, "minItems": 2}}, "required": ["a", "x"]},
    {"type": "number", "minimum": 3},
    {"type": "integer", "exclusiveMinimum": 3},
    {"type": "integer", "maximum": -3},
    {"type": "string", "minLength": 12},
    {"type": "string", "maxLength": 3},
    {"type": ["null", "string"]},
    {"enum": ["x", "y"]},
    {"const": {"a": 1}},
    {"anyOf": [{"type": "integer"}, {"type": "string"}]},
    {"type": "object", "required": ["a"], "properties": {"a": {"default": 7}}},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_an_instance_fits_its_schema(schema: dict[str, Any]) -> None:
    Draft202012Validator(schema).validate(instance_of(schema))


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ["text", "subject", "count", "told", "question", "sub_questions", "guidance", "sections", "findings"]
FIELDS += ["task", "frame", "output_schema", "state", "inputs"]
SCHEMA_WORDS = ["type", "enum", "required", "properties", "items", "minItems", "minLength", "minimum", "anyOf", "const"]


@given(purpose=st.sampled_from(PURPOSES), data=st.dictionaries(st.sampled_from(FIELDS), JUNK))
async def test_any_data_is_answered(purpose: str, data: dict[str, Any]) -> None:
    assert (await ask(purpose, **data)).strip()


@given(purpose=st.sampled_from(PURPOSES), content=st.text())
async def test_any_prompt_is_answered(purpose: str, content: str) -> None:
    assert (await OfflineModel().chat(request(purpose, content))).text.strip()


@given(st.dictionaries(st.sampled_from(SCHEMA_WORDS), JUNK))
def test_any_schema_has_an_instance(schema: dict[str, Any]) -> None:
    json.dumps(instance_of(schema))


@given(text=st.text("ab. !?\n#-*1)。\u2028"), question=st.text("ab ", max_size=5))
def test_extracts_are_pieces_of_the_text(text: str, question: str) -> None:
    assert all(sentence in text for sentence in [*sentences(text), *matching(text, question)])
    assert bool(summary(text)) == bool(text.strip())


def test_keywords_leave_the_common_words_out() -> None:
    assert keywords("What is the Depth of the well, and why?") == ["depth", "well"]


def test_an_endless_sentence_is_cut() -> None:
    assert len(summary("word " * 1_000)) <= 320
