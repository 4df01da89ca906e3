"""Bodies are unpacked exactly and within their limit, in whatever pieces they come; text is decoded as was said."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.tools.fetch.errors import FetchFailedError, FetchReason
from runtime.tools.fetch.reading import Unpacker, read_text
from tests.support import examples


def bare(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@examples(300)
@given(
    body=st.binary(max_size=300).map(lambda data: data * 20),
    packing=st.sampled_from([("gzip", gzip.compress), ("deflate", zlib.compress), ("deflate", bare)]),
    room=st.integers(1, 7_000),
    step=st.integers(1, 50),
)
def test_unpacking(body: bytes, packing: tuple[str, object], room: int, step: int) -> None:
    name, pack = packing
    packed = pack(body)  # type: ignore[operator]
    unpacker = Unpacker(name, room)
    out = b"".join(unpacker.feed(packed[at : at + step]) for at in range(0, len(packed), step))
    assert out == body[:room]
    if len(body) < room:
        assert not unpacker.unfinished


def test_gzip_files_in_a_row_are_one() -> None:
    unpacker = Unpacker("gzip", 100)
    assert unpacker.feed(gzip.compress(b"a") + gzip.compress(b"b")) == b"ab"
    with pytest.raises(FetchFailedError) as caught:
        Unpacker("gzip", 100).feed(gzip.compress(b"") * 101)
    assert caught.value.reason is FetchReason.PROTOCOL


@examples(300)
@given(data=st.binary(max_size=200), packing=st.sampled_from(["gzip", "deflate"]))
def test_any_bytes_are_unpacked_or_refused(data: bytes, packing: str) -> None:
    try:
        assert len(Unpacker(packing, 50).feed(data)) <= 50
    except FetchFailedError as error:
        caught = error.reason
        if caught is not FetchReason.PROTOCOL:
            raise


@pytest.mark.parametrize(
    ("body", "charset", "text"),
    [
        (b"\xe9", "latin-1", "é"),
        (b"\xe9", "'windows-1251'", "й"),
        ("日本".encode("shift_jis"), "Shift_JIS", "日本"),
        (b"\xef\xbb\xbfa", "latin-1", "a"),
        (b"\xff\xfea\0", None, "a"),
        (b"\xc3\xa9", None, "é"),
        (b"\xff", None, "\ufffd"),
        (b"+AGE-", "utf-7", "+AGE-"),
        (b"YQ==", "base64", "YQ=="),
        (b"a", "no-such-thing", "a"),
        (b"a\0", "utf-16", "a"),
        (b"a", "\0", "a"),
        (b"a", "x" * 5_000, "a"),
    ],
)
def test_text(body: bytes, charset: str | None, text: str) -> None:
    assert read_text(body, charset, truncated=False) == text


@examples(300)
@given(
    body=st.binary(max_size=100),
    charset=st.one_of(st.none(), st.text(max_size=12), st.sampled_from(["utf-16", "gb18030", "iso2022_jp"])),
)
def test_any_bytes_become_text(body: bytes, charset: str | None) -> None:
    for truncated in (False, True):
        assert isinstance(read_text(body, charset, truncated), str)
