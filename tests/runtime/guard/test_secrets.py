"""Secrets are cut out whatever they are written in, and what is left holds none and is not cut again."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote, quote_plus, unquote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from runtime.guard.errors import SecretError
from runtime.guard.port import AgentType, Allow, Channel, Passage, Redact, well_formed
from runtime.guard.secretforms import looks_random
from runtime.guard.secretsgate import Secrets, SecretsGate
from runtime.guard.spans import MARKS
from tests.support import examples

SECRET = "velvet otter/9917+harbour"
SECRETS = Secrets({"CANARY": SECRET})

_SECRET_TEXT = st.text(min_size=8, max_size=30).filter(lambda text: len(text.strip()) >= 8)
_TEMPTING = st.lists(
    st.one_of(
        st.text(max_size=10),
        st.sampled_from(
            [
                "password=",
                "token: ",
                "AKIAIOSFODNN7EXAMPLE",
                "sk-",
                "a1b2c3d4e5f6g7",
                "://u:",
                "@",
                "eyJabcdefgh.",
                "%41",
            ]
        ),
        st.sampled_from(["-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "⟦", "⟧", "redacted", "\ud800"]),
    ),
    max_size=12,
).map("".join)


@pytest.mark.parametrize(
    "written",
    [
        SECRET,
        quote(SECRET),
        quote(SECRET, safe=""),
        quote_plus(SECRET),
        quote(SECRET, safe="").lower(),
        "".join(f"%{byte:02x}" for byte in SECRET.encode()),
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
        json.dumps({"key": SECRET}),
        *(base64.b64encode(b"x" * before + SECRET.encode() + b"yz").decode() for before in range(6)),
        *(base64.urlsafe_b64encode(b"\xff" * before + SECRET.encode()).decode() for before in range(3)),
    ],
)
def test_a_configured_secret_is_found_in_every_writing(written: str) -> None:
    left = SECRETS.redact(f"before {written} after")
    assert "⟦redacted CANARY⟧" in left
    assert left.startswith("before ")
    assert left.endswith(" after")
    for form in (SECRET, SECRET.encode().hex(), quote(SECRET), base64.b64encode(SECRET.encode()).decode().rstrip("=")):
        assert form not in left


@given(secret=_SECRET_TEXT, other=_SECRET_TEXT, before=_TEMPTING, after=_TEMPTING, shift=st.integers(0, 2))
@examples(150)
def test_what_is_left_never_holds_a_configured_secret(
    secret: str, other: str, before: str, after: str, shift: int
) -> None:
    try:
        secrets = Secrets({"ONE": secret, "redacted": other})
    except SecretError:
        assume(False)
    bare = secret.strip()
    encoded = base64.b64encode(b"q" * shift + bare.encode("utf-8", "surrogatepass")).decode()
    text = f"{before}{bare}{bare}{after}{other}{before}{encoded} {quote(bare, errors='surrogatepass')}"
    left = secrets.redact(text)
    for value in (bare, other.strip()):
        assert value not in left
        assert value not in unquote(left)
    assert secrets.redact(left) == left


@given(text=_TEMPTING)
@examples(300)
def test_any_text_is_redacted_once_and_for_all(text: str) -> None:
    spans = SECRETS.spans(text)
    assert well_formed(text, spans)
    left = SECRETS.redact(text)
    assert SECRETS.redact(left) == left


def test_overlapping_repeats_leave_nothing() -> None:
    secrets = Secrets({"A": "abababab"})
    assert "abababab" not in secrets.redact("abababababab")
    assert secrets.redact("xababababababy") == "x⟦redacted A⟧y"


@pytest.mark.parametrize("value", ["redacted", "redacted N", "⟦redacted N⟧", "secret-name", "⟦⟧⟪⟫⦃⦄⦗⦘"])
def test_a_secret_like_what_is_written_in_its_place_is_still_gone(value: str) -> None:
    secrets = Secrets({"N": value, "secret-name": "another-value-1"})
    left = secrets.redact(f"a {value} b another-value-1 c AKIAIOSFODNN7EXAMPLE")
    assert value not in left
    assert secrets.redact(left) == left


def test_secrets_that_cannot_be_looked_for_are_refused_without_quoting_them() -> None:
    with pytest.raises(SecretError, match="PIN has 4 characters") as short:
        Secrets({"PIN": "7391"})
    assert "7391" not in str(short.value)
    with pytest.raises(SecretError, match="every mark"):
        Secrets({"ALL": "".join(MARKS)})
    assert SECRET not in repr(vars(SECRETS))


def test_a_key_without_an_end_does_not_take_the_rest_of_the_text() -> None:
    left = SECRETS.redact("-----BEGIN PRIVATE KEY-----\nMIIEabc=\n\nwhat follows, is prose.")
    assert "MIIE" not in left
    assert "is prose." in left


def test_two_keys_are_two() -> None:
    key = "-----BEGIN EC PRIVATE KEY-----\nMHcC\n-----END EC PRIVATE KEY-----"
    assert SECRETS.redact(f"{key} and {key}") == "⟦redacted private key⟧ and ⟦redacted private key⟧"


@pytest.mark.parametrize(
    ("value", "random"),
    [("9f8e7d6c5b4a39281706", True), ("aaaaaaaaaaaaaaa1", False), ("internationalisation", False), ("a1b2c3", False)],
)
def test_disorder_tells_keys_from_words(value: str, random: bool) -> None:
    assert looks_random(value) is random


@pytest.mark.parametrize(
    "piece",
    ["eyJ", "a://", "token=", "-----BEGIN PRIVATE KEY-----", "password:", "sk-", "%41", "SG.", "AAAA1", "://a:b"],
)
def test_long_hostile_text_takes_linear_time(piece: str) -> None:
    SECRETS.spans(piece * (60_000 // len(piece)))  # the suite's time-out is what fails here: quadratic takes minutes


async def test_the_gate_redacts_or_allows() -> None:
    gate = SecretsGate(SECRETS)
    found = await gate.judge(Passage(f"x {SECRET}" + " y" * 8_000, Channel.INPUT, AgentType("a"), "s"))
    assert isinstance(found, Redact)
    assert [(span.start, span.end, span.label) for span in found.spans] == [(2, 2 + len(SECRET), "CANARY")]
    assert await gate.judge(Passage("x", Channel.INPUT, AgentType("a"), "s")) == Allow()
