"""JSON text: any value becomes valid JSON, any text can be read, and plain JSON comes back as it was."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given

from store.jsontext import clean_text, json_dumps, json_or_none, safe_json_loads
from tests.store.values import ODD, PLAIN, TEXT
from tests.support import examples


def no_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def strictly_parsed(text: str) -> Any:
    """What a strict parser makes of `text`, which must be UTF-8."""
    return json.loads(text.encode(), parse_constant=no_constant)


def nested(depth: int) -> list[Any]:
    """A list in a list in a list."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


class Speechless:
    """Has no text."""

    def __repr__(self) -> str:
        raise ValueError("nothing to say")


@examples(300)
@given(PLAIN)
def test_plain_json_comes_back_as_it_was(value: Any) -> None:
    assert safe_json_loads(json_dumps(value)) == value


@examples(300)
@given(ODD)
@example({"nan": math.nan, "text": "\ud800"})
@example([math.inf, 2**70])
@example({("a", 1): "x"})
def test_any_value_becomes_valid_json_in_utf8(value: Any) -> None:
    strictly_parsed(json_dumps(value))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(10**5000, id="endless number"),
        pytest.param({"a": [10**5000]}, id="endless number inside"),
        pytest.param(nested(300), id="deep"),
        pytest.param(nested(200_000), id="bottomless"),
        pytest.param(Speechless(), id="without text"),
        pytest.param({"a": Speechless()}, id="without text inside"),
    ],
)
def test_a_value_that_no_encoder_takes_still_becomes_json(value: Any) -> None:
    strictly_parsed(json_dumps(value))


def test_what_is_deeper_than_the_fast_encoder_goes_comes_back_whole() -> None:
    assert safe_json_loads(json_dumps(nested(300))) == nested(300)


def test_a_circle_becomes_text() -> None:
    circle: list[Any] = [1]
    circle.append(circle)

    assert isinstance(strictly_parsed(json_dumps(circle)), str)


@pytest.mark.parametrize("beside", ["plain", "\ud800"])
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_lacks_become_null(number: float, beside: str) -> None:
    assert safe_json_loads(json_dumps({"number": number, "text": beside}))["number"] is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("\ud800", "\ufffd"),
        ("a\udfffb\ud800", "a\ufffdb\ufffd"),
        ({"\ud800": 1}, {"\ufffd": 1}),
        ({"key": ["\udc00"]}, {"key": ["\ufffd"]}),
    ],
)
def test_each_lone_surrogate_becomes_one_replacement_character(value: Any, text: Any) -> None:
    assert safe_json_loads(json_dumps(value)) == text


@examples(300)
@given(TEXT)
def test_clean_text_fits_utf8_and_changes_only_surrogates(text: str) -> None:
    cleaned = clean_text(text)

    cleaned.encode()
    assert len(cleaned) == len(text)
    assert all(new == old or "\ud800" <= old <= "\udfff" for old, new in zip(text, cleaned, strict=True))


def test_a_number_beyond_64_bits_keeps_its_size() -> None:
    assert safe_json_loads(json_dumps({"n": 2**70}))["n"] == pytest.approx(2**70)


def test_values_of_python_become_text() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)

    assert safe_json_loads(json_dumps({"at": moment, 1: {2}})) == {"at": "2026-01-02T03:04:05.000006Z", "1": "{2}"}


def test_a_key_that_json_lacks_becomes_text_rather_than_being_dropped() -> None:
    assert safe_json_loads(json_dumps({("a", 1): "x", "b": 2})) == {"('a', 1)": "x", "b": 2}


def test_none_is_sql_null() -> None:
    assert json_or_none(None) is None
    assert json_or_none([None]) == "[null]"
    assert safe_json_loads(None) is None


@examples(300)
@given(TEXT)
@example("plain words")
@example("NaN")
@example("{")
@example("[" * 5000)
def test_any_text_can_be_read(text: str) -> None:
    value = safe_json_loads(text)

    try:
        expected = json.loads(text, parse_constant=no_constant)
    except (ValueError, AssertionError, RecursionError):
        assert value == text
    else:
        assert value in (expected, text)
