"""Configured secrets, found exactly, however they are written: plain, base64, hexadecimal, in an address, in JSON."""

from __future__ import annotations

import base64
import html
import json
import re
import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from runtime.guard.errors import SecretError
from runtime.guard.spans import MARKS, Found

MIN_SECRET_CHARS = 8

_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)  # keeps every position, as str.lower does not
_PERCENT = re.compile(r"(?:%[0-9A-Fa-f]{2})+")


class Known:
    """Secrets by name. The names may be shown, the values stay inside."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        """Raises `SecretError` for a secret under 8 characters, which ordinary text would hold by chance."""
        self._forms = tuple(_Forms.of(name, value) for name, value in secrets.items())
        self.marks = _free_marks(secrets)

    def __repr__(self) -> str:
        return f"Known({', '.join(forms.name for forms in self._forms)})"

    def find(self, text: str) -> Iterator[Found]:
        """Every place in `text` where a secret stands in any of its forms."""
        lowered = text.translate(_LOWER)
        plain = _decoded(text) if "%" in text else None
        for forms in self._forms:
            for form in forms.exact:
                yield from _everywhere(text, form, forms.name)
            yield from _everywhere(lowered, forms.hexadecimal, forms.name)
            if plain:
                yield from plain.find(forms)


@dataclass(frozen=True, slots=True, repr=False)
class _Forms:
    """How one secret may be written."""

    name: str
    plain: tuple[str, ...]
    exact: tuple[str, ...]
    hexadecimal: str

    @classmethod
    def of(cls, name: str, value: str) -> _Forms:
        bare = value.strip()
        if len(bare) < MIN_SECRET_CHARS:
            raise SecretError(
                f"the secret {name} has {len(bare)} characters without blanks: it cannot be told from ordinary text; "
                f"make it {MIN_SECRET_CHARS} or longer, or leave it out of the list"
            )
        raw = bare.encode("utf-8", "surrogatepass")
        plain = {bare, bare.replace(" ", "+")}
        written = {json.dumps(bare)[1:-1], json.dumps(bare, ensure_ascii=False)[1:-1], html.escape(bare)}
        exact = plain | written | {part for offset in range(3) for part in _base64_inside(raw, offset)}
        return cls(name, tuple(sorted(plain)), tuple(sorted(exact)), raw.hex())


def _base64_inside(raw: bytes, offset: int) -> tuple[str, str]:
    """The characters that base64 has for `raw` wherever it begins `offset` bytes after a multiple of three: those that
    depend on `raw` alone, in both alphabets."""
    encoded = base64.b64encode(b"\0" * offset + raw).decode()
    own = encoded[-(-offset * 8 // 6) : (offset + len(raw)) * 8 // 6]
    return own, own.replace("+", "-").replace("/", "_")


@dataclass(frozen=True, slots=True)
class _Decoded:
    """A text with its percent escapes taken away; `starts[i]` is where its character i begins in the original."""

    text: str
    starts: list[int]

    def find(self, forms: _Forms) -> Iterator[Found]:
        for view in (self.text, self.text.replace("+", " ")):  # forms write a blank as "+"
            for form in forms.plain:
                for found in _everywhere(view, form, forms.name):
                    yield Found(self.starts[found.start], self.starts[found.end], forms.name)


def _decoded(text: str) -> _Decoded:
    chars: list[str] = []
    starts: list[int] = []
    at = 0
    for run in _PERCENT.finditer(text):
        chars += text[at : run.start()]
        starts += range(at, run.start())
        place = run.start()
        for char in bytes.fromhex(run[0].replace("%", "")).decode("utf-8", "surrogateescape"):
            chars.append(char)
            starts.append(place)
            place += 3 * len(char.encode("utf-8", "surrogateescape"))
        at = run.end()
    chars += text[at:]
    starts += range(at, len(text) + 1)
    return _Decoded("".join(chars), starts)


def _everywhere(text: str, wanted: str, label: str) -> Iterator[Found]:
    """All places, those that overlap too: what is left after a cut must not hold the secret either."""
    at = text.find(wanted)
    while at >= 0:
        yield Found(at, at + len(wanted), label)
        at = text.find(wanted, at + 1)


def _free_marks(secrets: Mapping[str, str]) -> str:
    """Marks that stand in no secret, so that nothing can be put together across them."""
    for marks in MARKS:
        if not any(mark in value for mark in marks for value in secrets.values()):
            return marks
    raise SecretError(f"secrets hold every mark of {' '.join(MARKS)}: change one of them")
