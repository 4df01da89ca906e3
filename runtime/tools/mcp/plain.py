"""Text of a server without what cannot be seen: a person who reads it reads what the model reads.

Descriptions have been found that hide orders in characters without a shape (Unicode tags, zero-width and bidirectional
marks). They are left out before the text is shown, hashed or approved.
"""

from __future__ import annotations

import unicodedata

_HIDDEN = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})
MAX_CHARS = 4_000


def plain_text(text: str, limit: int = MAX_CHARS) -> str:
    """`text` with line breaks and what can be seen, at most `limit` characters of it."""
    spaced = text[: 4 * limit].replace("\t", " ")
    seen = "".join(letter for letter in spaced if letter == "\n" or unicodedata.category(letter) not in _HIDDEN)
    return seen if len(seen) <= limit else f"{seen[:limit]} [...]"
