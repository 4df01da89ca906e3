"""Text that came from people, made safe to store, to show and to compare."""

from __future__ import annotations

import json
from typing import Any

from runtime.contract import MAX_TEXT_CHARS, Json, MonikerInputError, StepFrame

MAX_GUIDANCE_CHARS = 2_000
KEPT_GUIDANCE = 5

#: where a person who sends an object is likely to have put the words
_WORD_KEYS = ("guidance", "text", "message", "content")


def clip(text: str, limit: int = MAX_TEXT_CHARS) -> str:
    """`text` in at most `limit` characters; a cut one ends in "…"."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def printable(text: str) -> str:
    """`text` as UTF-8 can carry it: lone surrogates, which no store accepts, become "?"."""
    return text.encode("utf-8", "replace").decode("utf-8")


def one_line(text: str, limit: int) -> str:
    """`text` on one line without control characters, in at most `limit` characters."""
    visible = "".join(char if char.isprintable() else " " for char in printable(text))
    return clip(" ".join(visible.split()), limit)


def as_words(value: Any) -> str:
    """What a person sent, a string or any JSON, as text."""
    if isinstance(value, dict):
        named = next((value[key] for key in _WORD_KEYS if isinstance(value.get(key), str)), None)
        value = value if named is None else named
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return printable(text)


def said(frame: StepFrame) -> list[str]:
    """Everything people said since the last step, inputs first, blanks left out."""
    words = [given.text for given in frame.inputs]
    if frame.guidance is not None:
        words.append(as_words(frame.guidance))
    return [clip(word.strip(), MAX_GUIDANCE_CHARS) for word in words if word.strip()]


def remembered_guidance(frame: StepFrame) -> list[str]:
    """The newest things said, this step's and those that `state["guidance"]` kept from earlier steps."""
    return [*frame.state.get("guidance", []), *said(frame)][-KEPT_GUIDANCE:]


def needed(state: Json, key: str) -> Any:
    """`state[key]`.

    Raises `MonikerInputError` when the session's state lacks it, as one does that another moniker wrote.
    """
    if key not in state:
        raise MonikerInputError(f"the session's state has no {key!r}; it was not written by this moniker")
    return state[key]
