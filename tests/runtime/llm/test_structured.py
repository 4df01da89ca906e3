"""The ladder: against real servers for its rungs, against anything for its law."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, field_validator

from runtime.llm.openai_chat import OpenAiChat
from runtime.llm.port import BadRequestReason, LlmError, LlmErrorKind
from runtime.llm.structured import JsonAnswer, Rung, ask_json, ask_model, read_json
from runtime.testing import ScriptedModel
from tests.llmserver import Answer, LlmServer, llm_server, refused, said
from tests.runtime.llm.poolkit import ASKED
from tests.support import examples

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}
GOOD = {"name": "Ada", "age": 36}
NO_SCHEMA = refused(400, "response_format json_schema is not supported")
NO_JSON = refused(400, "response_format json_object is not supported")


class Person(BaseModel):
    name: str
    age: int

    @field_validator("age")
    @classmethod
    def _alive(cls, age: int) -> int:
        if age > 200:
            raise ValueError("nobody is so old")
        return age


@pytest.fixture
async def server() -> AsyncIterator[LlmServer]:
    async with llm_server() as it:
        yield it


@pytest.fixture
async def ask(server: LlmServer) -> AsyncIterator[Callable[..., Any]]:
    model = OpenAiChat(base_url=server.url, api_key=None, model="m", attempts=1)

    async def one(*answers: Answer) -> JsonAnswer[Any]:
        server.script(*answers)
        return await ask_json(model, ASKED, SCHEMA)

    yield one
    await model.aclose()


def text(value: Any) -> Answer:
    return said(value if isinstance(value, str) else json.dumps(value))


@pytest.mark.parametrize(
    ("answers", "rung"),
    [
        ((text(GOOD),), Rung.JSON_SCHEMA),
        ((NO_SCHEMA, text(GOOD)), Rung.JSON_OBJECT),
        ((NO_SCHEMA, NO_JSON, text(GOOD)), Rung.WORDS),
        ((text("Here:\n```json\n{'name': 'Ada', age: 36,}\n```"),), Rung.REPAIRED),
        (
            (
                NO_SCHEMA,
                text('{"name": "Ada", "age": 36'),
            ),
            Rung.REPAIRED,
        ),
        ((text("I would rather not."), text(GOOD)), Rung.CORRECTED),
        ((text({"name": "Ada"}), text(GOOD)), Rung.CORRECTED),
        ((text({"name": "Ada"}), text("```" + json.dumps(GOOD) + "```")), Rung.CORRECTED),
    ],
)
async def test_each_rung(ask: Callable[..., Any], answers: tuple[Answer, ...], rung: Rung) -> None:
    answer = await ask(*answers)
    assert (answer.value, answer.rung) == (GOOD, rung)
    assert len(answer.replies) == (2 if rung is Rung.CORRECTED else 1)
    assert sum(reply.usage.calls for reply in answer.replies) == len(answer.replies)


async def test_the_correction_quotes_the_answer_and_what_is_wrong_with_it(
    server: LlmServer, ask: Callable[..., Any]
) -> None:
    await ask(text({"name": "Ada", "age": "old"}), text(GOOD))
    *_, shown, told = server.asked[1].body["messages"]
    assert (shown["role"], json.loads(shown["content"])) == ("assistant", {"name": "Ada", "age": "old"})
    assert "$.age: 'old' is not of type 'integer'" in told["content"]


async def test_two_answers_that_do_not_fit_are_malformed(ask: Callable[..., Any]) -> None:
    with pytest.raises(LlmError) as caught:
        await ask(text("no"), text({"name": 3}))
    assert (caught.value.kind, caught.value.partial) == (LlmErrorKind.MALFORMED, '{"name": 3}')
    assert "'age' is a required property" in str(caught.value)


@pytest.mark.parametrize(
    "schema", [{"type": "nonsense"}, {"$ref": "#/$defs/none"}, {"$ref": "http://127.0.0.1:1/schema.json"}]
)
async def test_a_schema_that_cannot_be_applied_is_a_bad_request(schema: dict[str, Any]) -> None:
    with pytest.raises(LlmError) as caught:
        await ask_json(ScriptedModel("{}", "{}"), ASKED, schema)
    assert (caught.value.kind, caught.value.reason) == (LlmErrorKind.BAD_REQUEST, BadRequestReason.OTHER)


async def test_a_pydantic_model_comes_back_as_itself() -> None:
    assert (await ask_model(ScriptedModel(json.dumps(GOOD)), ASKED, Person)).value == Person(name="Ada", age=36)
    with pytest.raises(LlmError, match="nobody is so old") as caught:
        await ask_model(ScriptedModel('{"name": "Methuselah", "age": 969}'), ASKED, Person)
    assert caught.value.kind is LlmErrorKind.MALFORMED


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
FRAGMENTS = st.sampled_from(
    ["{", "}", "[", "]", '"', "'", ":", ",", "\\", "name", "age", "36", "NaN", "```", "//", "\n"]
)
GARBAGE = st.text(st.characters(codec=None)) | ANY_JSON.map(json.dumps) | st.lists(FRAGMENTS, max_size=25).map("".join)


@given(GARBAGE, GARBAGE)
@examples(150)
async def test_any_answers_end_in_a_value_that_fits_or_in_malformed(first: str, second: str) -> None:
    kind: LlmErrorKind | None = None
    try:
        answer = await ask_json(ScriptedModel(first, second), ASKED, SCHEMA)
    except LlmError as error:
        kind = error.kind
    else:
        assert set(answer.value) >= {"name", "age"}
        json.dumps(answer.value, allow_nan=False, ensure_ascii=False).encode()
    assert kind in (None, LlmErrorKind.MALFORMED)


@given(ANY_JSON.filter(lambda value: "NaN" not in json.dumps(value) and "Infinity" not in json.dumps(value)))
@examples(100)
def test_json_that_fits_is_taken_as_it_stands(value: Any) -> None:
    found = read_json(json.dumps(value), {})
    assert not isinstance(found, str)
    assert (found.value, found.mended) == (value, False)


@pytest.mark.parametrize(
    "hard",
    [
        "[" * 20_000,
        "{" * 10_000,
        '{"a":' * 5_000,
        '"' * 1_001,
        "\ud800",
        '{"name": "\\ud800", "age": 1}',
        "NaN",
        "x" * 500_000,
    ],
    ids=range(8),
)
def test_hard_texts_are_refused_in_words(hard: str) -> None:
    assert isinstance(read_json(hard, SCHEMA), str)
