from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from runtime.differences import ABSENT, Place, first_difference
from tests.store.values import PLAIN
from tests.support import examples


@pytest.mark.parametrize(
    ("stored", "new", "place"),
    [
        ({"a": [1, {"b": "x"}]}, {"a": [1, {"b": "y"}]}, Place("$.a[1].b", "x", "y")),
        ({"a": 1}, {"a": True}, Place("$.a", 1, True)),
        ({"a": 1}, {"a": 1.0}, Place("$.a", 1, 1.0)),
        ({"a": 1}, {}, Place("$.a", 1, ABSENT)),
        ({}, {"a": None}, Place("$.a", ABSENT, None)),
        ([1], [1, 2], Place("$[1]", ABSENT, 2)),
        ([1], {"0": 1}, Place("$", [1], {"0": 1})),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, None),
        ({"a": (1, 2)}, {"a": [1, 2]}, None),
    ],
)
def test_the_first_difference_is_named(stored: Any, new: Any, place: Place | None) -> None:
    assert first_difference(stored, new) == place


@given(value=PLAIN)
@examples(100)
def test_nothing_differs_from_itself(value: Any) -> None:
    assert first_difference(value, value) is None
