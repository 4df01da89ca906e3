"""A web of made-up pages, for tests of whatever fetches: the same rules on requests and hosts, no network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runtime.tools.fetch.errors import FetchError, FetchFailedError, FetchReason, FetchRefusedError
from runtime.tools.fetch.port import FetchPort, FetchRequest, FetchResult, FetchRules
from runtime.tools.fetch.reading import read_text
from runtime.tools.fetch.rules import check_host, check_request, checked_addresses, type_allowed
from runtime.tools.fetch.untrusted import Untrusted
from runtime.tools.fetch.urls import read_url


@dataclass(frozen=True, slots=True)
class Page:
    """What a made-up server answers."""

    body: str | bytes = ""
    status: int = 200
    content_type: str = "text/html"


class FakeFetcher(FetchPort):
    """Answers from `pages`, a URL to a page or to the error it ends in. `requests` keeps what it was asked.

    A URL that is not there has no address. Names lie in the public network.
    """

    def __init__(self, pages: Mapping[str, Page | FetchError]) -> None:
        self._pages = {str(read_url(url)): page for url, page in pages.items()}
        self.requests: list[FetchRequest] = []

    async def fetch(self, request: FetchRequest, rules: FetchRules) -> FetchResult:
        self.requests.append(request)
        check_request(request, rules)
        at = read_url(request.url)
        check_host(at, rules)
        if at.address is not None:
            checked_addresses(at, [str(at.address)], rules)
        page = self._pages.get(str(at))
        if page is None:
            raise FetchFailedError(FetchReason.DNS, f"{at.host} has no address: check the name")
        if isinstance(page, FetchError):
            raise page
        if not type_allowed(page.content_type, rules):
            raise FetchRefusedError(FetchReason.CONTENT_TYPE, f"{at.host} answered with a type that is not allowed")
        return _result(request, str(at), at.host, page, rules)


def _result(request: FetchRequest, url: str, source: str, page: Page, rules: FetchRules) -> FetchResult:
    whole = page.body.encode() if isinstance(page.body, str) else page.body
    body, truncated = whole[: rules.body_bytes], len(whole) > rules.body_bytes
    return FetchResult(
        requested=request.url,
        url=Untrusted(url, source),
        status=page.status,
        content_type=Untrusted(page.content_type, source),
        headers=Untrusted((("content-type", page.content_type),), source),
        body=Untrusted(body, source),
        text=None if isinstance(page.body, bytes) else Untrusted(read_text(body, "utf-8", truncated), source),
        truncated=truncated,
        redirects=0,
    )
