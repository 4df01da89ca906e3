"""The offline model's vectors: hashed pieces of words, so that texts which share words are near each other.

No meaning is in them: "car" and "automobile" are far apart.
"""

from __future__ import annotations

import hashlib
import math
import re

DIMENSIONS = 256
_WORD = re.compile(r"\w+")
_PIECE = 3


def vector_of(text: str) -> tuple[float, ...]:
    """A vector of length 1, the same for the same text on every machine."""
    counts = [0.0] * DIMENSIONS
    for piece in _pieces(text) or [text]:
        digest = hashlib.blake2b(piece.encode("utf-8", "replace"), digest_size=8).digest()
        # a sign of its own lets pieces that fall together cancel out rather than pile up
        counts[int.from_bytes(digest[:4], "big") % DIMENSIONS] += 1.0 if digest[4] & 1 else -1.0
    damped = [math.copysign(math.sqrt(abs(count)), count) for count in counts]
    length = math.hypot(*damped)
    if not length:
        return (1.0, *([0.0] * (DIMENSIONS - 1)))
    return tuple(value / length for value in damped)


def _pieces(text: str) -> list[str]:
    """Every word, and every three characters of it with its ends marked."""
    found: list[str] = []
    for word in _WORD.findall(text.casefold()):
        marked = f"^{word}$"
        found.append(word)
        found += [marked[start : start + _PIECE] for start in range(max(1, len(marked) - _PIECE + 1))]
    return found
