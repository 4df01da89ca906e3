"""What a server answered to a call, as text for a model; what a model cannot read is left out with a word about it."""

from __future__ import annotations

import json
from typing import Any, assert_never

from mcp_types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from runtime.tools.errors import ToolFailed
from runtime.tools.mcp.config import McpServer

Content = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource

_NO_WORDS = "it failed and did not say why"


def text_of(server: McpServer, result: CallToolResult) -> str:
    """The answer as text; `Tool.output_chars` cuts it. Raises `ToolFailed` for one that says that the tool failed."""
    said = "\n".join(_text(one) for one in result.content)
    if result.is_error:
        raise ToolFailed(said[: server.max_output_chars].strip() or _NO_WORDS)
    extra = _structured(result)
    return "\n".join(part for part in (said, extra) if part)


def _text(content: Content) -> str:
    match content:
        case TextContent(text=text):
            return text
        case ImageContent(mime_type=kind):
            return f"[an image ({kind[:60]}) is left out]"
        case AudioContent(mime_type=kind):
            return f"[a sound ({kind[:60]}) is left out]"
        case ResourceLink(uri=uri):
            return f"[a link: {uri}]"
        case EmbeddedResource(resource=resource):
            if isinstance(resource, TextResourceContents):
                return resource.text
            return f"[a file ({(resource.mime_type or 'of no known type')[:60]}) is left out]"
        case _:
            assert_never(content)


def _structured(result: CallToolResult) -> str:
    """The structured part as JSON, unless a text of the answer says the same, as servers are told to do."""
    found = result.structured_content
    if found is None or any(isinstance(one, TextContent) and _json(one.text) == found for one in result.content):
        return ""
    return json.dumps(found, ensure_ascii=False)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
