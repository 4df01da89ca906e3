"""Check digits: whether a number that looks like a card, an account or a person's number can be one."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence

IBAN_LENGTHS = dict(
    entry.split(":")
    for entry in (
        "AD:24 AE:23 AL:28 AT:20 BA:20 BE:16 BG:22 BR:29 CH:21 CY:28 CZ:24 DE:22 DK:18 EE:20 ES:24 FI:18 FR:27 GB:22 "
        "GE:22 GR:27 HR:21 HU:28 IE:22 IL:23 IS:26 IT:27 LI:21 LT:20 LU:20 LV:21 MC:27 MD:24 ME:22 MK:19 MT:31 NL:18 "
        "NO:15 PL:28 PT:25 QA:29 RO:24 RS:22 SA:24 SE:24 SI:19 SK:24 SM:27 TR:26 UA:29 XK:20"
    ).split()
)
_DNI_LETTERS = "TRWAGMYFPDXBNJZSQVHLCKE"
_CF_ODD = dict(
    zip(
        string.digits + string.ascii_uppercase,
        (
            *(1, 0, 5, 7, 9, 13, 15, 17, 19, 21),
            *(1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23),
        ),
        strict=True,
    )
)
_CF_EVEN = {char: at if at < 10 else at - 10 for at, char in enumerate(string.digits + string.ascii_uppercase)}


def digits(text: str) -> list[int]:
    """The ASCII digits of a text, as numbers."""
    return [int(char) for char in text if char in string.digits]


def luhn(text: str) -> bool:
    """The check of payment cards (ISO/IEC 7812-1): every second digit from the right doubled, the sum divides by 10."""
    numbers = digits(text)
    total = sum(number if at % 2 == 0 else sum(divmod(2 * number, 10)) for at, number in enumerate(reversed(numbers)))
    return total % 10 == 0


def card(text: str) -> bool:
    """13 to 19 digits, first one 2 to 6, not all the same, Luhn."""
    numbers = digits(text)
    return 13 <= len(numbers) <= 19 and 2 <= numbers[0] <= 6 and len(set(numbers)) > 1 and luhn(text)


def iban(text: str) -> bool:
    """A bank account (ISO 13616): the country's length, and 1 modulo 97 with the first four characters put last."""
    plain = text.replace(" ", "")
    if str(len(plain)) != IBAN_LENGTHS.get(plain[:2]):
        return False
    return int("".join(str(int(char, 36)) for char in plain[4:] + plain[:4])) % 97 == 1


def dni_es(text: str) -> bool:
    """Spain, DNI and NIE: the number modulo 23 gives the letter; X, Y, Z stand for 0, 1, 2."""
    plain = text.upper().replace("-", "")
    number = {"X": "0", "Y": "1", "Z": "2"}.get(plain[0], plain[0]) + plain[1:-1]
    return _DNI_LETTERS[int(number) % 23] == plain[-1]


def cpf_br(text: str) -> bool:
    """Brazil, CPF: two check digits modulo 11; a number of one digit only is none."""
    numbers = digits(text)
    return len(set(numbers)) > 1 and all(
        _weighted(numbers[:size], range(size + 1, 1, -1)) * 10 % 11 % 10 == numbers[size] for size in (9, 10)
    )


def pesel_pl(text: str) -> bool:
    """Poland, PESEL: weights 1 3 7 9, and a month that exists in one of its five centuries."""
    numbers = digits(text)
    month = (numbers[2] * 10 + numbers[3]) % 20
    return 1 <= month <= 12 and _weighted(numbers, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1)) % 10 == 0


def nir_fr(text: str) -> bool:
    """France, NIR: 97 minus the number modulo 97; Corsica's 2A and 2B count as 19 and 18."""
    plain = text.replace(" ", "").upper().replace("2A", "19").replace("2B", "18")
    return plain.isdigit() and len(plain) == 15 and 97 - int(plain[:13]) % 97 == int(plain[13:])


def codice_fiscale_it(text: str) -> bool:
    """Italy, codice fiscale: the sum of two tables modulo 26 gives the last letter."""
    plain = text.upper()
    total = sum((_CF_ODD if at % 2 == 0 else _CF_EVEN)[char] for at, char in enumerate(plain[:15]))
    return string.ascii_uppercase[total % 26] == plain[15]


def steuer_id_de(text: str) -> bool:
    """Germany, tax number: ISO 7064 mod 11, 10, and one digit of the first ten twice or three times."""
    numbers = digits(text)
    most = max(numbers[:10].count(number) for number in range(10))
    if numbers[0] == 0 or most not in {2, 3}:
        return False
    product = 10
    for number in numbers[:10]:
        product = 2 * ((number + product) % 10 or 10) % 11
    return (11 - product) % 10 == numbers[10]


def nhs_gb(text: str) -> bool:
    """Great Britain, NHS number: weights 10 to 2, modulo 11."""
    numbers = digits(text)
    return (11 - _weighted(numbers[:9], range(10, 1, -1)) % 11) % 11 == numbers[9] and len(set(numbers)) > 1


def ssn_us(text: str) -> bool:
    """United States: no check digit, only areas, groups and numbers that are never given out."""
    area, group, serial = text.split("-")
    return area not in {"000", "666"} and area < "900" and group != "00" and serial != "0000"


def _weighted(numbers: Sequence[int], weights: Sequence[int]) -> int:
    return sum(number * weight for number, weight in zip(numbers, weights, strict=True))


NATIONAL: dict[str, tuple[str, Callable[[str], bool]]] = {
    "spanish id": (r"[0-9XYZxyz][0-9]{7}-?[A-Za-z]", dni_es),
    "brazilian id": (r"[0-9]{3}\.[0-9]{3}\.[0-9]{3}-[0-9]{2}", cpf_br),
    "polish id": (r"[0-9]{11}", pesel_pl),
    "german tax id": (r"[0-9]{2} ?[0-9]{3} ?[0-9]{3} ?[0-9]{3}", steuer_id_de),
    "french id": (r"[12] ?[0-9]{2} ?[0-9]{2} ?(?:[0-9]{2}|2[ABab]) ?[0-9]{3} ?[0-9]{3} ?[0-9]{2}", nir_fr),
    "italian id": (r"[A-Za-z]{6}[0-9]{2}[A-Za-z][0-9]{2}[A-Za-z][0-9]{3}[A-Za-z]", codice_fiscale_it),
    "british id": (r"[0-9]{3} [0-9]{3} [0-9]{4}", nhs_gb),
    "american id": (r"[0-9]{3}-[0-9]{2}-[0-9]{4}", ssn_us),
}
