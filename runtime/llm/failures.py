"""Which `LlmErrorKind` a failed call is, when to come back, and whether it is worth trying again."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

import httpx2
import openai

from runtime.llm.port import BadRequestReason, LlmError, LlmErrorKind
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
#: what providers call the same thing, in their codes or, where they have none, in their words
_REASONS: tuple[tuple[BadRequestReason, re.Pattern[str]], ...] = (
    (
        BadRequestReason.CONTEXT_LENGTH,
        re.compile(r"context.{0,20}(length|size|window)|prompt is too long|too many (input )?tokens", re.I),
    ),
    (
        BadRequestReason.CONTENT_FILTER,
        re.compile(r"content.?(policy|filter)|content management policy|safety system", re.I),
    ),
    (
        BadRequestReason.MODEL_NOT_FOUND,
        re.compile(r"model_not_found|invalid_model|model.{0,80}(not found|exist)", re.I),
    ),
    (
        BadRequestReason.UNSUPPORTED,
        re.compile(r"(does not|doesn't|not) support|unsupported|tool(s|_choice)? .{0,40}requires", re.I),
    ),
)


def worth_retrying(error: BaseException) -> bool:
    """True when the same call may well succeed a little later."""
    return isinstance(error, LlmError) and error.kind in _PASSING


def llm_error(error: openai.OpenAIError | httpx2.HTTPError, label: str) -> LlmError:
    """The failure of a call to the model `label`, in our words. Every error of the client has a kind."""
    said = getattr(error, "message", "") or str(error) or type(error).__name__
    message = f"{label}: {said}"[:MAX_MESSAGE_CHARS]
    match error:
        case openai.APIResponseValidationError():
            return LlmError(LlmErrorKind.MALFORMED, message)
        case openai.APIStatusError():
            return _status_error(error, message)
        case openai.APITimeoutError() | httpx2.TimeoutException():
            return LlmError(LlmErrorKind.TIMEOUT, message)
        case openai.LengthFinishReasonError():
            return LlmError(LlmErrorKind.TRUNCATED, message)
        case openai.ContentFilterFinishReasonError():
            return LlmError(LlmErrorKind.BAD_REQUEST, message, reason=BadRequestReason.CONTENT_FILTER)
        case httpx2.DecodingError():
            return LlmError(LlmErrorKind.MALFORMED, message)
        case openai.APIError() | httpx2.HTTPError() | openai.WebSocketConnectionClosedError():
            # connection refused, cut in the answer, DNS: the endpoint is not there right now
            return LlmError(LlmErrorKind.UNAVAILABLE, message)
        case _:
            # the client itself will not send this (no credentials, a value it does not take)
            return LlmError(LlmErrorKind.BAD_REQUEST, message)


def _status_error(error: openai.APIStatusError, message: str) -> LlmError:
    after = retry_after_s(error.response.headers.get("retry-after"))
    said = f"{message} (HTTP {error.status_code})"[:MAX_MESSAGE_CHARS]
    return status_error(error.status_code, error.code, said, after)


def status_error(status: int, code: Any, message: str, after: float | None = None) -> LlmError:
    """The failure that an HTTP status, or the `error` object of a provider that sends one with a 200, stands for."""
    kind = _kind(status, code)
    reason = _reason(f"{code} {message}") if kind is LlmErrorKind.BAD_REQUEST else None
    return LlmError(kind, message, retry_after_s=after, reason=reason)


def _kind(status: int, code: Any) -> LlmErrorKind:
    if code == "insufficient_quota":
        return LlmErrorKind.AUTH  # sent as 429, but no waiting helps
    server = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return _KINDS.get(status, LlmErrorKind.SERVER if server else LlmErrorKind.BAD_REQUEST)


def _reason(said: str) -> BadRequestReason:
    return next((reason for reason, words in _REASONS if words.search(said)), BadRequestReason.OTHER)


def retry_after_s(header: str | None, now: datetime | None = None) -> float | None:
    """The seconds that a Retry-After header asks for, given as seconds or as a date; None when it says nothing.

    Never negative and never more than a day. Both forms: RFC 9110, section 10.2.3.
    """
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        return _seconds_until(header, now or SystemClock().now())
    return None if math.isnan(seconds) else _bounded(seconds)


def _seconds_until(date: str, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return _bounded((moment - now).total_seconds())


def _bounded(seconds: float) -> float:
    return min(max(0.0, seconds), LONGEST_RETRY_AFTER_S)
