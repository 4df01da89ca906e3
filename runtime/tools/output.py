"""What a tool answered, as text for a model, and no more of it than is allowed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json


@dataclass(frozen=True, slots=True)
class Shown:
    """An answer as it is shown. `is_text` is false for JSON, which means nothing once it is cut."""

    text: str
    chars: int
    cut_chars: int
    is_text: bool

    @property
    def whole(self) -> bool:
        """Whether nothing was cut."""
        return self.cut_chars == 0


def shown(value: Any, limit: int) -> Shown | str:
    """The first `limit` characters of an answer; text says how much was cut. What cannot be shown is said in words."""
    is_text = isinstance(value, str)
    try:
        text = value if isinstance(value, str) else to_json(value).decode()
    except Exception as error:  # a serializer of the tool's own may raise anything
        return f"its answer of type {type(value).__name__} cannot be written as JSON ({str(error)[:200]})"
    sound = text.encode("utf-8", "replace").decode()  # a lone surrogate can be neither stored nor sent
    if len(sound) <= limit:
        return Shown(sound, len(sound), 0, is_text)
    cut = len(sound) - limit
    note = f"\n[{cut:,} of {len(sound):,} characters are cut here; ask for a smaller part]" if is_text else ""
    return Shown(sound[:limit] + note, len(sound), cut, is_text)
