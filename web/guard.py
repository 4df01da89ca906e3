"""Who may speak to this server at all, and what every answer tells the browser to forbid.

It stands in front of everything, Flask and Socket.IO alike. A page of another site cannot drive us: a foreign name in
`Host` (DNS rebinding), a foreign `Origin` on a request that changes something, and a foreign `Origin` on a Socket.IO
connection are refused. Programs send no Origin and are let in.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import orjson
import structlog

from web.problems import PROBLEM_TYPE, Problem, unforeseen
from web.settings import WebSettings

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_log = structlog.get_logger(__name__)

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
SOCKET_PATH: Final = "/socket.io"
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_FIXED: Final = (
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)


class Guard:
    """A WSGI application in front of another one."""

    def __init__(self, inner: WSGIApplication, settings: WebSettings) -> None:
        self._inner = inner
        self._settings = settings

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        problem = self._refusal(environ)
        if problem is not None:
            return _answer(problem, environ, start_response)
        if environ.get("HTTP_TRANSFER_ENCODING"):
            # Both servers end a chunked body by themselves, but eventlet's does not say so.
            environ["wsgi.input_terminated"] = True
        try:
            return self._inner(environ, _with_headers(environ, start_response))
        except Exception as error:  # Flask answers its own; this is for what Socket.IO's part does not catch
            _log.error("request failed before the app", path=environ.get("PATH_INFO"), error=str(error))
            return _answer(unforeseen(), environ, start_response)

    def _refusal(self, environ: WSGIEnvironment) -> Problem | None:
        host = environ.get("HTTP_HOST", "")
        if not self._serves(host):
            return Problem(421, f"this server is not {host[:200]!r}; set STEPWELL_ALLOWED_HOSTS to the names it has")
        if _is_ambiguous(environ):
            return Problem(400, "send either Content-Length or Transfer-Encoding: chunked")
        if self._must_be_same_origin(environ) and _is_foreign(environ, host):
            return Problem(403, "requests from pages of other sites are refused")
        return None

    def _serves(self, host: str) -> bool:
        name = _name_of(host)
        return name is not None and (
            name in self._settings.host_names or (self._settings.bound_to_all and _is_address(name))
        )

    def _must_be_same_origin(self, environ: WSGIEnvironment) -> bool:
        return environ["REQUEST_METHOD"] not in SAFE_METHODS or environ.get("PATH_INFO", "").startswith(SOCKET_PATH)


def content_security_policy(host: str) -> str:
    """What a page of ours may load and reach: this server, and nothing else."""
    return (
        "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        f"connect-src 'self' ws://{host} wss://{host}; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; "
        "form-action 'self'"
    )


def _name_of(host: str) -> str | None:
    """The name in a `Host` header, in lower case and without its port; None when there is none to be read."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises when it is no port
    except ValueError:
        return None
    plain = host and parts.netloc == host and "@" not in host and not parts.path
    return parts.hostname if plain else None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_ambiguous(environ: WSGIEnvironment) -> bool:
    """Whether two servers could disagree about where the body ends."""
    encoding = environ.get("HTTP_TRANSFER_ENCODING", "")
    length = environ.get("CONTENT_LENGTH") or ""
    if encoding:
        return bool(length) or encoding.strip().lower() != "chunked"
    return bool(length) and not (length.isascii() and length.isdigit())


def _is_foreign(environ: WSGIEnvironment, host: str) -> bool:
    if environ.get("HTTP_SEC_FETCH_SITE", "none") not in {"none", "same-origin"}:
        return True
    origin = environ.get("HTTP_ORIGIN")
    return origin is not None and not _same_origin(origin, host)


def _same_origin(origin: str, host: str) -> bool:
    """Whether `origin` names this server. The scheme may differ: a proxy in front of us may speak TLS."""
    try:
        parts = urlsplit(origin)
        theirs = (parts.hostname, parts.port or _DEFAULT_PORTS.get(parts.scheme))
        ours = urlsplit(f"{parts.scheme}://{host}")
        return theirs[0] is not None and theirs == (ours.hostname, ours.port or _DEFAULT_PORTS.get(parts.scheme))
    except ValueError:
        return False


def _with_headers(environ: WSGIEnvironment, start_response: StartResponse) -> StartResponse:
    host = environ.get("HTTP_HOST", "")
    api = environ.get("PATH_INFO", "").startswith("/api/")

    def start(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
        present = {name.lower() for name, _ in headers}
        ours = [*_FIXED, ("Content-Security-Policy", content_security_policy(host))]
        if api:
            ours.append(("Cache-Control", "no-store"))
        return start_response(status, [*headers, *(one for one in ours if one[0].lower() not in present)], *exc_info)

    return start


def _answer(problem: Problem, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    body = orjson.dumps(problem.body(environ.get("PATH_INFO", "").encode("latin-1").decode("utf-8", "replace")))
    headers = [("Content-Type", PROBLEM_TYPE), ("Content-Length", str(len(body))), ("Connection", "close"), *_FIXED]
    start_response(f"{problem.status} {problem.title}", headers)
    return [body]
