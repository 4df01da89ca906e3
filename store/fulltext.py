"""Words: how texts are cut into them for the full-text index, and how a person's question becomes words to look for.

What people ask for is text, never a query language: only its letters and digits are kept, so no sign can mean anything
to the engine. There is no stemming and no list of words to leave out: both belong to one language, and a store holds
many. A word is found in any case and with or without its accents, but only whole ("run" does not find "running").
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from lancedb.index import FTS

#: words that one question may have, letters that are looked at of it, letters of a word that the index keeps
MAX_WORDS = 32
MAX_QUESTION_CHARS = 10_000
MAX_WORD_CHARS = 40
SNIPPET_CHARS = 240
_BEFORE_CHARS = 60
#: a text is searched so far for the place to show
_LOOKED_AT_CHARS = 200_000
_MAX_MARKS = 50

# A letter or digit of any script; LanceDB's `simple` tokenizer cuts at everything else, the underscore too.
_WORD = re.compile(r"[^\W_]+")
# What its folding of accents does beyond the decomposition of Unicode.
_FOLDED = str.maketrans({"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ł": "l", "ı": "i", "þ": "th", "ð": "d"})


def full_text_index() -> FTS:
    """The one shape of every full-text index of the store. Positions would double it and serve phrases only."""
    return FTS(
        base_tokenizer="simple",
        with_position=False,
        stem=False,
        remove_stop_words=False,
        lower_case=True,
        ascii_folding=True,
        max_token_length=MAX_WORD_CHARS,
    )


def words_of(question: str) -> tuple[str, ...]:
    """What to look for: the first distinct words of a question, in their order; () when it has none."""
    found: dict[str, None] = {}
    for match in _WORD.finditer(question[:MAX_QUESTION_CHARS]):
        word = match[0].lower()
        if len(word.encode()) < MAX_WORD_CHARS:  # the index holds no longer ones
            found.setdefault(word)
        if len(found) == MAX_WORDS:
            break
    return tuple(found)


def folded(word: str) -> str:
    """A word as the index has it: in small letters, without accents."""
    parts = unicodedata.normalize("NFKD", word.lower().translate(_FOLDED))
    return "".join(part for part in parts if not unicodedata.combining(part))


@dataclass(frozen=True, slots=True)
class Snippet:
    """A piece of a text and where in it the words stand, as (start, end) in characters. Plain text, never markup."""

    text: str
    matches: tuple[tuple[int, int], ...]


def snippet_of(text: str, words: Collection[str]) -> Snippet:
    """The place of `text` where the first of `words` stands, with every word in sight marked; else its beginning."""
    wanted = {folded(word) for word in words}
    first = next(_places(text[:_LOOKED_AT_CHARS], wanted), (0, 0))[0]
    start = _cut_before(text, max(0, first - _BEFORE_CHARS))
    shown = text[start : start + SNIPPET_CHARS]
    marks = tuple(place for place, _ in zip(_places(shown, wanted), range(_MAX_MARKS), strict=False))
    return Snippet(shown, marks)


def _places(text: str, wanted: Collection[str]) -> Iterator[tuple[int, int]]:
    for match in _WORD.finditer(text):
        if folded(match[0]) in wanted:
            yield match.span()


def _cut_before(text: str, at: int) -> int:
    """The start of the word at `at`, where that is near: a snippet begins with a whole word."""
    if at == 0:
        return 0
    blank = text.find(" ", at, at + _BEFORE_CHARS)
    return at if blank < 0 else blank + 1
