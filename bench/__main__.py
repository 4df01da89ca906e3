"""`make bench`: one JSON line a figure, real processes on a temporary store each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import click

from bench.copilot import copilot
from bench.endurance import endurance
from bench.history import history
from bench.latency import latency, live
from bench.scaling import scaling
from bench.searching import search_figures
from bench.segments import segments
from bench.throughput import throughput
from bench.tokens import tokens
from bench.waiting import waiting

FIGURES: dict[str, Callable[[], Awaitable[None]]] = {
    "throughput-500": lambda: throughput(500, 300),
    "throughput-100": lambda: throughput(100, 500),
    "latency": lambda: latency(200),
    "live": lambda: live(200),
    "tokens": lambda: tokens(300, 1),
    "tokens-50": lambda: tokens(300, 50),
    "segments": lambda: segments(60, 1),
    "segments-20": lambda: segments(20, 20),
    "search": lambda: search_figures(1_000_000),
    "history": lambda: history(1_000_000),
    "waiting": lambda: waiting(10_000),
    "copilot": copilot,
}
#: measured only when they are named: they take minutes
LONG = ("endurance", "scaling")


@click.command()
@click.argument("figures", nargs=-1, type=click.Choice([*FIGURES, *LONG]))
@click.option("--minutes", default=10, show_default=True, help="How long `endurance` lasts.")
@click.option("--sessions", default=300, show_default=True, help="How many of them step twice a second meanwhile.")
@click.option("--flat-out", is_flag=True, help="`endurance` with sessions that step as fast as they are let.")
def main(figures: tuple[str, ...], minutes: int, sessions: int, flat_out: bool) -> None:
    """Measure FIGURES, or all that take seconds, one after the other."""
    known = {**FIGURES, "endurance": lambda: endurance(minutes, sessions, flat_out=flat_out), "scaling": scaling}
    for name in figures or FIGURES:
        asyncio.run(_run(known[name]))


async def _run(figure: Callable[[], Awaitable[None]]) -> None:
    await figure()


if __name__ == "__main__":
    main()
