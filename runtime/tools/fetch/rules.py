"""What the operator's rules say of a request, a host and its addresses. Nothing here speaks to the network."""

from __future__ import annotations

import fnmatch
import ipaddress
import re
from collections.abc import Sequence
from typing import assert_never

from runtime.tools.fetch.addresses import Reach, reach
from runtime.tools.fetch.errors import FetchReason, FetchRefusedError
from runtime.tools.fetch.port import ANY_NAME, FetchRequest, FetchRules, Method
from runtime.tools.fetch.urls import WebAddress

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?|")
#: Headers that decide where a message ends, whom it is for and through whom it goes: the client writes them, or nobody.
_OURS = frozenset(
    "accept-encoding connection content-length cookie expect forwarded host keep-alive te trailer transfer-encoding "
    "upgrade via".split()
)
_OURS_BEGIN = ("proxy-", "x-forwarded-", "sec-")


def check_request(request: FetchRequest, rules: FetchRules) -> None:
    """Raises `FetchRefusedError` for a method, a header or a body that may not be sent."""
    if request.method not in rules.methods:
        allowed = ", ".join(sorted(rules.methods))
        raise FetchRefusedError(FetchReason.REQUEST, f"{request.method} is not allowed here: use {allowed}")
    if request.body and request.method in (Method.GET, Method.HEAD):
        raise FetchRefusedError(FetchReason.REQUEST, f"a {request.method} has no body: leave it out or use POST")
    for name, value in request.headers:
        if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise FetchRefusedError(FetchReason.REQUEST, f"the header {name[:100]!a} is not plain ASCII: mend it")
        if name.lower() in _OURS or name.lower().startswith(_OURS_BEGIN):
            raise FetchRefusedError(FetchReason.REQUEST, f"the header {name!a} is not for callers to set: leave it out")


def check_host(at: WebAddress, rules: FetchRules) -> None:
    """Raises `FetchRefusedError` when scheme, host or port is not on the operator's list."""
    if at.scheme not in rules.schemes:
        allowed = " and ".join(sorted(rules.schemes))
        raise FetchRefusedError(FetchReason.HOST, f"{at.scheme} is not allowed for {at.host}: use {allowed}")
    if (at.host, at.port) in rules.internal:
        return
    if not any(_matches(at, pattern) for pattern in rules.hosts):
        raise FetchRefusedError(FetchReason.HOST, f"{at.host} is not on the list of allowed hosts: ask the operator")
    if at.port not in rules.ports:
        allowed = ", ".join(map(str, sorted(rules.ports)))
        raise FetchRefusedError(FetchReason.HOST, f"port {at.port} of {at.host} is not allowed: use {allowed}")


def checked_addresses(at: WebAddress, found: Sequence[str], rules: FetchRules) -> list[str]:
    """The addresses of a host, all of them allowed. One that is not refuses the host, whatever the others are.

    Raises `FetchRefusedError`, which does not say which address it was.
    """
    return [str(ipaddress.ip_address(text)) for text in found if _allowed(at, text, rules)]


def type_allowed(content_type: str, rules: FetchRules) -> bool:
    """Whether content of this kind may be read."""
    return any(fnmatch.fnmatchcase(content_type, pattern) for pattern in rules.content_types)


def _matches(at: WebAddress, pattern: str) -> bool:
    if pattern == ANY_NAME:
        return at.address is None
    if pattern.startswith("*."):
        return at.address is None and at.host.endswith(pattern[1:])
    return at.host == pattern


def _allowed(at: WebAddress, text: str, rules: FetchRules) -> bool:
    try:
        lies = reach(ipaddress.ip_address(text))
    except ValueError:
        lies = Reach.CLOSED
    match lies:
        case Reach.PUBLIC:
            return True
        case Reach.INTERNAL if (at.host, at.port) in rules.internal:
            return True
        case Reach.INTERNAL | Reach.CLOSED:
            raise FetchRefusedError(
                FetchReason.ADDRESS, f"{at.host} is not in the public network: only public servers can be fetched"
            )
        case _:
            assert_never(lies)
