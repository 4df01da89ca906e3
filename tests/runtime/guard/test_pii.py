"""Personal data is told by its form and check digits; one wrong digit and it is none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.guard import ids, pii
from runtime.guard.pii import BuiltIn, PiiAction, PiiGate, PiiKind
from runtime.guard.port import (
    AgentType,
    Allow,
    Block,
    Channel,
    Concern,
    Passage,
    Redact,
    Severity,
    replaced,
    well_formed,
)
from runtime.guard.spans import spans
from tests.support import examples

NUMBERS: dict[str, tuple[str, Any]] = {
    "card": ("4111111111111111", ids.card),
    "iban": ("DE89370400440532013000", ids.iban),
    "dni": ("12345678Z", ids.dni_es),
    "cpf": ("529.982.247-25", ids.cpf_br),
    "pesel": ("44051401359", ids.pesel_pl),
    "nir": ("185057800608491", ids.nir_fr),
    "codice": ("RSSMRA85T10A562S", ids.codice_fiscale_it),
    "steuer": ("86095742719", ids.steuer_id_de),
    "nhs": ("943 476 5919", ids.nhs_gb),
}


def found(text: str, *kinds: PiiKind) -> list[tuple[str, str]]:
    finder = BuiltIn(frozenset(kinds or PiiKind))
    return [(one.label, text[one.start : one.end]) for one in asyncio.run(finder.find(text))]


@pytest.mark.parametrize("name", NUMBERS)
def test_a_check_digit_catches_every_single_wrong_digit(name: str) -> None:
    number, check = NUMBERS[name]
    assert check(number)
    for at, char in enumerate(number):
        if char.isdigit():
            wrong = [f"{number[:at]}{other}{number[at + 1 :]}" for other in "0123456789" if other != char]
            passing = [each for each in wrong if check(each)]
            # The month and the first digit of some numbers have rules of their own, all others only the check.
            assert not passing, passing


def test_corsica_counts_in_a_french_number() -> None:
    base = 97 - int("1850519006084") % 97
    assert ids.nir_fr(f"185052A006084{base:02d}")


@pytest.mark.parametrize("number", ["000-12-3456", "666-12-3456", "900-12-3456", "123-00-4567", "123-45-0000"])
def test_american_numbers_that_are_never_given_out(number: str) -> None:
    assert found(number, PiiKind.NATIONAL_ID) == []


def test_an_account_ends_where_its_country_says() -> None:
    assert found("to DE89 3704 0044 0532 0130 00 ABC", PiiKind.IBAN) == [("iban", "DE89 3704 0044 0532 0130 00")]
    assert found("ZZ89370400440532013000", PiiKind.IBAN) == []


def test_only_the_kinds_that_were_asked_for() -> None:
    text = "jane@example.com 8.8.8.8"
    assert found(text, PiiKind.IP) == [("ip", "8.8.8.8")]
    assert found(text, PiiKind.EMAIL) == [("email", "jane@example.com")]


@pytest.mark.parametrize("text", ["127.0.0.1", "::", "10:20:30", "1.2.3", "999.1.1.1", "std::vector", "1.2.3.4.5"])
def test_what_is_nobodys_address(text: str) -> None:
    assert found(text, PiiKind.IP) == []


_TEMPTING = st.lists(
    st.one_of(
        st.text(max_size=6),
        st.text(alphabet="0123456789+-. ()", max_size=20),
        st.sampled_from(
            ["a@b.example", "4111 1111 1111 1111", "DE89370400440532013000", "8.8.8.8", "::1", "⟦", "AA11"]
        ),
    ),
    max_size=10,
).map("".join)


@given(text=_TEMPTING)
@examples(300)
def test_any_text_is_searched_and_settled(text: str) -> None:
    cut = spans(asyncio.run(BuiltIn().find(text)))
    assert well_formed(text, cut)
    left = replaced(text, cut)
    assert asyncio.run(BuiltIn().find(left)) == []


@pytest.mark.parametrize("piece", ["1 ", "a.", "AA11 ", "x@", "+1", "1", "1.1.", "a:", "("])
def test_long_hostile_text_takes_linear_time(piece: str) -> None:
    asyncio.run(BuiltIn().find(piece * (60_000 // len(piece))))


async def test_the_gate_does_what_it_was_told_and_never_quotes() -> None:
    passage = Passage("mail jane@example.com", Channel.OUTPUT, AgentType("a"), "s")
    redact = await PiiGate(BuiltIn()).judge(passage)
    assert isinstance(redact, Redact)
    assert replaced(passage.text, redact.spans) == "mail ⟦redacted email⟧"
    concern = await PiiGate(BuiltIn(), PiiAction.CONCERN, Severity.HIGH).judge(passage)
    block = await PiiGate(BuiltIn(), PiiAction.BLOCK).judge(passage)
    assert concern == Concern("personal data: email", pii.RULE, Severity.HIGH)
    assert block == Block("personal data: email", pii.RULE)
    assert await PiiGate(BuiltIn()).judge(Passage("hi", Channel.OUTPUT, AgentType("a"), "s")) == Allow()
