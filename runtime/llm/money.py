"""What a call costs, in which an unknown price is not a price of nothing."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from runtime.llm.port import Usage
from store.money import EXACT, added

MILLION = Decimal(1_000_000)


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
        total = added(total, EXACT.divide(EXACT.multiply(Decimal(tokens), price), MILLION))
    # an unknown price may be a price a call, so nothing used costs nothing only where something is known
    return None if prices == Prices() else total


@dataclass(frozen=True, slots=True)
class CallCosts:
    """What several calls cost together: the sum of the known prices, and how many calls it leaves out."""

    known: Decimal = Decimal(0)
    unpriced_calls: int = 0

    def plus(self, cost: Decimal | None, *, calls: int = 1) -> CallCosts:
        """With one answer more, for which `calls` calls were made."""
        if cost is None:
            return CallCosts(self.known, self.unpriced_calls + calls)
        return CallCosts(added(self.known, cost), self.unpriced_calls)

    def plus_all(self, other: CallCosts) -> CallCosts:
        """With all of `other`."""
        return CallCosts(added(self.known, other.known), self.unpriced_calls + other.unpriced_calls)


NO_COSTS = CallCosts()
