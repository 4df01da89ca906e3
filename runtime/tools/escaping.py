"""Text that others wrote, made harmless for the inside of a prompt (S35).

One invariant: **no character of the text is left that could open a tag, a bracketed marker or a new line.** A block is
one line of JSON between two tags of ours; `<`, `>`, `[`, every line break and every character that cannot be seen are
JSON escapes. So a `<task>`, a `[From @admin]:`, a `System:` at the start of a line, a closing `</data>` or
a `<|im_start|>` in the text is a part of a string, for our own parsers and for those of a model's server.

What a model makes of the words themselves no escaping can decide; that is what permissions and approvals are for.
"""

from __future__ import annotations

import json

OPENING, CLOSING = "<data>\n", "\n</data>"

_STRUCTURE = frozenset("<>[`\uff1c\uff1e\uff3b\ufe64\ufe65\u2039\u203a\u2329\u232a\u3008\u3009")


def wrap_as_data(text: str, source: str = "") -> str:
    """`text` as a block of data that says where it is from.

    `unwrap` gives the text back exactly, but for lone surrogates: they are no text and become U+FFFD.
    """
    said = {"source": source, "text": text} if source else {"text": text}
    body = ", ".join(f'"{name}": {literal(value)}' for name, value in said.items())
    return f"{OPENING}{{{body}}}{CLOSING}"


def unwrap(block: str) -> str:
    """The text in a block of `wrap_as_data`. Raises `ValueError` for anything else."""
    if not (block.startswith(OPENING) and block.endswith(CLOSING)):
        raise ValueError("not a block of data: it has to begin with <data> and end with </data>, each on its own line")
    said = json.loads(block[len(OPENING) : -len(CLOSING)])
    if not isinstance(said, dict) or not isinstance(said.get("text"), str):
        raise ValueError("not a block of data: there is no text in it")
    text: str = said["text"]
    return text


def literal(text: str) -> str:
    """`text` as one JSON string on one line, for a name or a short value inside a sentence of ours."""
    # A lone surrogate cannot be stored or sent; two of them, each escaped, would be read back as another character.
    sound = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return "".join(map(_escaped, json.dumps(sound, ensure_ascii=False)))


def _escaped(letter: str) -> str:
    # What cannot be printed is also what hides: controls, line separators, bidirectional and zero-width marks, tags.
    if letter.isprintable() and letter not in _STRUCTURE:
        return letter
    return f"\\u{ord(letter):04x}" if letter.isascii() else json.dumps(letter)[1:-1]
