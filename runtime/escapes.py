"""The one way in which text of others is written for a prompt: as JSON strings that hold no structure (S35).

Invariant: **no character of a text is left that could open or close a tag, a bracketed marker or a quote, end a line,
or hide.** These are written as JSON escapes, so whoever reads the JSON has the text as it was, and a closing `</data>`,
a `[From @admin]:`, a `System:` at the start of a line or a `<|im_start|>` in it is a part of a string, for our own
parsers and for those of a model's server.

What a model makes of the words themselves no escaping can decide; that is what permissions and approvals are for.
"""

from __future__ import annotations

import json
import re
from typing import Any

# Brackets with their wide, small and look-alike forms, "&", and the backtick that begins code.
_BRACKETS = "<>\\[\\]&`\uff1c\uff1e\uff3b\uff3d\uff06\ufe64\ufe65\u3008\u3009\u2039\u203a\u2329\u232a\u276e\u276f"
# Letters and marks by name that nobody sees: `isprintable` is true of them.
_HIDDEN = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180e\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e01ef"
_STRUCTURE = re.compile(f"[{_BRACKETS}{_HIDDEN}]")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def escaped(text: str) -> str:
    """`text` as a JSON string on one line. Lone surrogates, which UTF-8 cannot carry, are escapes too."""
    return _harmless(json.dumps(text, ensure_ascii=False))


def escaped_json(value: Any) -> str:
    """A JSON value on one line, with each string in it as `escaped` writes it; what is no JSON is written as text.

    Lone surrogates are no text and become U+FFFD: the value may be stored and sent by whoever reads it.
    """
    body = json.dumps(value, ensure_ascii=False, default=str)
    return _STRING.sub(lambda found: _harmless(found[0]), sound(body))


def sound(text: str) -> str:
    """`text` with its lone surrogates as U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _harmless(string: str) -> str:
    """A JSON string with what it must not show as escapes. None of that is a part of an escape itself."""
    marked = _STRUCTURE.sub(_escape, string)
    return marked if marked.isprintable() else "".join(map(_seen, marked))


def _escape(found: re.Match[str]) -> str:
    return _written(found[0])


def _seen(letter: str) -> str:
    return letter if letter.isprintable() else _written(letter)


def _written(letter: str) -> str:
    return f"\\u{ord(letter):04x}" if letter.isascii() else json.dumps(letter)[1:-1]
