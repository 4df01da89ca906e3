"""Which `LlmErrorKind` a failed call is, when to come back, and whether it is worth trying again."""

from __future__ import annotations

import math
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import openai

from runtime.llm.port import LlmError, LlmErrorKind
from store.clock import SystemClock

MAX_MESSAGE_CHARS = 500
LONGEST_RETRY_AFTER_S = 86_400.0

_PASSING = frozenset({LlmErrorKind.TIMEOUT, LlmErrorKind.RATE_LIMIT, LlmErrorKind.SERVER, LlmErrorKind.UNAVAILABLE})
_KINDS: dict[int, LlmErrorKind] = {
    HTTPStatus.UNAUTHORIZED: LlmErrorKind.AUTH,
    HTTPStatus.PAYMENT_REQUIRED: LlmErrorKind.AUTH,
    HTTPStatus.FORBIDDEN: LlmErrorKind.AUTH,
    HTTPStatus.REQUEST_TIMEOUT: LlmErrorKind.TIMEOUT,
    HTTPStatus.TOO_MANY_REQUESTS: LlmErrorKind.RATE_LIMIT,
    HTTPStatus.SERVICE_UNAVAILABLE: LlmErrorKind.UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT: LlmErrorKind.TIMEOUT,
}


def worth_retrying(error: BaseException) -> bool:
    """True when the same call may well succeed a little later."""
    return isinstance(error, LlmError) and error.kind in _PASSING


def llm_error(error: openai.APIError, label: str) -> LlmError:
    """The failure of a call to the model `label`, in our words."""
    message = f"{label}: {error.message}"[:MAX_MESSAGE_CHARS]
    if isinstance(error, openai.APIStatusError):
        after = retry_after_s(error.response.headers.get("retry-after"))
        return LlmError(_kind(error), f"{message} (HTTP {error.status_code})"[:MAX_MESSAGE_CHARS], retry_after_s=after)
    if isinstance(error, openai.APITimeoutError):
        return LlmError(LlmErrorKind.TIMEOUT, message)
    # connection refused, cut in the answer, DNS: the endpoint is not there right now
    return LlmError(LlmErrorKind.UNAVAILABLE, message)


def _kind(error: openai.APIStatusError) -> LlmErrorKind:
    if error.code == "insufficient_quota":
        return LlmErrorKind.AUTH  # sent as 429, but no waiting helps
    server = error.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR
    return _KINDS.get(error.status_code, LlmErrorKind.SERVER if server else LlmErrorKind.BAD_REQUEST)


def retry_after_s(header: str | None) -> float | None:
    """The seconds that a Retry-After header asks for, given as seconds or as a date; None when it says nothing.

    Never negative and never more than a day.
    """
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        return _seconds_until(header)
    return None if math.isnan(seconds) else _bounded(seconds)


def _seconds_until(date: str) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return _bounded((moment - SystemClock().now()).total_seconds())


def _bounded(seconds: float) -> float:
    return min(max(0.0, seconds), LONGEST_RETRY_AFTER_S)
