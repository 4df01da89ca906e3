"""What the offline model can do beyond answering: schemas, tools, streams, vectors."""

from __future__ import annotations

import json
import math
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field

from runtime.llm.offline import OfflineModel
from runtime.llm.offline_schema import NoInstanceError, valid_instance
from runtime.llm.offline_vectors import DIMENSIONS
from runtime.llm.port import (
    ChatMessage,
    ChatRequest,
    EmbeddingModel,
    LlmError,
    LlmErrorKind,
    StreamEnd,
    StreamingModel,
    TextDelta,
    ToolSpec,
    data_block,
)
from runtime.llm.streaming import whole_stream
from runtime.llm.structured import Rung, ask_json, ask_model
from tests.support import examples


class Leaf(BaseModel):
    kind: Literal["leaf"]
    weight: float = Field(gt=0, le=1)


class Tree(BaseModel):
    kind: Literal["tree"]
    name: str = Field(pattern=r"^[A-Z]{2}-\d{3,}$")
    parts: list[Leaf | Tree] = Field(min_length=1, max_length=3)
    note: str | None = None


SOLVABLE: list[dict[str, Any]] = [
    {},
    {"const": [1, {"a": None}]},
    {"enum": [3, 4], "minimum": 4},
    {"type": ["null", "string"]},
    {"type": "string", "minLength": 30, "maxLength": 31},
    {"type": "string", "maxLength": 0},
    {"type": "string", "format": "date-time"},
    {"type": "string", "pattern": "^(foo|bar)[0-9]{2,4}x?$"},
    {"type": "string", "pattern": r"\d+\.\d+", "minLength": 12},
    {"type": "string", "pattern": "[^a-z]", "maxLength": 1},
    {"type": "string", "not": {"const": "offline"}},
    {"type": "integer", "exclusiveMinimum": 10, "multipleOf": 7},
    {"type": "integer", "maximum": -3, "multipleOf": 2},
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.1},
    {"type": "number", "minimum": 0.25, "maximum": 0.26},
    {"type": "array", "items": {"type": "integer"}, "minItems": 4, "uniqueItems": True},
    {"type": "array", "prefixItems": [{"type": "string"}, {"type": "null"}], "minItems": 2, "items": False},
    {"type": "array", "contains": {"const": 7}, "minContains": 2, "items": {"type": "integer"}, "minItems": 3},
    {"type": "array", "items": {"enum": ["a", "b", "c"]}, "minItems": 3, "uniqueItems": True},
    {"type": "object", "minProperties": 3, "additionalProperties": {"type": "boolean"}},
    {"type": "object", "minProperties": 2, "propertyNames": {"pattern": "^x_"}, "additionalProperties": True},
    {"type": "object", "required": ["ab"], "patternProperties": {"^a": {"type": "integer", "minimum": 5}}},
    {
        "properties": {"a": {"type": "string"}, "b": {"type": "null"}},
        "dependentRequired": {"a": ["b"]},
        "required": ["a"],
    },
    {"allOf": [{"type": "number", "minimum": 2}, {"type": "integer", "maximum": 2}]},
    {"allOf": [{"required": ["a"]}, {"properties": {"a": {"const": 1}}}], "type": "object"},
    {"anyOf": [False, {"type": "boolean"}]},
    {"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 5}]},
    {"oneOf": [{"type": "number"}, {"type": "integer"}]},
    {"if": {"properties": {"k": {"const": 1}}}, "then": {"required": ["z"]}, "type": "object", "required": ["k"]},
    {"$defs": {"n": {"type": "integer", "minimum": 3}}, "$ref": "#/$defs/n", "maximum": 3},
    {"type": "object", "properties": {"next": {"$ref": "#"}, "v": {"type": "integer"}}, "required": ["v"]},
    Tree.model_json_schema(),
]


@pytest.mark.parametrize("schema", SOLVABLE, ids=lambda schema: json.dumps(schema)[:60])
def test_a_schema_gets_a_value_that_it_allows(schema: dict[str, Any]) -> None:
    found = valid_instance(schema)
    Draft202012Validator(schema).validate(found)
    assert json.loads(json.dumps(found)) == found == valid_instance(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"not": {}},
        {"type": "integer", "minimum": 2, "maximum": 1},
        {"enum": []},
        {"type": "object", "required": ["a"], "properties": {"a": False}},
        {"$ref": "#/nowhere"},
        {"$ref": "http://127.0.0.1:1/x"},
        {"$ref": "#"},
        {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}},
        {"type": "nonsense"},
    ],
    ids=json.dumps,
)
async def test_a_schema_without_a_value_is_refused_in_words(schema: dict[str, Any]) -> None:
    with pytest.raises(NoInstanceError):
        valid_instance(schema)
    with pytest.raises(LlmError) as caught:
        await OfflineModel().chat(asks("x", json_schema=schema))
    assert caught.value.kind is LlmErrorKind.BAD_REQUEST


