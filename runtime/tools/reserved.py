"""The tags that mean something in a reply without being tools, and what a tool may be called."""

from __future__ import annotations

from string import ascii_letters, digits

#: a model's thoughts: taken out of the reply, never read for calls
THOUGHT_TAGS = frozenset({"think", "thinking"})

#: what stands between these is quoted and never run; `data` is what `runtime.tools.escaping` wraps text in
QUOTING_TAGS = frozenset({"example", "examples", "quote", "blockquote", "code", "pre", "samp", "data"})

#: tags that some models put around their calls; they mean nothing and are left out of the prose
WRAPPER_TAGS = frozenset({"tool_call", "tool_calls", "function_call", "function_calls"})

RESERVED_NAMES = THOUGHT_TAGS | QUOTING_TAGS | WRAPPER_TAGS | {"invoke"}

_FIRST = frozenset(ascii_letters)
_REST = _FIRST | frozenset(digits + "_-")
_LONGEST = 64


def is_tag_name(name: str) -> bool:
    """Whether a tool or a parameter can have this name: it has to be a tag and a native function's name alike."""
    return 0 < len(name) <= _LONGEST and name[0] in _FIRST and all(letter in _REST for letter in name)
