"""The tool `fetch`: a page of a server that the operator allowed."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from runtime.guard.taint import Labelled, Taint
from runtime.tools.errors import MayPass, ToolFailed
from runtime.tools.fetch.errors import FetchFailedError, FetchRefusedError
from runtime.tools.fetch.port import FetchPort, FetchRequest, FetchResult, FetchRules
from runtime.tools.tool import Tool, tool

#: for connecting and reading, beyond the fetch's own deadline
_MORE_S = 5.0


def fetch_tool(fetcher: FetchPort, rules: FetchRules, *, text_chars: int = 12_000, gated: bool = True) -> Tool:
    """The tool under `rules`. All that it answers is text from outside (S36).

    `gated`: once such text is in a session's context, each further fetch needs a person, since a URL can carry
    something away. Without it that is left to the list of hosts.
    """

    @tool(name="fetch", read_only=True, reaches_out=gated, time_out_s=rules.deadline_s + _MORE_S)
    async def fetch(
        url: Annotated[str, Field(description="the whole address, https://...", max_length=4_096)],
        offset: Annotated[int, Field(ge=0, description="the character of the text to begin with")] = 0,
    ) -> Any:
        """Read the text of a web page or a file on the web."""
        try:
            result = await fetcher.fetch(FetchRequest(url), rules)
        except FetchRefusedError as error:
            raise ToolFailed(str(error)) from error
        except FetchFailedError as error:
            raise MayPass(str(error)) from error
        return Labelled(_told(result, offset, text_chars), Taint.of(f"web {result.url.source}"))

    return fetch


def _told(result: FetchResult, offset: int, most: int) -> dict[str, Any]:
    if result.text is None:
        raise ToolFailed("the answer is no text; fetch another page")
    text = result.text.value
    end = offset + most
    return {
        "url": result.url.value,
        "status": result.status,
        "content_type": result.content_type.value,
        "text": text[offset:end],
        "chars": len(text),
        "next_offset": end if end < len(text) else None,
        "truncated": result.truncated,
    }
