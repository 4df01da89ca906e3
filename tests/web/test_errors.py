"""Every error is a problem for programs and a page for people; none says what only the log should."""

from __future__ import annotations

from pathlib import Path

import pytest

from store import BadRowError, NotFoundError, StoreUnavailableError
from tests.web.kit import CATALOGUE, MODEL, Caller, assert_problem, opener
from web.factory import Web, create_app
from web.settings import AsyncMode, WebSettings

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


@pytest.mark.parametrize("accept", ["", "*/*", "application/json", "text/html"])
def test_the_api_answers_problems_whoever_asks(api: Caller, accept: str) -> None:
    answer = api.client.get("/api/none", headers={"Accept": accept})
    assert answer.status_code == 404
    assert answer.mimetype == "application/problem+json"
    assert_problem(answer.json, 404)
    assert answer.json is not None
    assert answer.json["instance"] == "/api/none"


def test_a_browser_gets_a_page(api: Caller) -> None:
    answer = api.client.get("/nope", headers=BROWSER)
    assert (answer.status_code, answer.mimetype) == (404, "text/html")
    assert "404" in answer.get_data(as_text=True)


def test_markup_in_the_address_stays_text(api: Caller) -> None:
    page = api.client.get("/sessions/<script>alert(1)<%2Fscript>", headers=BROWSER).get_data(as_text=True)
    assert "<script>alert" not in page


@pytest.mark.parametrize(("method", "path"), [("DELETE", "/api/agents"), ("PUT", "/api/queue"), ("POST", "/healthz")])
def test_another_method_is_a_405_that_names_the_right_ones(api: Caller, method: str, path: str) -> None:
    answer = api.client.open(path, method=method)
    assert_problem(answer.json, 405)
    assert "GET" in answer.headers["Allow"]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotFoundError("thing", "x"), 404),
        (BadRowError("out of range"), 422),
        (StoreUnavailableError("gone"), 503),
        (TimeoutError(), 503),
        (ZeroDivisionError("secret detail"), 500),
        (KeyError("secret detail"), 500),
    ],
)
def test_errors_have_their_status(web: Web, api: Caller, error: Exception, status: int) -> None:
    def broken() -> str:
        raise error

    web.app.add_url_rule("/api/broken", "broken", broken)
    answer = api.client.get("/api/broken")
    assert_problem(answer.json, status)
    assert "secret" not in answer.get_data(as_text=True)
    assert ("Retry-After" in answer.headers) is (status == 503)


def test_an_address_that_takes_no_parameters_says_so(api: Caller) -> None:
    assert "limit" in api.get("/healthz", 400, limit="5")["detail"]


@pytest.mark.parametrize("headers", [{}, BROWSER])
@pytest.mark.parametrize("path", ["/fails", "/api/fails"])
def test_no_answer_tells_a_secret(tmp_path: Path, path: str, headers: dict[str, str]) -> None:
    key = "velvet-otter-9917-harbour"
    settings = WebSettings(async_mode=AsyncMode.THREADING)
    web = create_app(settings, opener(tmp_path), CATALOGUE, MODEL, lambda text: text.replace(key, "[redacted]"))

    def fails() -> str:
        raise StoreUnavailableError(f"no store at s3://user:{key}@host")

    web.app.add_url_rule(path, path, fails)
    try:
        answer = web.app.test_client().get(path, headers=headers)
        assert answer.status_code == 503
        assert key not in answer.get_data(as_text=True)
        assert "[redacted]" in answer.get_data(as_text=True)
    finally:
        web.close()
