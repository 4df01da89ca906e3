"""`make bench`: one JSON line a figure, real processes on a temporary store each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import click

from bench.history import history
from bench.latency import latency, live
from bench.throughput import throughput
from bench.waiting import waiting

FIGURES: dict[str, Callable[[], Awaitable[None]]] = {
    "throughput-500": lambda: throughput(500, 300),
    "throughput-100": lambda: throughput(100, 500),
    "latency": lambda: latency(200),
    "live": lambda: live(200),
    "history": lambda: history(1_000_000),
    "waiting": lambda: waiting(10_000),
}


@click.command()
@click.argument("figures", nargs=-1, type=click.Choice(list(FIGURES)))
def main(figures: tuple[str, ...]) -> None:
    """Measure FIGURES, or all of them, one after the other."""
    for name in figures or FIGURES:
        asyncio.run(_run(name))


async def _run(name: str) -> None:
    await FIGURES[name]()


if __name__ == "__main__":
    main()
