"""Suggests the name that was meant."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches


def did_you_mean(found: str, known: Sequence[str]) -> str:
    """`did you mean 'x'?` for the known name most like `found`; nothing when none is like it."""
    by_folded = {name.casefold(): name for name in known}
    near = get_close_matches(found.casefold(), list(by_folded), n=1)
    return f"did you mean {by_folded[near[0]]!r}?" if near else ""
