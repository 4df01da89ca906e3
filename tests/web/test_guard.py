"""Requests of foreign pages and for foreign names are refused, on every route; every answer carries its headers."""

from __future__ import annotations

import pytest

from tests.web.kit import Caller, assert_problem
from web.factory import Web
from web.guard import Guard
from web.settings import AsyncMode, WebSettings

EVIL_HOSTS = [
    "evil.example",
    "evil.example:5055",
    "localhost.evil.example",
    "localhost:5055.evil.example",
    "localhost@evil.example",
    "localhost/evil",
    "127.0.0.1.evil.example",
    "10.0.0.1",
    "localhost.",
    "localhost:x",
    "",
    "[::1",
]
EVIL_ORIGINS = [
    "http://evil.example",
    "null",
    "",
    "http://localhost:9999",
    "http://localhost.evil.example",
    "http://localhost@evil.example",
    "https://localhost:444",
    "file://",
    "localhost",
]


@pytest.mark.parametrize("host", EVIL_HOSTS)
@pytest.mark.parametrize(
    "path", ["/healthz", "/api/queue", "/sessions", "/socket.io/?EIO=4&transport=polling", "/static/x"]
)
def test_a_foreign_host_is_refused_everywhere(api: Caller, path: str, host: str) -> None:
    answer = api.client.get(path, headers={"Host": host})
    assert answer.status_code == 421
    assert_problem(answer.json, 421)


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:5055", "127.0.0.1", "127.0.0.1:80", "[::1]:5055", "LOCALHOST"]
)
def test_our_own_names_are_served(api: Caller, host: str) -> None:
    assert api.client.get("/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("origin", EVIL_ORIGINS)
def test_a_foreign_page_changes_nothing(web: Web, api: Caller, origin: str) -> None:
    for rule in web.app.url_map.iter_rules():
        if "POST" in (rule.methods or ()):
            path = str(rule).replace("<", "").replace(">", "")
            answer = api.client.post(path, json={"moniker": "echo"}, headers={"Origin": origin})
            assert answer.status_code == 403, path
    assert api.get("/api/queue")["items"] == []


@pytest.mark.parametrize("site", ["cross-site", "same-site", "CROSS-SITE", "?"])
def test_what_a_browser_calls_foreign_changes_nothing(api: Caller, site: str) -> None:
    headers = {"Sec-Fetch-Site": site}
    api.post("/api/agents", {"moniker": "echo"}, 403, headers=headers)


@pytest.mark.parametrize(
    "headers",
    [{}, {"Origin": "http://localhost"}, {"Origin": "http://localhost:80"}, {"Sec-Fetch-Site": "same-origin"}],
)
def test_our_pages_and_programs_may_write(api: Caller, headers: dict[str, str]) -> None:
    api.post("/api/agents", {"moniker": "echo"}, headers=headers)


def test_a_foreign_page_gets_no_live_connection(api: Caller) -> None:
    address = "/socket.io/?EIO=4&transport=polling"
    assert api.client.get(address).status_code == 200
    assert api.client.get(address, headers={"Origin": "http://localhost"}).status_code == 200
    for origin in EVIL_ORIGINS:
        assert api.client.get(address, headers={"Origin": origin}).status_code == 403, origin


def test_nobody_is_told_that_other_origins_may_read(api: Caller) -> None:
    for method in ("GET", "OPTIONS"):
        headers = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
        answer = api.client.open("/api/queue", method=method, headers=headers)
        assert not [name for name in answer.headers if name[0].lower().startswith("access-control")]


@pytest.mark.parametrize("path", ["/healthz", "/api/queue", "/api/none", "/docs", "/sessions", "/nope"])
def test_every_answer_forbids_what_it_does_not_need(api: Caller, path: str) -> None:
    headers = api.client.get(path).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == policy["script-src"] == policy["style-src"] == "'self'"
    assert policy["object-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["connect-src"] == "'self' ws://localhost wss://localhost"
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"]
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"


def test_api_answers_are_not_kept(api: Caller) -> None:
    assert api.client.get("/api/queue").headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    "environ",
    [
        {"HTTP_TRANSFER_ENCODING": "chunked", "CONTENT_LENGTH": "5"},
        {"HTTP_TRANSFER_ENCODING": "gzip, chunked", "CONTENT_LENGTH": ""},
        {"HTTP_TRANSFER_ENCODING": "identity", "CONTENT_LENGTH": ""},
        {"CONTENT_LENGTH": "-1"},
        {"CONTENT_LENGTH": "+5"},
        {"CONTENT_LENGTH": "5, 5"},
    ],
)
def test_a_body_without_one_clear_end_is_refused(api: Caller, environ: dict[str, str]) -> None:
    answer = api.client.post("/api/agents", environ_overrides=environ)
    assert answer.status_code == 400
    assert_problem(answer.json, 400)


def test_an_address_is_fine_in_host_only_when_all_are_served(api: Caller, web: Web) -> None:
    open_to_all = WebSettings(host="0.0.0.0", async_mode=AsyncMode.THREADING)  # noqa: S104
    web.app.wsgi_app = Guard(web.app.wsgi_app._inner, open_to_all)  # type: ignore[attr-defined,method-assign]
    assert api.client.get("/healthz", headers={"Host": "10.0.0.1:5055"}).status_code == 200
    assert api.client.get("/healthz", headers={"Host": "evil.example"}).status_code == 421


def test_further_names_can_be_allowed() -> None:
    settings = WebSettings(allowed_hosts="Step.example, [fd00::1]")
    assert {"step.example", "fd00::1", "localhost"} <= settings.host_names


def test_what_breaks_outside_of_flask_is_answered_too(api: Caller, web: Web) -> None:
    def broken(*_: object) -> list[bytes]:
        raise RuntimeError("secret detail")

    web.app.wsgi_app = Guard(broken, web.settings)  # type: ignore[method-assign]
    answer = api.client.get("/healthz")
    assert answer.status_code == 500
    assert "secret" not in answer.get_data(as_text=True)
