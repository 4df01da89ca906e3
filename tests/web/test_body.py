"""Bodies that are not what they should be are refused before anything happens, with the status that says why."""

from __future__ import annotations

from collections.abc import Iterator

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import examples
from tests.web.kit import Caller, assert_problem

NOT_JSON = [
    b"",
    b" ",
    b"{",
    b'{"moniker": "echo"',
    b"{'moniker': 'echo'}",
    b'{"moniker": "echo"} x',
    b'{"moniker": "echo",}',
    b'{"moniker": NaN}',
    b'{"moniker": "\xff"}',
    b'{"moniker": "\\ud800"}',
    b'{"moniker": "a\x00b"}',
    b"moniker=echo",
    b"\x00\x01\x02",
]


@pytest.mark.parametrize("raw", NOT_JSON)
def test_what_is_not_json_is_a_400(api: Caller, raw: bytes) -> None:
    api.raw("/api/agents", raw, 400)


@pytest.mark.parametrize("raw", [b"[]", b"null", b"1", b'"x"', b"[{}]"])
def test_what_is_no_object_is_a_400(api: Caller, raw: bytes) -> None:
    assert "object" in api.raw("/api/agents", raw, 400)["detail"]


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "text/json"]
)
def test_another_content_type_is_a_415(api: Caller, kind: str | None) -> None:
    api.raw("/api/agents", b'{"moniker": "echo"}', 415, content_type=kind)
    assert api.get("/api/queue")["items"] == []


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
def test_json_by_any_of_its_names_is_fine(api: Caller, kind: str) -> None:
    api.raw("/api/agents", b'{"moniker": "echo"}', 202, content_type=kind)


def test_a_large_body_is_a_413(api: Caller) -> None:
    api.raw("/api/agents", b"x" * 1_000_001, 413)
    api.raw("/api/agents", b'{"moniker": "' + b"x" * 50_000_000 + b'"}', 413)


def test_a_large_body_of_unknown_length_is_a_413(api: Caller) -> None:
    def forever() -> Iterator[bytes]:
        for _ in range(100):
            yield b"x" * 65_536

    class Stream:
        def __init__(self) -> None:
            self.parts = forever()

        def read(self, _size: int = -1) -> bytes:
            return next(self.parts, b"")

    answer = api.client.post(
        "/api/agents",
        content_type="application/json",
        environ_overrides={"wsgi.input": Stream(), "HTTP_TRANSFER_ENCODING": "chunked", "CONTENT_LENGTH": ""},
    )
    assert answer.status_code == 413
    assert_problem(answer.json, 413)


def test_the_largest_body_that_is_allowed_is_read(api: Caller) -> None:
    body = b'{"moniker": "echo", "task": "x"}'
    api.raw("/api/agents", body + b" " * (1_000_000 - len(body)), 202)


@pytest.mark.parametrize(("levels", "expect"), [(64, 202), (65, 400), (2_000, 400), (200_000, 400)])
def test_depth_is_bounded(api: Caller, levels: int, expect: int) -> None:
    # The body itself and the config are the first two levels.
    inner = levels - 2
    raw = b'{"moniker": "joke", "config": {"a": ' + b"[" * inner + b"]" * inner + b"}}"
    api.raw("/api/agents", raw, expect)


@examples(40)
@given(st.binary(max_size=60))
def test_no_bytes_are_a_fault_of_ours(api: Caller, raw: bytes) -> None:
    answer = api.client.post("/api/agents", data=raw, content_type="application/json")
    assert answer.status_code in {400, 422}
    assert_problem(answer.json, answer.status_code)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@examples(40)
@given(st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=8), JSON, max_size=4))
def test_any_config_comes_back_as_it_was_sent(api: Caller, config: dict[str, object]) -> None:
    made = api.raw("/api/agents", orjson.dumps({"moniker": "joke", "config": config}), 202)
    assert api.get(f"/api/sessions/{made['session_id']}")["config"] == config
