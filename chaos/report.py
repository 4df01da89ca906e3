"""The table at the end."""

from __future__ import annotations

import statistics
from collections import Counter

from chaos.checker import Promised
from chaos.ledger import Harm
from chaos.run import Verdict

_WIDTH = 44
_SHOWN = 20


def passed(verdict: Verdict) -> bool:
    """Whether every promise was kept under every fault that was asked for."""
    return not verdict.broken and verdict.ledger.kills >= verdict.orders.kills


def table(verdict: Verdict) -> str:
    """The figures of a run, as Markdown that is also readable as it is."""
    rows = [("what", "count"), ("-" * _WIDTH, "-----:"), *_size(verdict), *_faults(verdict), *_promises(verdict)]
    return "\n".join(f"| {name:<{_WIDTH}} | {value:>20} |" for name, value in rows)


def details(verdict: Verdict) -> str:
    """The first breaches in words."""
    lines = [f"{one.promise.value}: {one.what}" for one in verdict.broken[:_SHOWN]]
    more = len(verdict.broken) - len(lines)
    return "\n".join([*lines, *([f"and {more} more"] if more else [])])


def diary(verdict: Verdict) -> str:
    """Every fault, request to the model, effect and promise in the order of time, for whoever looks for a cause."""
    ledger = verdict.ledger
    seen = [
        *[(blow.at, f"{blow.victim} {blow.harm} {blow.note}") for blow in ledger.blows],
        *[(ask.asked_at, f"{ask.worker} asks {ask.serial} {ask.call} {ask.fault}") for ask in ledger.asks],
        *[(effect.at, f"{effect.worker} acts {effect.serial} {effect.key}") for effect in ledger.effects],
        *[(one.at, f"client is promised {one}") for one in ledger.promises],
    ]
    lines = [f"{moment:.3f} {what}" for moment, what in sorted(seen)]
    return "\n".join([*lines, *[f"{one.promise}: {one.what}" for one in verdict.broken]]) + "\n"


def _size(verdict: Verdict) -> list[tuple[str, str]]:
    return [
        ("seconds", f"{verdict.lasted_s:.0f}"),
        ("workers", str(verdict.orders.workers)),
        ("sessions", str(verdict.sessions)),
        ("steps", str(verdict.steps)),
        ("actions promised (202)", str(len(verdict.ledger.promises))),
        ("model requests, of them failed on purpose", _requests(verdict)),
    ]


def _requests(verdict: Verdict) -> str:
    asks = verdict.ledger.asks
    return f"{len(asks)}, {sum(ask.fault != 'none' for ask in asks)}"


def _faults(verdict: Verdict) -> list[tuple[str, str]]:
    counted = Counter(blow.harm for blow in verdict.ledger.blows)
    names = {harm: harm.value for harm in Harm}
    if not verdict.disk:
        names[Harm.DISK] += " (no small disk here)"
    return [("kills", str(verdict.ledger.kills)), *[(names[harm], str(counted[harm])) for harm in Harm]]


def _promises(verdict: Verdict) -> list[tuple[str, str]]:
    counted = Counter(one.promise for one in verdict.broken)
    lasted = verdict.recoveries
    progress = f"{statistics.median(lasted):.2f} / {max(lasted):.2f} s" if lasted else "none in flight"
    return [
        *[(promise.value, str(counted[promise])) for promise in Promised],
        ("model calls made again: in flight at a fault", str(verdict.repeats.model_calls)),
        ("effects had again: in flight at a fault", str(verdict.repeats.effects)),
        ("of both: by a replaced owner that woke up", str(verdict.repeats.woken)),
        ("steps of stalled owners, shown to nobody", str(verdict.repeats.late_rows)),
        ("time to progress p50 / max", progress),
    ]
