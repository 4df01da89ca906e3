"""What a tool of a server is called here: `<server>_<tool>`, always the same for the same two names.

A server may call its tools almost anything. A name that is none of ours, or too long, is cut and ends in a piece of its
hash; the same rule holds for the names of parameters. No name depends on which other tools there are.
"""

from __future__ import annotations

import hashlib

from runtime.tools.mcp.config import ServerName
from runtime.tools.reserved import is_tag_name
from runtime.tools.scope import ToolName

_LONGEST = 64
_HASH_CHARS = 8
_KEPT = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def local_name(server: ServerName, remote: str) -> ToolName:
    """The name that agents use for the tool `remote` of a server."""
    return ToolName(_fitted(f"{server}_{remote}", f"{server}_{_cleaned(remote)}", remote))


def param_name(remote: str) -> str:
    """The name that agents use for the parameter `remote`."""
    return _fitted(remote, _cleaned(remote), remote)


def _fitted(plain: str, clean: str, hashed: str) -> str:
    if is_tag_name(plain):
        return plain
    ending = "_" + hashlib.sha256(hashed.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]
    start = clean if clean[:1].isascii() and clean[:1].isalpha() else f"p{clean}"
    return start[: _LONGEST - len(ending)] + ending


def _cleaned(text: str) -> str:
    return "".join(letter if letter in _KEPT else "_" for letter in text)
