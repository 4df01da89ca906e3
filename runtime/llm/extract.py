"""Finding the telling sentences of a text by counting words: no model, nothing invented."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence

MAX_SENTENCE_CHARS = 320

_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"')\]]*\s+|(?<=[\u3002\uff01\uff1f])|\n\s*\n|\n(?=\s*(?:[-*+>#]|\d+[.)])\s)")
_HEADING = re.compile(r"^ {0,3}#{1,6}\s.*$", re.MULTILINE)
_MARKUP = re.compile(r"^(?:[-*+>]|\d+[.)])\s+")
_WORD = re.compile(r"\w+")
_COMMON_WORDS = (
    "about above after again all also and any are because been before being below between both but can could did does "
    "doing down during each few for from further had has have having her here hers him his how into its itself just "
    "more most much must not now off once only other our out over own same she should some such than that the their "
    "them then there these they this those through too under until upon very was were what when where which while who "
    "whom why will with would you your yours"
)
_COMMON = frozenset(_COMMON_WORDS.split())


def keywords(text: str) -> list[str]:
    """The words that carry meaning, lower-case, in order, repeated as they occur."""
    return [word for word in _WORD.findall(text.casefold()) if len(word) > 2 and word not in _COMMON]


def sentences(text: str) -> list[str]:
    """The sentences of `text`, each a piece of it, without headings and list marks."""
    pieces = (_MARKUP.sub("", piece.strip()) for piece in _SENTENCE_END.split(_HEADING.sub("\n\n", text)))
    return [piece[:MAX_SENTENCE_CHARS].rstrip() for piece in pieces if _WORD.search(piece)]


def summary(text: str, *, focus: Collection[str] = (), count: int = 3) -> str:
    """The `count` sentences that share most words with the whole text, in their own order.

    Words of `focus` weigh more. A text without sentences comes back shortened.
    """
    found = sentences(text)
    if not found:
        return " ".join(text.split())[:MAX_SENTENCE_CHARS]
    return " ".join(" ".join(found[index].split()) for index in _best(found, Counter(keywords(text)), focus, count))


def _best(found: Sequence[str], weight: Counter[str], focus: Collection[str], count: int) -> list[int]:
    wanted = set(keywords(" ".join(focus)))

    def score(index: int) -> tuple[float, int]:
        words = set(keywords(found[index]))
        total = sum(weight[word] for word in words) / (len(words) + 4)
        opening = 1.25 if index == 0 else 1.0
        return total * opening * (1 + 3 * len(words & wanted)), -index

    return sorted(sorted(range(len(found)), key=score, reverse=True)[:count])


def matching(text: str, question: str, *, count: int = 3) -> list[str]:
    """The sentences of `text` that share most words with `question`; only those that share one."""
    wanted = set(keywords(question))
    found = sentences(text)
    shared = [(len(wanted & set(keywords(sentence))), -index) for index, sentence in enumerate(found)]
    best = sorted((pair for pair in shared if pair[0]), reverse=True)[:count]
    return [found[-index] for _, index in best]
