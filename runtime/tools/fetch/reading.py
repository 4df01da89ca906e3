"""The body of an answer: read up to a limit, unpacked up to the same limit, and decoded as text.

A small packed body can unpack to any size, so the limit is given to the unpacker itself: it never makes more than that.
"""

from __future__ import annotations

import codecs
import zlib
from collections.abc import AsyncIterator, Sequence

from runtime.tools.fetch.errors import FetchFailedError, FetchReason, FetchRefusedError

#: What is offered to servers; both can be unpacked piece by piece with a limit.
OFFERED = "gzip, deflate"
_PACKED = {"gzip": "gzip", "x-gzip": "gzip", "deflate": "deflate"}
_GZIP_BITS, _ZLIB_BITS, _RAW_BITS = 31, 15, -15
#: Members of a gzip file that follow each other; more serve nobody but who wants to keep us busy.
MOST_MEMBERS = 100

_CHARSETS = frozenset(
    "utf-8 utf-16-le utf-16-be ascii iso8859-1 iso8859-2 iso8859-3 iso8859-4 iso8859-5 iso8859-6 iso8859-7 "
    "iso8859-8 iso8859-9 iso8859-10 iso8859-13 iso8859-14 iso8859-15 iso8859-16 cp1250 cp1251 cp1252 cp1253 cp1254 "
    "cp1255 cp1256 cp1257 cp1258 cp874 cp866 koi8-r koi8-u mac-roman big5 big5hkscs gb2312 gbk gb18030 euc_jp "
    "shift_jis iso2022_jp euc_kr cp949".split()
)
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


class Unpacker:
    """Unpacks gzip or deflate piece by piece into at most `room` bytes."""

    def __init__(self, packing: str, room: int) -> None:
        self._packing = packing
        self._room = room
        self._members = 0
        self._inner: zlib._Decompress | None = None
        self._kept = b""

    @property
    def full(self) -> bool:
        return self._room == 0

    @property
    def unfinished(self) -> bool:
        """Whether the packed data broke off."""
        return bool(self._kept) or (self._inner is not None and not self._inner.eof)

    def feed(self, data: bytes) -> bytes:
        """Unpack more. Raises `FetchFailedError` for what is not packed as was said."""
        out = b""
        data, self._kept = self._kept + data, b""
        while data and self._room:
            if self._inner is None or self._inner.eof:
                if len(data) < 2:
                    self._kept = data
                    break
                self._inner = self._next(data)
            part = self._unpacked(self._inner, data)
            self._room -= len(part)
            out += part
            data = self._inner.unused_data if self._inner.eof else self._inner.unconsumed_tail
        return out

    def _unpacked(self, inner: zlib._Decompress, data: bytes) -> bytes:
        try:
            return inner.decompress(data, self._room)
        except zlib.error:
            raise FetchFailedError(FetchReason.PROTOCOL, f"the body is not {self._packing} as was said") from None

    def _next(self, data: bytes) -> zlib._Decompress:
        self._members += 1
        if self._members > MOST_MEMBERS:
            raise FetchFailedError(FetchReason.PROTOCOL, f"the body has more than {MOST_MEMBERS} gzip members")
        if self._packing == "gzip":
            return zlib.decompressobj(_GZIP_BITS)
        # "deflate" is meant to be zlib's format (RFC 9110 8.4.1.2); some servers send it bare.
        has_head = data[0] & 0x0F == 8 and (data[0] * 256 + data[1]) % 31 == 0
        return zlib.decompressobj(_ZLIB_BITS if has_head else _RAW_BITS)


def packing_of(encodings: Sequence[str]) -> str | None:
    """How a body is packed, from its Content-Encoding headers; None for not at all. Raises `FetchRefusedError`."""
    named = [one.strip().lower() for header in encodings for one in header.split(",")]
    packings = [one for one in named if one not in ("", "identity")]
    if not packings:
        return None
    if len(packings) > 1 or packings[0] not in _PACKED:
        raise FetchRefusedError(FetchReason.ENCODING, f"the body is packed in another way than {OFFERED}, once")
    return _PACKED[packings[0]]


async def read_body(chunks: AsyncIterator[bytes], packing: str | None, most: int) -> tuple[bytes, bool]:
    """At most `most` bytes of a body, unpacked, and whether there was more.

    Packed bytes count too: a body that unpacks to nothing does not go on for ever.
    """
    unpacker = None if packing is None else Unpacker(packing, most + 1)
    body, received = bytearray(), 0
    async for chunk in chunks:
        received += len(chunk)
        body += chunk[: most + 1 - len(body)] if unpacker is None else unpacker.feed(chunk)
        if len(body) > most or received > most + most // 10 + 1_024:
            return bytes(body[:most]), True
    if unpacker is not None and unpacker.unfinished:
        raise FetchFailedError(FetchReason.PROTOCOL, "the packed body broke off")
    return bytes(body), False


def read_text(body: bytes, charset: str | None, truncated: bool) -> str:
    """The text of a body: by its byte order mark, by the `charset` that was said, else as UTF-8.

    Bytes that do not fit become U+FFFD. A cut in the middle of a character leaves the character out.
    """
    for mark, name in _MARKS:
        if body.startswith(mark):
            return _decode(body[len(mark) :], name, truncated)
    return _decode(body, _known(charset) or "utf-8", truncated)


def _known(charset: str | None) -> str | None:
    """A character set's name in Python, for sets of plain text that browsers know too; others are not used."""
    try:
        name = codecs.lookup(charset.strip("\"' ")).name if charset else None
    except (LookupError, ValueError):
        return None
    # Without a mark it is little-endian, as browsers take it (WHATWG, Encoding 4.2).
    name = "utf-16-le" if name == "utf-16" else name
    return name if name in _CHARSETS else None


def _decode(body: bytes, charset: str, truncated: bool) -> str:
    return codecs.getincrementaldecoder(charset)("replace").decode(body, final=not truncated)
