"""What of a long document fits into a prompt, and whether a quote really stands in it."""

from __future__ import annotations

import re

from monikers.sections import split_sections

PASSAGE_CHARS = 1_500

_WORD = re.compile(r"\w{3,}")


def relevant(text: str, question: str, max_chars: int) -> str:
    """`text` when it fits in `max_chars`, else the passages that share most words with `question`, in their order."""
    if len(text) <= max_chars:
        return text
    wanted = set(_words(question))
    passages = [text[part.start : part.end].strip() for part in split_sections(text, PASSAGE_CHARS)]
    ranked = sorted(range(len(passages)), key=lambda index: (-len(wanted & set(_words(passages[index]))), index))
    chosen = ranked[: max(1, max_chars // PASSAGE_CHARS)]
    return "\n\n".join(passages[index] for index in sorted(chosen))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def collapsed(text: str) -> str:
    """`text` with every run of white space as one space: line breaks do not make a quote a different one."""
    return " ".join(text.split())


def occurs(quote: str, document: str) -> bool:
    """True when `quote` stands word for word in `document`, which is given collapsed."""
    words = collapsed(quote)
    return bool(words) and words in document
