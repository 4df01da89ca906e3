"""A URL as somebody wrote it becomes the parts that are connected to, or it is refused.

Programs read odd URLs differently, and attacks live in the difference (Orange Tsai, "A New Era of SSRF", 2017). So this
is the only reader: what it does not understand at once it refuses, and the request is built from its parts, never from
the text. Hosts are ASCII names or addresses in their one usual form.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import quote, urljoin

from runtime.tools.fetch.errors import FetchReason, FetchRefusedError

LONGEST = 4_096
SHOWN = 120
DEFAULT_PORTS = {"http": 80, "https": 443}

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_PARTS = re.compile(r"(?P<scheme>[a-z]+)://(?P<authority>[^/?#]*)(?P<target>[^#]*)(#.*)?", re.IGNORECASE)
_AUTHORITY = re.compile(r"(?P<host>\[[0-9a-f:.]*\]|[^:\[\]@%]+)(:(?P<port>[1-9][0-9]{0,4}))?", re.IGNORECASE)
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_QUAD = re.compile(r"(0|[1-9][0-9]{0,2})(\.(0|[1-9][0-9]{0,2})){3}")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_KEPT = "%/?:@!$&'()*+,;=-._~"
_LONGEST_NAME = 253


@dataclass(frozen=True, slots=True)
class WebAddress:
    """The parts of a URL: `host` in small letters, without brackets; `address` when it is one; `target` from "/" on."""

    scheme: str
    host: str
    port: int
    target: str
    address: Address | None = None

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """What goes into the Host header: the port is left out where it is the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


def read_url(text: str) -> WebAddress:
    """The parts of an absolute http or https URL. Raises `FetchRefusedError` with the reason URL."""
    if problem := _odd_characters(text):
        raise _refused(text, problem)
    parts = _PARTS.fullmatch(text)
    scheme = parts["scheme"].lower() if parts else ""
    if parts is None or scheme not in DEFAULT_PORTS:
        raise _refused(text, "it does not begin with http:// or https:// and a host: write the whole URL")
    authority = _AUTHORITY.fullmatch(parts["authority"])
    if authority is None:
        raise _refused(text, _about_authority(parts["authority"]))
    host, address = _host(text, authority["host"].lower())
    port = int(authority["port"] or DEFAULT_PORTS[scheme])
    if port > 65_535:
        raise _refused(text, f"there is no port {port}: use one from 1 to 65535")
    return WebAddress(scheme, host, port, _target(text, parts["target"]), address)


def read_redirect(base: WebAddress, location: str) -> WebAddress:
    """Where a Location header leads from `base`. It is checked for odd characters before it is joined."""
    if problem := _odd_characters(location):
        raise _refused(location, problem)
    return read_url(urljoin(str(base), location))


def shown(text: str) -> str:
    """A URL for a message: one line, not endless."""
    return ascii(text if len(text) <= SHOWN else text[:SHOWN] + "...")


def _odd_characters(text: str) -> str | None:
    if len(text) > LONGEST:
        return f"it is longer than {LONGEST} characters: shorten it"
    for character in text:
        if character == "\\":
            return "a backslash is read as a slash by some programs: write / or %5C"
        if character.isspace() or not character.isprintable():
            return f"it contains U+{ord(character):04X}: leave it out, or write a space as %20"
    return None


def _about_authority(authority: str) -> str:
    if not authority:
        return "the host is missing: write it after ://"
    if "@" in authority:
        return "it contains credentials or an @ before the host: leave them out"
    if "%" in authority:
        return "its host is percent-encoded or has a zone: write the plain name or address"
    return "its host or port is not in the usual form: write host or host:port"


def _host(text: str, host: str) -> tuple[str, Address | None]:
    if host.startswith("["):
        return _ipv6(text, host[1:-1])
    if not host.isascii():
        raise _refused(text, "its host is not ASCII: write the name in its xn-- form")
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1] or labels[-2 if len(labels) > 1 else 0]):
        return _ipv4(text, host)
    if host.endswith("."):
        raise _refused(text, "its host ends with a dot: leave the dot out")
    if len(host) > _LONGEST_NAME or not all(_LABEL.fullmatch(label) for label in labels):
        raise _refused(text, "its host is no name of the network: check how it is written")
    return host, None


def _ipv4(text: str, host: str) -> tuple[str, Address]:
    if _QUAD.fullmatch(host) and all(int(number) < 256 for number in host.split(".")):
        return host, ipaddress.IPv4Address(host)
    raise _refused(text, "its host ends in a number and is no address: write four decimal numbers, like 192.0.2.1")


def _ipv6(text: str, inner: str) -> tuple[str, Address]:
    try:
        address = ipaddress.IPv6Address(inner)
    except ValueError:
        raise _refused(text, "what is in brackets is no IPv6 address: write it like [2001:db8::1]") from None
    return str(address), address


def _target(text: str, target: str) -> str:
    if _BAD_ESCAPE.search(target):
        raise _refused(text, "a % is not followed by two hexadecimal digits: write it as %25")
    path, question, query = target.partition("?")
    return quote(f"{_without_dots(path)}{question}{query}", safe=_KEPT)


def _without_dots(path: str) -> str:
    """The path that is meant: "." and ".." are worked out (RFC 3986 5.2.4), so that it is sent as it is shown."""
    names: list[str] = []
    given = path.split("/")[1:]
    for name in given:
        if name == "..":
            names = names[:-1]
        elif name != ".":
            names.append(name)
    if given and given[-1] in (".", ".."):
        names.append("")
    return "/" + "/".join(names)


def _refused(text: str, problem: str) -> FetchRefusedError:
    return FetchRefusedError(FetchReason.URL, f"the URL {shown(text)} is refused: {problem}")
