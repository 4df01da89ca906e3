"""Between a file's bytes and the text that is read, given and replaced. Nothing is translated, not even newlines."""

from __future__ import annotations

import base64

from runtime.tools.workspace.errors import EditError, NotTextError, WorkspaceError
from runtime.tools.workspace.paths import Confined
from runtime.tools.workspace.port import BytesPart, TextPart


def decoded(path: Confined, data: bytes) -> str:
    """The text of a file. Raises `NotTextError`, which says where it is none."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise NotTextError(
            f"{path} is not UTF-8 text: byte {error.start} is 0x{data[error.start]:02x}; read it as base64"
        ) from None


def encoded(path: Confined, content: str | bytes) -> bytes:
    """The bytes to store. Raises `NotTextError` for characters that are no text (lone surrogates)."""
    if isinstance(content, bytes):
        return content
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise NotTextError(
            f"{path}: character {error.start} of the content is U+{ord(content[error.start]):04X}, half of a "
            "pair: write the whole character, or give the content as bytes"
        ) from None


def text_part(path: Confined, data: bytes, offset: int, limit: int) -> TextPart:
    """The characters from `offset` on, at most `limit`."""
    text = decoded(path, data)
    end = _end(path, len(text), offset, limit)
    return TextPart(text[offset:end], offset, len(text), end if end < len(text) else None)


def bytes_part(path: Confined, data: bytes, offset: int, limit: int) -> BytesPart:
    """The bytes from `offset` on, at most `limit`, as base64."""
    end = _end(path, len(data), offset, limit)
    part = base64.b64encode(data[offset:end]).decode("ascii")
    return BytesPart(part, offset, len(data), end if end < len(data) else None)


def replaced(path: Confined, text: str, find: str, replace: str, expected: int | None) -> tuple[str, int]:
    """`text` with every `find` replaced, and how often. Raises `EditError` for none or an unexpected number."""
    if not find:
        raise EditError(f"{path}: the text to find is empty: say what to replace, or append")
    count = text.count(find)
    if not count:
        raise EditError(f"{path}: the text to find is not in the file: read it and copy the text letter for letter")
    if expected is not None and count != expected:
        raise EditError(f"{path}: the text to find is there {count} times, not {expected}: give more text around it")
    return text.replace(find, replace), count


def _end(path: Confined, total: int, offset: int, limit: int) -> int:
    if offset < 0 or limit < 1:
        raise WorkspaceError(f"{path}: offset {offset} and limit {limit}: give an offset from 0 and a limit from 1")
    return min(total, offset + limit)
