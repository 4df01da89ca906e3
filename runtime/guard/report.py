"""What an operator should know of the guard before trusting it: its gates in order, and how good the classifier is."""

from __future__ import annotations

from collections.abc import Iterator

from runtime.guard.guard import Guard, Placed
from runtime.guard.onstep import GuardService
from runtime.guard.port import Channel
from runtime.guard.scoring import Classifier, Measured


def report(service: GuardService | None) -> Iterator[str]:
    """Lines for people."""
    yield from _gates(None if service is None else service.guard)
    yield ""
    yield from _classifier(Classifier.load().measured)


def _gates(guard: Guard | None) -> Iterator[str]:
    if guard is None:
        yield "no gates: STEPWELL_GOVERNANCE is not set, and no secret is configured"
        return
    yield "gates, in the order in which a text passes them:"
    yield from (_gate(placed) for placed in guard.placed)


def _gate(placed: Placed) -> str:
    channels = ", ".join(channel.value for channel in Channel if channel in placed.channels) or "no channel"
    failing = "keeps texts back when it fails" if placed.gate.fail_closed else "LETS TEXTS PASS when it fails"
    types = "" if placed.agent_types is None else f"; for {', '.join(sorted(placed.agent_types))} only"
    return f"  {placed.gate.name}: {channels}; {failing}; {placed.timeout_s:g} s{types}"


def _classifier(measured: Measured | None) -> Iterator[str]:
    yield "scoring gate (orders to a model), as measured on families of texts that it was not trained on:"
    if measured is None:
        yield "  never measured: do not rely on it"
        return
    yield f"  trained on {measured.trained_on} texts"
    yield f"  found {measured.recall:.1%} of {measured.attacks} attacks ({measured.attack_families} families)"
    yield (
        f"  accused {measured.false_positive_rate:.1%} of {measured.benign} harmless texts "
        f"({measured.benign_families} families)"
    )
    yield "  all texts were written for this project; docs/guard.md says how to read these numbers"
