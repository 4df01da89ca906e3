"""What a call costs: exact decimal arithmetic, in which an unknown price is not a price of nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation

from runtime.llm.port import ChatReply, EmbeddingReply, Usage

MILLION = Decimal(1_000_000)
#: exact for any count of tokens that a provider may report and any price of models.toml
_EXACT = Context(prec=60)


@dataclass(frozen=True, slots=True)
class Prices:
    """Money per million tokens; None where nobody said. Cached input costs as much as other input unless said."""

    input: Decimal | None = None
    output: Decimal | None = None
    cached: Decimal | None = None


def cost_of(usage: Usage, prices: Prices) -> Decimal | None:
    """What `usage` costs; None when a price that it needs is not known."""
    cached = min(usage.cached_tokens, usage.input_tokens)
    parts = (
        (usage.input_tokens - cached, prices.input),
        (cached, prices.cached if prices.cached is not None else prices.input),
        (usage.output_tokens, prices.output),
    )
    total = Decimal(0)
    for tokens, price in parts:
        if tokens == 0:
            continue
        if price is None:
            return None
        total = _EXACT.add(total, _EXACT.divide(_EXACT.multiply(Decimal(tokens), price), MILLION))
    # an unknown price may be a price a call, so nothing used costs nothing only where something is known
    return None if prices == Prices() else total


@dataclass(frozen=True, slots=True)
class Spent:
    """What several calls cost together: the sum of the known prices, and how many calls it leaves out."""

    known: Decimal = Decimal(0)
    unpriced_calls: int = 0

    @property
    def total(self) -> Decimal | None:
        """The sum; None while it leaves a call out."""
        return None if self.unpriced_calls else self.known

    def plus(self, cost: Decimal | None, *, calls: int = 1) -> Spent:
        """With one answer more, for which `calls` calls were made."""
        if cost is None:
            return Spent(self.known, self.unpriced_calls + calls)
        return Spent(_EXACT.add(self.known, cost), self.unpriced_calls)

    def plus_all(self, other: Spent) -> Spent:
        """With all of `other`."""
        return Spent(_EXACT.add(self.known, other.known), self.unpriced_calls + other.unpriced_calls)


def spent_on(replies: Iterable[ChatReply | EmbeddingReply]) -> Spent:
    """What several answers cost together."""
    total = Spent()
    for reply in replies:
        total = total.plus(reply.cost)
    return total


def money_text(value: Decimal) -> str:
    """An amount as rows hold it: every digit that counts and no others, never with an exponent."""
    return f"{_EXACT.normalize(value):f}"


def money_of(text: str) -> Decimal:
    """The amount that a row holds. Raises `ValueError` when it is none."""
    try:
        value = Decimal(text)
    except (InvalidOperation, TypeError) as error:
        raise ValueError(f"{text!r} is no amount of money; write it as digits with a point, like 0.0125") from error
    if not value.is_finite():
        raise ValueError(f"{text!r} is no amount of money; it has to be finite")
    return value
