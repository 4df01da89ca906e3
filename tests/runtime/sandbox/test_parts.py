"""The small parts: what is plain JSON, what may be said on the line, what is kept of the output, limits, the fake."""

from __future__ import annotations

import asyncio
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.sandbox import seccomp
from runtime.sandbox.errors import SandboxMisuseError, SandboxUnavailableError, SnapshotRefusedError
from runtime.sandbox.fake import FakeSandbox, suspended_at
from runtime.sandbox.inside.plain import MAX_DEPTH, NotPlainError, plain
from runtime.sandbox.output import Output
from runtime.sandbox.port import Approved, Binding, Fingerprint, Finished, Host, Limits, Program, Sandbox, Usage
from runtime.sandbox.wire import Called, NonsenseError, read
from tests.support import examples

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


# --- plain -----------------------------------------------------------------------------------------------------------


@given(value=JSON)
@examples(80)
def test_json_is_plain_and_stays_as_it_is(value: Any) -> None:
    assert json.dumps(plain(value, 10**9)) == json.dumps(value)


@given(value=JSON)
@examples(80)
def test_what_passes_a_weight_is_not_much_longer_as_text(value: Any) -> None:
    try:
        plain(value, 500)
    except NotPlainError:
        return
    assert len(json.dumps(value, separators=(",", ":"), ensure_ascii=False)) <= 4 * 500


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({1, 2}, "of type set"),
        (b"x", "of type bytes"),
        (object(), "of type object"),
        ({1: 2}, "key of type int"),
        (float("nan"), "the float nan"),
        ([float("-inf")], "the float -inf"),
        ("\ud800", "surrogate"),
        ({"\udfff": 1}, "surrogate"),
        (nested(MAX_DEPTH + 1), "nested deeper"),
        (nested(50_000), "nested deeper"),
        ([1 << 20_000], "an int of 20001 bits"),
        ("x" * 2000, "larger than 1000"),
        (["x" * 100] * 100, "larger than 1000"),
        ([[]] * 10**6, "larger than 1000"),
    ],
)
def test_what_is_not_plain_is_told(value: Any, why: str) -> None:
    with pytest.raises(NotPlainError, match=why):
        plain(value, 1000)


def test_subclasses_are_not_plain_since_they_may_lie() -> None:
    class Text(str):
        __slots__ = ()

    with pytest.raises(NotPlainError, match="of type Text"):
        plain([Text("x")], 1000)


def test_tuples_become_lists() -> None:
    assert plain((1, (2,)), 100) == [1, [2]]


# --- the line --------------------------------------------------------------------------------------------------------


def test_a_call_is_read() -> None:
    assert read(b'{"say":"called","name":"f","args":[1],"kwargs":{"a":null}}\n') == Called(
        say="called", name="f", args=[1], kwargs={"a": None}
    )


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"null",
        b"[]",
        b"{}",
        b'{"say":"done"}',
        b'{"say":"gone","result":1}',
        b'{"say":"done","result":1,"more":2}',
        b'{"say":"called","name":1,"args":[],"kwargs":{}}',
        b'{"say":"called","name":"f","args":{},"kwargs":{}}',
        b'{"say":"broke","how":"finished","message":""}',
        b'{"say":"printed","text":["x"]}',
        b"[" * 100_000,
        b'{"say":"done","result":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'\xff\xfe{"say":"ready"}',
    ],
)
def test_nonsense_is_told(line: bytes) -> None:
    with pytest.raises(NonsenseError):
        read(line)


@given(line=st.binary() | st.recursive(st.none() | st.text(), st.lists).map(lambda value: json.dumps(value).encode()))
@examples(80)
def test_no_bytes_break_the_reader(line: bytes) -> None:
    with pytest.raises(NonsenseError):
        read(line)


# --- the output ------------------------------------------------------------------------------------------------------


@given(texts=st.lists(st.text()), most=st.integers(1, 50))
@examples(80)
def test_the_output_keeps_the_beginning(texts: list[str], most: int) -> None:
    output = Output(most)
    for text in texts:
        output.add(text)
    whole = "".join(texts)
    assert whole.startswith(output.text)
    assert output.overflow.is_set() == (len(whole.encode()) > most)
    assert output.overflow.is_set() or output.text == whole


async def test_the_output_of_a_pipe_is_kept_to_its_end() -> None:
    reader, output = asyncio.StreamReader(), Output(100)
    for byte in "é!".encode():
        reader.feed_data(bytes([byte]))
    reader.feed_data(b"\xff")
    reader.feed_eof()
    await output.drain(reader)
    assert output.text == "é!�"


# --- settings of a run -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["seconds", "memory_bytes", "recursion_depth", "output_bytes", "host_calls"])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_a_limit_is_above_zero(field: str, value: float) -> None:
    with pytest.raises(SandboxMisuseError, match=field):
        Limits(**{field: value})  # type: ignore[arg-type]


def test_only_functions_that_exist_need_approval() -> None:
    with pytest.raises(SandboxMisuseError, match="send"):
        Host(Binding("s"), {}, frozenset({"send"}))


def test_programs_that_differ_have_other_fingerprints() -> None:
    programs = [Program("1"), Program("1 "), Program("1", {"x": 1}), Program("1", {"x": 1.0}), Program("1", {}, ("f",))]
    assert len({program.fingerprint for program in programs}) == len(programs)
    assert Program("1", {"a": 1, "b": 2}).fingerprint == Program("1", {"b": 2, "a": 1}).fingerprint


# --- the filter of system calls --------------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_jump_of_the_filter_lands_on_its_verdict(machine: str) -> None:
    rules = list(struct.iter_unpack("=HBBI", seccomp.denying(machine)))
    refusal = len(rules) - 1
    for place, (code, if_true, _, value) in enumerate(rules[6 : refusal - 1], start=6):
        assert code == 0x15
        assert place + 1 + if_true == refusal, f"call {value}"
    assert (rules[refusal - 1][3], rules[refusal][3]) == (0x7FFF0000, 0x00050001)


def test_an_unknown_machine_has_no_full_mode() -> None:
    with pytest.raises(SandboxUnavailableError, match="use light mode"):
        seccomp.denying("vax")


# --- the fake --------------------------------------------------------------------------------------------------------


async def test_the_fake_answers_what_it_was_told() -> None:
    suspended = suspended_at("send", "ann")
    finished = Finished(1, "", Usage())
    fake = FakeSandbox(suspended, finished)
    sandbox: Sandbox = fake
    assert await sandbox.run(Program("send('ann')")) is suspended
    with pytest.raises(SnapshotRefusedError, match="another call"):
        await sandbox.resume(suspended, Approved(Fingerprint("other")))
    assert await sandbox.resume(suspended, Approved(suspended.fingerprint)) is finished
    assert [program.code for program in fake.programs] == ["send('ann')"]
    assert fake.answers == [Approved(suspended.fingerprint)]
    with pytest.raises(SandboxMisuseError, match="one more"):
        await sandbox.run(Program("2"))
