"""What the page of memories makes of an address and of a memory."""

from __future__ import annotations

from typing import Any

import pytest

from web.remembering import PREVIEW_CHARS, asked_for, memory_path, preview, scope_of, whom_for

MEMORY: dict[str, Any] = {
    "user_id": None,
    "agent_id": None,
    "conversation_id": None,
    "session_id": "a/b",
    "iteration": 3,
}


def test_fields_that_are_filled_in_are_asked_for() -> None:
    given = {"q": " heron ", "kind": "fact", "user_id": "", "limit": "9", "cursor": "x", "where": "1=1", "source": "a"}
    assert asked_for(given) == {"q": "heron", "kind": "fact", "source": "a"}
    assert asked_for({"kind": "rumour"}) == {}


@pytest.mark.parametrize("asked", [{}, {"q": "x"}, {"kind": "fact"}, {"user_id": "mia", "kind": "fact"}])
def test_what_is_no_scope_cannot_be_deleted_as_one(asked: dict[str, str]) -> None:
    assert scope_of(asked) is None


def test_a_scope_is_named_in_words_and_for_the_api() -> None:
    found = scope_of({"user_id": "m&a", "source": "a b.md"})
    assert found == {"query": "user_id=m%26a&source=a+b.md", "words": "user m&a, source a b.md"}


def test_whom_it_is_for() -> None:
    assert whom_for(MEMORY) == "anybody"
    assert whom_for({**MEMORY, "user_id": "mia", "conversation_id": "c"}) == "user mia and conversation c"


def test_where_it_was_kept() -> None:
    found = memory_path(MEMORY)
    assert found is not None
    assert found["href"] == "/sessions/a%2Fb#step-3"
    assert found["name"].endswith(", step 3")
    without = memory_path({**MEMORY, "iteration": None})
    assert without is not None
    assert without["href"] == "/sessions/a%2Fb"
    assert memory_path({**MEMORY, "session_id": ""}) is None


def test_a_long_text_is_shown_by_its_beginning() -> None:
    assert preview("x" * PREVIEW_CHARS) == "x" * PREVIEW_CHARS
    assert preview("x" * (PREVIEW_CHARS + 1)) == "x" * PREVIEW_CHARS + " …"
