"""The port to the web: what is asked, under which rules, and what comes back.

`Fetcher` asks real servers, `FakeFetcher` answers from a table. Rules are the operator's, requests the model's.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from runtime.tools.fetch.untrusted import Untrusted

MIB = 1024 * 1024
ANY_NAME = "*"

_HOST_PATTERN = re.compile(r"\*|(\*\.)?[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?|[0-9a-f:.]+")
_SCHEMES = frozenset({"http", "https"})


class Method(StrEnum):
    """The methods that there are for a request."""

    GET = "GET"
    HEAD = "HEAD"
    POST = "POST"
    PUT = "PUT"
    PATCH = "PATCH"
    DELETE = "DELETE"


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """One request. `headers` go to the origin of `url` only; a redirect to another one leaves them out."""

    url: str
    method: Method = Method.GET
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class FetchRules:
    """What may be fetched, and how much of it. Raises `ValueError` when a rule could not be meant so.

    `hosts`: names as they are ("example.org"), names below one ("*.example.org", not example.org itself), addresses
    ("192.0.2.1"), or "*" for every name. Nothing is allowed by default.
    `internal`: pairs of host and port that may be asked although they lie in a private network or on this machine;
    they need not be in `hosts` and `ports`. Link-local addresses, where clouds keep credentials, stay closed.
    """

    hosts: tuple[str, ...] = ()
    internal: frozenset[tuple[str, int]] = frozenset()
    schemes: frozenset[str] = frozenset({"https"})
    ports: frozenset[int] = frozenset({80, 443})
    methods: frozenset[Method] = frozenset({Method.GET, Method.HEAD})
    content_types: tuple[str, ...] = ("text/*", "application/json", "application/*+json", "application/xml", "*/*+xml")
    redirects: int = 5
    header_bytes: int = 32 * 1024
    body_bytes: int = 2 * MIB  # after decompression; what is beyond is left out
    deadline_s: float = 20.0  # for everything, all redirects included
    connect_s: float = 5.0  # for one address of a host

    def __post_init__(self) -> None:
        for host in (*self.hosts, *(host for host, _ in self.internal)):
            if not _HOST_PATTERN.fullmatch(host):
                raise ValueError(
                    f"{host!r} is no host: write example.org, *.example.org, 192.0.2.1 or *, in small letters"
                )
        for host in (*self.hosts, *(host for host, _ in self.internal)):
            if ":" in host and str(ipaddress.IPv6Address(host)) != host:
                raise ValueError(f"{host!r}: write the address as {ipaddress.IPv6Address(host)}, its shortest form")
        if any("*" in host for host, _ in self.internal):
            raise ValueError("an internal host is named exactly, without *")
        if not self.schemes <= _SCHEMES:
            raise ValueError(f"schemes {sorted(self.schemes)}: there are http and https")
        if min(self.deadline_s, self.connect_s, self.body_bytes, self.header_bytes) <= 0 or self.redirects < 0:
            raise ValueError("limits are above zero, and redirects not below it")


@dataclass(frozen=True, slots=True)
class FetchResult:
    """An answer of any status. `text` is None for content that is no text; `truncated`: there was more."""

    requested: str
    url: Untrusted[str]
    status: int
    content_type: Untrusted[str]
    headers: Untrusted[tuple[tuple[str, str], ...]]
    body: Untrusted[bytes]
    text: Untrusted[str] | None
    truncated: bool
    redirects: int


class Resolver(Protocol):
    """Finds the addresses of a name."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """The addresses, as text. Raises `OSError` when there is none."""
        ...


class FetchPort(Protocol):
    """The one way to the web."""

    async def fetch(self, request: FetchRequest, rules: FetchRules) -> FetchResult:
        """Ask once, following redirects that the rules allow.

        Raises `FetchRefusedError` before anything forbidden is contacted, and `FetchFailedError` when the outside does
        not deliver in `rules.deadline_s`. A request that failed or was cancelled may have been carried out.
        """
        ...
