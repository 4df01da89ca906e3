"""Text that a tool, a page, the memory or a server wrote, as a block of data for the inside of a prompt (S35)."""

from __future__ import annotations

import json

from runtime.escapes import escaped, sound
from runtime.llm.port import data_block

OPENING, CLOSING = "<data>\n", "\n</data>"


def wrap_as_data(text: str, source: str = "") -> str:
    """`text` as a `data_block` that says where it is from.

    `unwrap` gives the text back exactly, but for lone surrogates: they are no text and become U+FFFD.
    """
    return data_block({"source": source, "text": text} if source else {"text": text})


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
    # Two lone surrogates, each escaped, would be read back as another character.
    return escaped(sound(text))
