"""What model calls cost: sums of the usage that responses tell, by agent and session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: no call uses more of anything; sums of less are finite
MAX_AMOUNT = 1e15


class Usage(dict[str, int | float]):
    """Calls, tokens, cost, by name; whatever number a response tells is summed."""

    def add(self, told: Any) -> None:
        """Add the numbers of another usage; what is no number, or beyond `MAX_AMOUNT`, is left out."""
        for name, amount in told.items() if isinstance(told, Mapping) else ():
            if isinstance(amount, int | float) and not isinstance(amount, bool) and abs(amount) <= MAX_AMOUNT:
                self[str(name)] = self.get(str(name), 0) + amount
