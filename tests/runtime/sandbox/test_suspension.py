"""The seal on a suspended program: nothing of it can be changed, and no answer carried over."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.sandbox.errors import SandboxMisuseError, SnapshotRefusedError
from runtime.sandbox.fake import FAKE_ENGINE, suspended_at
from runtime.sandbox.port import Approved, Binding, Fingerprint, HostCall, Limits, Rejected, Suspended, Usage
from runtime.sandbox.suspension import Sealer, from_json, to_json
from tests.support import examples

KEY = b"k" * 32
SEALED = Sealer(KEY).seal(suspended_at("send", "ann", 1))

OTHERS: dict[str, Any] = {
    "call": HostCall("send", ("bob", 1), {}, 1),
    "snapshot": b"other",
    "binding": Binding("other"),
    "run": "other",
    "program": Fingerprint("other"),
    "functions": ("send", "more"),
    "limits": Limits(seconds=500),
    "engine": "other",
    "ceiling": 5,
    "printed": "other",
    "usage": Usage(),
    "seal": "other",
}


def check(suspended: Suspended, answer: Approved | Rejected | None = None, key: bytes = KEY) -> None:
    Sealer(key).check(suspended, SEALED.binding, FAKE_ENGINE, answer or Approved(suspended.fingerprint))


def test_what_was_sealed_holds_as_text_too() -> None:
    check(SEALED)
    assert from_json(to_json(SEALED)) == SEALED
    check(from_json(to_json(SEALED)))


def test_every_field_is_under_the_seal() -> None:
    assert set(OTHERS) == {field.name for field in fields(Suspended)}


@pytest.mark.parametrize("field", OTHERS)
def test_a_changed_field_is_refused(field: str) -> None:
    with pytest.raises(SnapshotRefusedError, match="was changed"):
        check(replace(SEALED, **{field: OTHERS[field]}))


@pytest.mark.parametrize("args", [("ann", 2), ("ann", True), ("ann", 1.0), ("ann", "1"), ("ann",), ("ann", 1, None)])
def test_arguments_that_look_alike_are_others(args: tuple[Any, ...]) -> None:
    call = replace(SEALED.call, args=args)
    assert replace(SEALED, call=call).fingerprint != SEALED.fingerprint
    with pytest.raises(SnapshotRefusedError):
        check(replace(SEALED, call=call))


def test_another_key_is_refused() -> None:
    with pytest.raises(SnapshotRefusedError, match="another key"):
        check(SEALED, key=b"x" * 32)


def test_another_session_and_another_engine_are_refused() -> None:
    answer = Approved(SEALED.fingerprint)
    with pytest.raises(SnapshotRefusedError, match="belongs to"):
        Sealer(KEY).check(SEALED, Binding("other"), FAKE_ENGINE, answer)
    with pytest.raises(SnapshotRefusedError, match="suspended by fake, but this is fake 2"):
        Sealer(KEY).check(SEALED, SEALED.binding, "fake 2", answer)


def test_an_answer_to_another_call_is_refused() -> None:
    later = Sealer(KEY).seal(replace(SEALED, call=replace(SEALED.call, number=2)))
    for answer in (Approved(SEALED.fingerprint), Rejected(SEALED.fingerprint, "no")):
        with pytest.raises(SnapshotRefusedError, match="the answer is for call"):
            check(later, answer)


def test_a_short_key_is_refused() -> None:
    with pytest.raises(SandboxMisuseError, match="at least 32"):
        Sealer(b"short")


@given(place=st.integers(0, len(to_json(SEALED)) - 1), byte=st.integers(0, 255))
@examples(200)
def test_no_changed_byte_of_the_text_gets_through(place: int, byte: int) -> None:
    text = bytearray(to_json(SEALED).encode())
    text[place] = byte
    try:
        changed = from_json(bytes(text))
    except SnapshotRefusedError:
        return
    if changed != SEALED:
        with pytest.raises(SnapshotRefusedError):
            check(changed)


@given(text=st.binary() | st.text() | st.recursive(st.none() | st.text(), st.lists, max_leaves=5).map(str))
@examples(80)
def test_any_other_text_is_refused(text: str | bytes) -> None:
    with pytest.raises(SnapshotRefusedError):
        from_json(text)
