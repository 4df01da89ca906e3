"""What can go wrong with a server, as calls of its tools meet it."""

from __future__ import annotations


class CannotConnect(Exception):
    """The server cannot be started or reached; the message says why and names no secret."""


class ServerGone(ConnectionError):
    """The connection ended during a call: what the server had done by then nobody knows."""


class BadAnswer(Exception):
    """The server answered with something that is no answer to a call."""


def words_of(error: BaseException) -> str:
    """Why a connection ended, in a sentence: the first error inside a group of them, shortened."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    said = " ".join(str(error).split())[:300]
    return said or type(error).__name__
