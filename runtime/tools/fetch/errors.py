"""Why something was not fetched: a rule forbids it, or the outside did not deliver.

Messages are shown to models. They name the URL and its host as they were given, never an address that a name stands
for, which would let a model ask what lies in the operator's network, and never what a server wrote: that is kept apart
in `detail`.
"""

from __future__ import annotations

from enum import StrEnum

from runtime.tools.fetch.untrusted import Untrusted


class FetchReason(StrEnum):
    """What the matter was."""

    URL = "url"  # no URL that every program reads alike
    HOST = "host"  # scheme, host or port is not on the list
    ADDRESS = "address"  # the host is not in the public network
    REQUEST = "request"  # a method or header that may not be sent
    REDIRECT = "redirect"  # too many of them, or one that may not be followed
    HEADERS = "headers"  # more header bytes than allowed
    CONTENT_TYPE = "content_type"  # content of a kind that is not on the list
    ENCODING = "encoding"  # compressed in a way that was not offered
    DNS = "dns"  # the name has no address
    CONNECT = "connect"  # no connection, or a certificate that is not accepted
    PROTOCOL = "protocol"  # an answer that is no proper HTTP, or breaks off
    TIMEOUT = "timeout"  # not done within the deadline


class FetchError(Exception):
    """The base of every error of this folder; `reason` says what the matter was.

    `detail` says more where a server led somewhere: where to is that server's choice of words.
    """

    def __init__(self, reason: FetchReason, message: str, detail: Untrusted[str] | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.detail = detail

    def behind_redirect(self, host: str) -> FetchError:
        """The same error without words of the outside, for a request to `host` that was led elsewhere."""
        message = f"{host} redirects to something that cannot be fetched ({self.reason}): fetch another page"
        return type(self)(self.reason, message, Untrusted(str(self), host))


class FetchRefusedError(FetchError):
    """A rule forbids it. The same request will be refused again."""


class FetchFailedError(FetchError):
    """The outside did not deliver. The request may have been carried out; another try may succeed."""
