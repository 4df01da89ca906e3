"""A budget for people: its name, its bars, and one line for where there is little room."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from store.budgets import ScopeKind
from store.limits import limits_of, plain_amount
from store.spending import Amount, Limit
from web.names import session_name

Json = dict[str, Any]

#: each limit's field in the form: its title, and what to say of it
LIMIT_TITLES: Final[Mapping[str, tuple[str, str]]] = {
    Limit.TOKENS: ("Tokens", "Input and output together"),
    Limit.MONEY: ("Money", "In the currency of models.toml, such as 2.50"),
    Limit.CALLS: ("Model calls", ""),
    Limit.STEPS: ("Steps", ""),
    Limit.TIME_S: ("Seconds of work", "Waits and pauses are none"),
    Limit.UNPRICED_CALLS: ("Calls of unknown price", "None, where money is limited and this is empty"),
}
_NEAR: Final = 80
_FULL: Final = 100


def budget_words(budget: Mapping[str, Any]) -> str:
    """Whose budget it is."""
    kind, key = ScopeKind(budget["kind"]), budget["id"] or ""
    if kind is ScopeKind.TOTAL:
        return "All sessions"
    if kind is ScopeKind.SESSION:
        return f"Session {session_name(key)}"
    return f"{kind.value.capitalize()} {key}"


def budget_bars(budget: Mapping[str, Any]) -> list[Json]:
    """A bar for each limit: `{limit, title, figures, percent, tone}`; `percent` is at most 100."""
    return [_bar(limit, allowed, budget["spent"]) for limit, allowed in limits_of(budget["limits"])]


def budget_line(budget: Mapping[str, Any]) -> str:
    """The limit that is nearest to its end, in a few words."""
    bars = budget_bars(budget)
    nearest = max(bars, key=lambda bar: bar["percent"])
    whose = "" if budget["kind"] == ScopeKind.SESSION else f" ({budget_words(budget).lower()})"
    return f"{nearest['figures']} {nearest['title'].lower()}{whose}"


def _bar(limit: Limit, allowed: Amount, spent: Mapping[str, Any]) -> Json:
    used = Decimal(str(spent[limit.value]))
    most = Decimal(str(plain_amount(allowed)))
    reached = used > most if limit is Limit.UNPRICED_CALLS else used >= most
    percent = _FULL if reached or not most else min(99, int(used * 100 / most))
    percent = 0 if not used and not reached else percent
    tone = "failed" if reached else "waiting" if percent >= _NEAR else "done"
    return {
        "limit": limit.value,
        "title": LIMIT_TITLES[limit][0],
        "figures": f"{_figure(used)} of {_figure(most)}",
        "percent": percent,
        "tone": tone,
        "word": "spent" if reached else "nearly spent" if percent >= _NEAR else "",
    }


def _figure(value: Decimal) -> str:
    """1,234,567 or 2.50: as exact as it is, but no more than four places behind the point."""
    exact = format(value, ",f")
    whole, point, rest = exact.partition(".")
    return whole if not rest.strip("0") else f"{whole}{point}{rest[:4]}"
