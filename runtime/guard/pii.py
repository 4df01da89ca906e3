"""The rule for personal data: what can be told from its form and its check digits. `presidio.py` finds more."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, assert_never

from runtime.guard import ids
from runtime.guard.port import Allow, Block, Concern, GateName, Passage, Redact, RuleId, Severity, Verdict
from runtime.guard.spans import Found, settled_aside, spans

RULE = RuleId("pii")
NAME = GateName("pii")


class PiiKind(StrEnum):
    """What the built-in rule knows."""

    EMAIL = "email"
    PHONE = "phone"
    IBAN = "iban"
    CARD = "card"
    IP = "ip"
    NATIONAL_ID = "national_id"


class PiiAction(StrEnum):
    """What to do with a text that holds personal data."""

    REDACT = "redact"
    CONCERN = "concern"
    BLOCK = "block"


class Finder(Protocol):
    """Finds personal data in a text."""

    async def find(self, text: str) -> list[Found]:
        """Everything found, settled (see spans.settled)."""
        ...


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """Finds by form and check digit. Names, addresses and dates of birth have no form: Presidio's models find some."""

    kinds: frozenset[PiiKind] = frozenset(PiiKind)

    async def find(self, text: str) -> list[Found]:
        """Everything of these kinds."""
        return await settled_aside(text, self.once)

    def once(self, text: str) -> Iterator[Found]:
        """What one look finds; not settled."""
        for kind in PiiKind:
            if kind in self.kinds:
                yield from _of_kind(kind, text)


@dataclass(frozen=True, slots=True)
class PiiGate:
    """Redacts personal data, or raises it as a concern, or blocks it."""

    finder: Finder
    action: PiiAction = PiiAction.REDACT
    severity: Severity = Severity.MEDIUM
    name: GateName = NAME
    fail_closed: bool = True

    async def judge(self, passage: Passage) -> Verdict:
        """The verdict; the reason names the kinds found and none of the data."""
        found = await self.finder.find(passage.text)
        if not found:
            return Allow()
        reason = f"personal data: {', '.join(sorted({one.label for one in found}))}"
        match self.action:
            case PiiAction.REDACT:
                return Redact(spans(found), RULE)
            case PiiAction.CONCERN:
                return Concern(reason, RULE, self.severity)
            case PiiAction.BLOCK:
                return Block(reason, RULE)
            case _:
                assert_never(self.action)


# --- built in --------------------------------------------------------------------------------------------------------

_EMAIL = re.compile(r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}")
_PHONE = re.compile(r"(?<![\w+.])(?:\+|00)[1-9][0-9() ./-]{6,22}[0-9](?![\w])")
_PHONE_US = re.compile(r"(?<![\w.-])(?:\([2-9][0-9]{2}\) ?|[2-9][0-9]{2}[-.])[0-9]{3}[-.][0-9]{4}(?![\w-])")
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]){11,30}")
_CARD = re.compile(r"(?<![0-9])[0-9](?:[ -]?[0-9]){12,18}(?![0-9])")
_IP_4 = re.compile(r"(?<![\w.])[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![\w]|\.[0-9])")
_IP_6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f:]{2,39}(?![\w:])")
_NATIONAL = tuple(
    (label, re.compile(rf"(?<![\w-]){form}(?![\w-])"), check) for label, (form, check) in ids.NATIONAL.items()
)


def _of_kind(kind: PiiKind, text: str) -> Iterator[Found]:
    match kind:
        case PiiKind.EMAIL:
            yield from _matches(text, _EMAIL, "email", bool)
        case PiiKind.PHONE:
            yield from _matches(text, _PHONE, "phone", _is_phone)
            yield from _matches(text, _PHONE_US, "phone", bool)
        case PiiKind.IBAN:
            yield from _ibans(text)
        case PiiKind.CARD:
            yield from _matches(text, _CARD, "card", ids.card)
        case PiiKind.IP:
            yield from _matches(text, _IP_4, "ip", _is_ip)
            yield from _matches(text, _IP_6, "ip", _is_ip)
        case PiiKind.NATIONAL_ID:
            for label, form, check in _NATIONAL:
                yield from _matches(text, form, label, check)
        case _:
            assert_never(kind)


def _matches(text: str, form: re.Pattern[str], label: str, holds: Callable[[str], bool]) -> Iterator[Found]:
    for match in form.finditer(text):
        if holds(match[0]):
            yield Found(match.start(), match.end(), label)


def _ibans(text: str) -> Iterator[Found]:
    """Accounts; the expression also takes what stands behind one, so the country's length says where it ends."""
    for match in _IBAN.finditer(text):
        length = int(ids.IBAN_LENGTHS.get(match[0][:2], "0"))
        ends = [at + 1 for at, char in enumerate(match[0]) if char != " "]
        if 0 < length <= len(ends) and ids.iban(match[0][: ends[length - 1]]):
            yield Found(match.start(), match.start() + ends[length - 1], "iban")


def _is_phone(text: str) -> bool:
    return 8 <= len(ids.digits(text.removeprefix("00"))) <= 15


def _is_ip(text: str) -> bool:
    """An address of somebody: not the machine's own, not "any", and in hexadecimal with a colon at least twice."""
    if "." not in text and text.count(":") < 2:
        return False
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified or address.is_multicast)
