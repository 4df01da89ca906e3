"""Reads a table version's manifest on its own, to say which files the version needs and whether they are whole.

LanceDB says that a table cannot be opened but seldom which file is to blame. A manifest ends with the place of its
message (8 bytes), the format's version (4 bytes) and `LANC`; the message is protobuf, of which only a few fields are
of interest here: `version`, and for each fragment its data files with their sizes, its deletion file and its rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_MAGIC = b"LANC"
_TAIL_BYTES = 16
_LENGTH_BYTES = 4
_NEWEST_NAME = 2**64 - 1  # a file is named by this minus its version, so that the newest is listed first
_NAME_DIGITS = 20
_DELETION_ENDINGS = ("arrow", "bin")

_FRAGMENTS, _VERSION = 2, 3
_FRAGMENT_ID, _FRAGMENT_FILES, _FRAGMENT_DELETIONS, _FRAGMENT_ROWS = 1, 2, 3, 4
_FILE_PATH, _FILE_BYTES = 1, 6
_DELETION_TYPE, _DELETION_VERSION, _DELETION_ID, _DELETION_ROWS = 1, 2, 3, 4


class BadManifestError(ValueError):
    """The file is not a whole manifest."""


@dataclass(frozen=True, slots=True)
class NeededFile:
    """A file that a version cannot do without; `size` is None where the manifest does not tell it."""

    path: str
    size: int | None


@dataclass(frozen=True, slots=True)
class Fragment:
    """Some rows of a table and the files that hold them."""

    number: int
    rows: int
    files: tuple[NeededFile, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """One version of a table."""

    version: int
    fragments: tuple[Fragment, ...]

    @property
    def rows(self) -> int:
        """How many rows the version has."""
        return sum(fragment.rows for fragment in self.fragments)

    @property
    def files(self) -> Iterator[NeededFile]:
        """Everything that the version needs."""
        for fragment in self.fragments:
            yield from fragment.files


def manifests(table: Path) -> dict[int, Path]:
    """The manifests of a table's folder by version, newest first. Other files there are passed over."""
    found = {}
    for path in (table / "_versions").glob("*.manifest"):
        if version := version_of(path):
            found[version] = path
    return dict(sorted(found.items(), reverse=True))


def version_of(path: Path) -> int | None:
    """The version that a manifest is named for; None for a name of another kind."""
    if len(path.stem) != _NAME_DIGITS or not path.stem.isascii() or not path.stem.isdecimal():
        return None
    version = _NEWEST_NAME - int(path.stem)
    return version if version > 0 else None


def read_manifest(path: Path) -> Manifest:
    """The version that a file describes. Raises `BadManifestError` for one that is cut, overwritten or misnamed."""
    data = path.read_bytes()
    message = _message(data)
    try:
        fields = list(_fields(message))
        fragments = tuple(_fragment(value) for number, value in fields if number == _FRAGMENTS and _is_bytes(value))
        manifest = Manifest(_number(fields, _VERSION), fragments)
    except (IndexError, UnicodeDecodeError) as error:
        raise BadManifestError(f"its content cannot be read ({error})") from error
    if manifest.version != _NEWEST_NAME - int(path.stem):
        raise BadManifestError(f"it says version {manifest.version}, its name {_NEWEST_NAME - int(path.stem)}")
    return manifest


def _message(data: bytes) -> bytes:
    if len(data) < _TAIL_BYTES + _LENGTH_BYTES:
        raise BadManifestError(f"it has only {len(data)} bytes")
    if not data.endswith(_MAGIC):
        raise BadManifestError("its end is missing")
    place = int.from_bytes(data[-_TAIL_BYTES:-8], "little")
    start = place + _LENGTH_BYTES
    end = start + int.from_bytes(data[place:start], "little")
    if end != len(data) - _TAIL_BYTES:
        raise BadManifestError("its parts do not fit together")
    return data[start:end]


Value = int | bytes


def _fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """The fields of a protobuf message: (number, value)."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        match tag & 7:
            case 0:
                value, at = _varint(data, at)
                yield tag >> 3, value
            case 2:
                length, at = _varint(data, at)
                if at + length > len(data):
                    raise BadManifestError("a field is longer than the file")
                yield tag >> 3, data[at : at + length]
                at += length
            case 1 | 5 as wire:
                at += 8 if wire == 1 else 4
            case wire:
                raise BadManifestError(f"it has a field of the unknown type {wire}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _is_bytes(value: Value) -> bool:
    if isinstance(value, bytes):
        return True
    raise BadManifestError("a fragment is not where it should be")


def _number(fields: list[tuple[int, Value]], wanted: int) -> int:
    """A numeric field; 0 when it is left out, as protobuf does with zeros."""
    return next((value for number, value in fields if number == wanted and isinstance(value, int)), 0)


def _fragment(value: Value) -> Fragment:
    fields = list(_fields(bytes(value)))
    number, rows = _number(fields, _FRAGMENT_ID), _number(fields, _FRAGMENT_ROWS)
    files = [_data_file(bytes(part)) for name, part in fields if name == _FRAGMENT_FILES and _is_bytes(part)]
    for name, part in fields:
        if name == _FRAGMENT_DELETIONS and isinstance(part, bytes):
            deletions = list(_fields(part))
            rows -= _number(deletions, _DELETION_ROWS)
            files.append(_deletion_file(number, deletions))
    return Fragment(number, rows, tuple(files))


def _data_file(data: bytes) -> NeededFile:
    fields = list(_fields(data))
    path = next((value for number, value in fields if number == _FILE_PATH and isinstance(value, bytes)), b"")
    return NeededFile(f"data/{path.decode()}", _number(fields, _FILE_BYTES) or None)


def _deletion_file(fragment: int, fields: list[tuple[int, Value]]) -> NeededFile:
    ending = _DELETION_ENDINGS[min(_number(fields, _DELETION_TYPE), 1)]
    name = f"{fragment}-{_number(fields, _DELETION_VERSION)}-{_number(fields, _DELETION_ID)}.{ending}"
    return NeededFile(f"_deletions/{name}", None)
