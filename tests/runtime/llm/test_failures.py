"""Every error of the client has one kind of ours."""

from __future__ import annotations

from datetime import UTC, datetime

import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.llm.failures import LONGEST_RETRY_AFTER_S, llm_error, retry_after_s, status_error, worth_retrying
from runtime.llm.port import BadRequestReason, LlmErrorKind

ASKED = httpx2.Request("POST", "http://127.0.0.1/v1/chat/completions")


def answered(status: int) -> httpx2.Response:
    return httpx2.Response(status, request=ASKED, headers={"retry-after": "3"})


def status_class(kind: type[openai.APIStatusError], status: int) -> openai.APIStatusError:
    return kind("no", response=answered(status), body=None)


ERRORS: list[tuple[openai.OpenAIError | httpx2.HTTPError, LlmErrorKind]] = [
    (status_class(openai.BadRequestError, 400), LlmErrorKind.BAD_REQUEST),
    (status_class(openai.AuthenticationError, 401), LlmErrorKind.AUTH),
    (status_class(openai.PermissionDeniedError, 403), LlmErrorKind.AUTH),
    (status_class(openai.NotFoundError, 404), LlmErrorKind.BAD_REQUEST),
    (status_class(openai.ConflictError, 409), LlmErrorKind.BAD_REQUEST),
    (status_class(openai.UnprocessableEntityError, 422), LlmErrorKind.BAD_REQUEST),
    (status_class(openai.RateLimitError, 429), LlmErrorKind.RATE_LIMIT),
    (status_class(openai.InternalServerError, 500), LlmErrorKind.SERVER),
    (status_class(openai.InternalServerError, 503), LlmErrorKind.UNAVAILABLE),
    (status_class(openai.APIStatusError, 504), LlmErrorKind.TIMEOUT),
    (openai.APIResponseValidationError(answered(200), None), LlmErrorKind.MALFORMED),
    (openai.APITimeoutError(request=ASKED), LlmErrorKind.TIMEOUT),
    (openai.APIConnectionError(request=ASKED), LlmErrorKind.UNAVAILABLE),
    (openai.APIError("no", ASKED, body=None), LlmErrorKind.UNAVAILABLE),
    (openai.ContentFilterFinishReasonError(), LlmErrorKind.BAD_REQUEST),
    (openai.OpenAIError("no credentials"), LlmErrorKind.BAD_REQUEST),
    (httpx2.ReadTimeout("slow"), LlmErrorKind.TIMEOUT),
    (httpx2.ConnectTimeout("slow"), LlmErrorKind.TIMEOUT),
    (httpx2.ReadError("cut"), LlmErrorKind.UNAVAILABLE),
    (httpx2.RemoteProtocolError("cut"), LlmErrorKind.UNAVAILABLE),
    (httpx2.DecodingError("not gzip"), LlmErrorKind.MALFORMED),
]


@pytest.mark.parametrize(("error", "kind"), ERRORS, ids=lambda value: type(value).__name__)
def test_each_error_of_the_client_has_its_kind(error: openai.OpenAIError, kind: LlmErrorKind) -> None:
    found = llm_error(error, "m")
    assert found.kind is kind
    assert str(found).startswith(f"{kind.value}: m: ")
    assert (found.reason is None) == (kind is not LlmErrorKind.BAD_REQUEST)
    if isinstance(error, openai.APIStatusError):
        assert found.retry_after_s == 3.0


def test_every_status_has_a_kind_and_only_what_may_pass_is_worth_another_try() -> None:
    for status in range(400, 600):
        found = status_error(status, None, "no")
        passing = found.kind in {"timeout", "rate_limit", "server", "unavailable"}
        assert worth_retrying(found) == passing
        assert passing or found.kind in {"auth", "bad_request"}


@pytest.mark.parametrize(
    ("code", "message", "reason"),
    [
        ("context_length_exceeded", "", BadRequestReason.CONTEXT_LENGTH),
        (None, "This model's maximum context length is 8192 tokens", BadRequestReason.CONTEXT_LENGTH),
        (None, "the request exceeds the available context size, try increasing it", BadRequestReason.CONTEXT_LENGTH),
        (None, "prompt is too long: 210000 tokens", BadRequestReason.CONTEXT_LENGTH),
        ("content_policy_violation", "", BadRequestReason.CONTENT_FILTER),
        (None, "triggered content management policy", BadRequestReason.CONTENT_FILTER),
        ("model_not_found", "", BadRequestReason.MODEL_NOT_FOUND),
        (None, "The model `gpt-9` does not exist", BadRequestReason.MODEL_NOT_FOUND),
        (None, "model 'x' not found, try pulling it first", BadRequestReason.MODEL_NOT_FOUND),
        (None, "m does not support tools", BadRequestReason.UNSUPPORTED),
        (None, "odd", BadRequestReason.OTHER),
    ],
)
def test_a_bad_request_says_why(code: str | None, message: str, reason: BadRequestReason) -> None:
    assert status_error(400, code, message).reason is reason


@given(st.text(max_size=40))
def test_any_retry_after_is_a_bounded_time_or_nothing(header: str) -> None:
    found = retry_after_s(header, datetime(2026, 1, 1, tzinfo=UTC))
    assert found is None or 0 <= found <= LONGEST_RETRY_AFTER_S


def test_a_date_is_counted_from_the_moment_given() -> None:
    assert retry_after_s("Thu, 01 Jan 2026 00:01:30 GMT", datetime(2026, 1, 1, tzinfo=UTC)) == 90.0
