"""What rows and pages say in words. `web/static/js/words.js` says the same; tests/browser compares what is shown."""

from __future__ import annotations

from typing import Any

import pytest

from web.words import cost_of, tokens_of


@pytest.mark.parametrize(
    ("usage", "words"),
    [
        (None, ""),
        ({"calls": 0}, ""),
        ({"calls": 2, "cost": "0", "unpriced_calls": 0}, ""),
        ({"calls": 2, "cost": "0.000012", "unpriced_calls": 0}, "0.000012"),
        ({"calls": 2, "cost": "10", "unpriced_calls": 0}, "10"),
        ({"calls": 3, "cost": "0.5", "unpriced_calls": 1}, "0.5 and more"),
        ({"calls": 3, "cost": "0", "unpriced_calls": 3}, "price not known"),
    ],
)
def test_a_cost_says_what_it_leaves_out(usage: Any, words: str) -> None:
    assert cost_of(usage) == words


def test_tokens_are_added_up_and_none_are_not_told() -> None:
    assert tokens_of({"input_tokens": 1200, "output_tokens": 34}) == "1,234"
    assert (tokens_of(None), tokens_of({"calls": 1})) == ("", "")
