"""Writes calls the way `runtime.tools.grammar` reads them: for examples in prompts, stand-in models and tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from runtime.tools.markup import CDATA, CDATA_END, Tag, Tokenizer


def render_call(name: str, arguments: Mapping[str, Any]) -> str:
    """One call. Text is written as it is, or in CDATA where its own closing tag would end it; all else as JSON.

    Read again with a tool whose parameters are text, every text comes back byte for byte.
    """
    lines = [f"<{param}>{_written(param, value)}</{param}>" for param, value in arguments.items()]
    return "\n".join([f"<{name}>", *lines, f"</{name}>"])


def _written(param: str, value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if not text.lstrip().startswith(CDATA) and not _names(param, text):
        return text
    return CDATA + text.replace(CDATA_END, f"]]{CDATA_END}{CDATA}>") + CDATA_END


def _names(param: str, text: str) -> bool:
    """Whether a tag of the parameter's own name is in the text."""
    return any(isinstance(token, Tag) and token.name == param for token in Tokenizer(text).tokens())
