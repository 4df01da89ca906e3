"""What keys, tokens and passwords look like when nobody told us their value.

Each expression is linear on any text: what is unbounded stands last, or can only begin where a word begins.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from runtime.guard.spans import MARK_CHARS, Found

MIN_RANDOM_CHARS = 12
MIN_RANDOM_BITS = 3.0  # a character; words of a language stay below at these lengths, random hexadecimals lie at 3.5

_EDGE = r"(?<![A-Za-z0-9])"
_TOKENS = {
    "aws key": rf"{_EDGE}(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{{16}}(?![A-Za-z0-9])",
    "github token": rf"{_EDGE}(?:gh[pousr]_[A-Za-z0-9]{{36,}}|github_pat_[A-Za-z0-9_]{{22,}})",
    "gitlab token": rf"{_EDGE}glpat-[A-Za-z0-9_-]{{20,}}",
    "slack token": rf"{_EDGE}xox[abeoprs]-[A-Za-z0-9-]{{10,}}",
    "slack webhook": r"hooks\.slack\.com/services/[A-Za-z0-9/]{20,}",
    "stripe key": rf"{_EDGE}[rs]k_(?:live|test)_[A-Za-z0-9]{{16,}}",
    "api key": rf"{_EDGE}sk-[A-Za-z0-9_-]{{20,}}",
    "google key": rf"{_EDGE}AIza[A-Za-z0-9_-]{{35,}}",
    "npm token": rf"{_EDGE}npm_[A-Za-z0-9]{{36,}}",
    "pypi token": rf"{_EDGE}pypi-[A-Za-z0-9_-]{{50,}}",
    "hugging face token": rf"{_EDGE}hf_[A-Za-z0-9]{{30,}}",
    "sendgrid key": r"(?<![A-Za-z0-9_.-])SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,}",
    "telegram token": rf"{_EDGE}[0-9]{{8,10}}:AA[A-Za-z0-9_-]{{32,}}",
    "digitalocean token": rf"{_EDGE}do[opr]_v1_[a-f0-9]{{64}}",
    "azure key": r"AccountKey=[A-Za-z0-9+/=]{40,}",
    "jwt": r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]*",
}
_KEY_WORD = (
    r"(?:api|access|secret|private|signing|encryption|auth)[_ -]?key|apikey|(?:client|app|shared)[_ -]?secret|secret"
    r"|(?:auth|access|refresh|bearer|session)[_ -]?token|token|password|passwd|passphrase|pwd|credentials?|bearer"
    r"|authorization"
)
_FILL = r"[\s\"'`:=>,(\[{*]{1,8}"
_VALUE = r"[A-Za-z0-9+/=_.~!@#$%^&*-]"
_AFTER_KEY_WORD = re.compile(
    rf"(?:{_KEY_WORD}){_FILL}(?:(?:is|was|basic|bearer|token){_FILL})?({_VALUE}{{12,}})", re.IGNORECASE
)
_PASSWORD = re.compile(
    rf"(?:password|passwd|passphrase|pwd)[\"']?[ \t]{{0,2}}[:=][ \t]{{0,2}}[\"']?([^\s\"',;<>{MARK_CHARS}]{{6,200}})",
    re.IGNORECASE,
)
_IN_URL = re.compile(
    rf"[a-z][a-z0-9+.-]{{1,20}}://[^\s/?#:@{MARK_CHARS}]{{0,100}}:([^\s/?#{MARK_CHARS}]{{1,200}})@", re.IGNORECASE
)
_KEY_BEGINS = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")
_KEY_ENDS = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")
_KEY_BODY = re.compile(r"[A-Za-z0-9+/=\s\\]*")


@dataclass(frozen=True, slots=True)
class Form:
    """An expression, the group of it that is the secret, and what else must be true of that group."""

    label: str
    expression: re.Pattern[str]
    group: int = 0
    holds: Callable[[str], bool] = bool

    def find(self, text: str) -> Iterator[Found]:
        """Where the form stands in `text`."""
        for match in self.expression.finditer(text):
            if self.holds(match[self.group]):
                yield Found(match.start(self.group), match.end(self.group), self.label)


def find_forms(text: str) -> Iterator[Found]:
    """Everything in `text` that has the form of a secret."""
    yield from private_keys(text)
    for form in FORMS:
        yield from form.find(text)


def private_keys(text: str) -> Iterator[Found]:
    """Private keys in PEM form; one whose end is missing goes on as far as its letters do."""
    at, ends = 0, True
    while begin := _KEY_BEGINS.search(text, at):
        end = _KEY_ENDS.search(text, begin.end()) if ends else None
        ends = end is not None
        body = _KEY_BODY.match(text, begin.end())
        at = end.end() if end else body.end() if body else begin.end()
        yield Found(begin.start(), at, "private key")


def looks_random(value: str) -> bool:
    """Whether a text has letters and digits and about as much disorder as a key: 3 bits a character or more."""
    if len(value) < MIN_RANDOM_CHARS or not _mixed(value):
        return False
    counts = Counter(value)
    bits = -sum(count / len(value) * math.log2(count / len(value)) for count in counts.values())
    return bits >= MIN_RANDOM_BITS


def _mixed(value: str) -> bool:
    return any(char.isalpha() for char in value) and any(char.isdigit() for char in value)


FORMS: tuple[Form, ...] = (
    *(Form(label, re.compile(expression)) for label, expression in _TOKENS.items()),
    Form("password in an address", _IN_URL, 1),
    Form("password", _PASSWORD, 1, _mixed),
    Form("value of a key word", _AFTER_KEY_WORD, 1, looks_random),
)