def schema_of(value: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Schemas that allow `value`, strict in one way or another."""
    return st.sampled_from(list(_schemas_of(value)))


def _schemas_of(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, bool) or value is None:
        return [{"type": "boolean" if isinstance(value, bool) else "null"}, {"const": value}]
    if isinstance(value, int):
        return [{"type": "integer"}, {"type": "integer", "minimum": value}, {"type": "number", "maximum": value}]
    if isinstance(value, str):
        size = len(value)
        return [{"type": "string"}, {"type": "string", "minLength": size, "maxLength": size + 3}, {"enum": [value]}]
    if isinstance(value, list):
        inner = {"anyOf": [_schemas_of(item)[-1] for item in value]} if value else {}
        return [{"type": "array", "items": inner, "minItems": len(value)}]
    properties = {name: _schemas_of(item)[-1] for name, item in value.items()}
    return [{"type": "object", "properties": properties, "required": list(value), "additionalProperties": False}]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES.flatmap(schema_of))
@examples(60)
def test_every_schema_made_from_a_value_is_solved(schema: dict[str, Any]) -> None:
    Draft202012Validator(schema).validate(valid_instance(schema))


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 50) | st.sampled_from(["string", "object", "#", "^a+$", "(", "date"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "items", "properties", "required", "anyOf", "$ref", "pattern", "minLength", "not"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@given(JUNK.filter(lambda junk: isinstance(junk, dict)))
@examples(50)
def test_any_schema_is_solved_or_refused(schema: dict[str, Any]) -> None:
    try:
        found = valid_instance(schema)
    except NoInstanceError:
        return
    Draft202012Validator(schema).validate(found)


def asks(text: str, **more: Any) -> ChatRequest:
    return ChatRequest(purpose="something.else", messages=(ChatMessage(role="user", content=text),), **more)


async def test_structured_answers_come_from_the_first_rung_that_needs_no_mending() -> None:
    answer = await ask_model(OfflineModel(), asks("Plant a tree."), Tree)
    assert isinstance(answer.value, Tree)
    assert answer.rung is Rung.WORDS
    assert (await ask_json(OfflineModel(), asks("x"), {"type": "integer", "minimum": 3})).value == 3
    assert answer.replies[0].model == "offline"


WEATHER = ToolSpec(
    name="get_weather",
    description="The weather of a city.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
SUM = ToolSpec(
    name="add_numbers",
    description="Adds numbers up.",
    parameters={
        "type": "object",
        "properties": {"of": {"type": "array", "items": {"type": "number"}, "minItems": 2}},
        "required": ["of"],
    },
)


async def test_the_tool_that_fits_is_called_once_and_its_result_reported() -> None:
    model = OfflineModel()
    asked = asks("What is the weather in this city?", tools=(SUM, WEATHER))
    reply = await model.chat(asked)
    (call,) = reply.tool_calls
    assert (call.name, call.parsed()) == ("get_weather", {"city": "What is the weather in this city?"})
    assert (reply.text, reply.finish_reason, reply.model) == ("", "tool_calls", "offline")
    assert (await model.chat(asked)) == reply
    result = ChatMessage(role="tool", content="It rains.", tool_call_id=call.id)
    assistant = ChatMessage(role="assistant", tool_calls=(call,))
    after = asked.model_copy(update={"messages": (*asked.messages, assistant, result)})
    told = await model.chat(after)
    assert (told.text, told.tool_calls) == ("[offline model] The tool answered: It rains.", ())
    assert (await model.chat(asked.model_copy(update={"tool_choice": "none"}))).tool_calls == ()
    add = (await model.chat(asks("Add numbers", tools=(WEATHER, SUM)))).tool_calls[0]
    Draft202012Validator(SUM.parameters).validate(add.parsed())


@pytest.mark.parametrize("purpose", ["joke.tell", "summarize.section", "something.else"])
async def test_a_stream_is_the_answer_in_pieces(purpose: str) -> None:
    content = data_block({"subject": "tea", "text": "Rain fills the well.  The town drinks."})
    asked = ChatRequest(purpose=purpose, messages=(ChatMessage(role="user", content=content),))
    parts = [part async for part in OfflineModel().stream(asked)]
    whole = await OfflineModel().chat(asked)
    assert parts[-1] == StreamEnd(reply=whole)
    texts = [part.text for part in parts if isinstance(part, TextDelta)]
    assert "".join(texts) == whole.text
    assert len(texts) > 3
    assert await whole_stream(OfflineModel().stream(asks("x", tools=(SUM,)))) == await OfflineModel().chat(
        asks("x", tools=(SUM,))
    )


@given(st.lists(st.text().filter(str.strip), min_size=1, max_size=5))
@examples(50)
async def test_vectors_have_length_one_and_are_the_same_again(texts: list[str]) -> None:
    found = await OfflineModel().embed(texts)
    assert found == await OfflineModel().embed(texts)
    assert all(len(vector) == DIMENSIONS for vector in found.vectors)
    assert all(math.isclose(math.hypot(*vector), 1.0) for vector in found.vectors)
    assert found.model == "offline"
    assert found.cost == 0


@pytest.mark.parametrize(
    ("text", "near", "far"),
    [
        ("The old well is deep.", "A deep well, and old!", "Stock markets fell today."),
        ("How do I reset my password?", "resetting passwords", "Recipes for apple pie"),
        ("database connection error", "error connecting to databases", "a walk in the hills"),
    ],
)
async def test_texts_that_share_words_are_nearer(text: str, near: str, far: str) -> None:
    one, two, three = (await OfflineModel().embed([text, near, far])).vectors

    def likeness(left: tuple[float, ...], right: tuple[float, ...]) -> float:
        return sum(a * b for a, b in zip(left, right, strict=True))

    assert likeness(one, two) > likeness(one, three) + 0.15


def test_the_offline_model_is_all_that_the_ports_ask() -> None:
    model = OfflineModel()
    embedder: EmbeddingModel = model
    assert isinstance(model, StreamingModel)
    assert embedder.label == "offline"
