"""`make bench-peers`: the figures in turns, Stepwell and every peer once a round, and a table for each."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import orjson
from rich.console import Console
from rich.table import Table

from bench.machine import fsync_ms
from bench.peers.contenders import CONTENDERS, OURS, PEERS_PYTHON, ROOT, Contender
from bench.peers.standing import TITLES, Standing, standings
from bench.peers.work import Answer, Figure, Work

_RESULTS = ROOT / "bench-results"
#: figures whose folders are filled once and read in every round
_KEPT = frozenset({Figure.HISTORY})
_QUICK = Work(
    Path(), sessions=500, steps=10, actions=500, paced=40, idle=3, history_reads=20, our_history_steps=100_000
)

_WHOLE = Work(Path())


@click.command()
@click.argument("figures", nargs=-1, type=click.Choice([figure.value for figure in Figure]))
@click.option("--rounds", default=3, show_default=True, help="How often everybody has a turn.")
@click.option("--quick", is_flag=True, help="Less work, to see that it runs: the figures are rough.")
def main(figures: tuple[str, ...], rounds: int, quick: bool) -> None:
    """Time Stepwell beside its peers at FIGURES, or at all of them."""
    if not PEERS_PYTHON.exists():
        raise click.ClickException(f"{PEERS_PYTHON} is missing; `make bench-peers` sets it up")
    work = _QUICK if quick else _WHOLE
    report = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": quick,
        "rounds": rounds,
        "cpus": os.cpu_count(),
        "versions": _versions(),
        "work": {**asdict(work), "folder": None},
        "figures": [_figure(Figure(name), rounds, work) for name in figures or [figure.value for figure in Figure]],
    }
    file = _RESULTS / f"peers-{datetime.now(UTC):%Y%m%d-%H%M%S}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(orjson.dumps(report, option=orjson.OPT_INDENT_2))
    click.echo(f"written to {file.relative_to(ROOT)}")


def _figure(figure: Figure, rounds: int, work: Work) -> dict[str, Any]:
    taking_part = [contender for contender in CONTENDERS if figure in contender.figures]
    base = Path(tempfile.mkdtemp(prefix="stepwell-peers-"))
    try:
        before, load_before = fsync_ms(base), os.getloadavg()[0]
        answers = _rounds(figure, rounds, work, taking_part, base)
        after, load_after = fsync_ms(base), os.getloadavg()[0]
    finally:
        shutil.rmtree(base, ignore_errors=True)
    values = {name: [float(answer["value"]) for answer in given] for name, given in answers.items()}
    table = standings(figure, OURS.name, values)
    machine = f"fsync {before} ms before, {after} ms after; load {load_before:.2f} before, {load_after:.2f} after"
    _show(figure, table, machine)
    return {
        "figure": figure.value,
        "title": TITLES[figure],
        "fsync_ms": [before, after],
        "load1": [round(load_before, 2), round(load_after, 2)],
        "standings": [{**asdict(standing), "reached": standing.reached} for standing in table],
        "answers": answers,
    }


def _rounds(
    figure: Figure, rounds: int, work: Work, taking_part: Sequence[Contender], base: Path
) -> dict[str, list[Answer]]:
    """A B C D A B C D: what the machine does meanwhile meets all of them alike."""
    answers: defaultdict[str, list[Answer]] = defaultdict(list)
    for number in range(rounds):
        for place, contender in enumerate(taking_part):
            folder = base / f"{place}-{0 if figure in _KEPT else number}"
            folder.mkdir(exist_ok=True)
            click.echo(f"{figure.value}, round {number + 1} of {rounds}: {contender.name} ...", err=True)
            answer = contender.answer(figure, replace(work, folder=folder))
            answers[contender.name].append({**answer, "load1": round(os.getloadavg()[0], 2)})
            if figure not in _KEPT:
                shutil.rmtree(folder, ignore_errors=True)
    return dict(answers)


def _show(figure: Figure, table: Sequence[Standing], machine: str) -> None:
    shown = Table(title=TITLES[figure], caption=machine)
    for column in ("", "median", "lowest", "highest", "Stepwell is better by", "aim"):
        shown.add_column(column, justify="left" if not column else "right")
    for standing in table:
        aim = "" if standing.aim is None else f"{standing.aim:g} {'reached' if standing.reached else 'MISSED'}"
        numbers = [f"{value:,.2f}" for value in (standing.median, standing.lowest, standing.highest, standing.ratio)]
        shown.add_row(standing.contender, *numbers, aim)
    Console().print(shown)


def _versions() -> dict[str, str]:
    """The peers' versions, as their environment tells them."""
    names = ["dbos", "langgraph", "langgraph-checkpoint-sqlite", "huey"]
    program = "import sys, importlib.metadata as m; print([m.version(name) for name in sys.argv[1:]])"
    told = subprocess.run([PEERS_PYTHON, "-c", program, *names], capture_output=True, text=True, check=True).stdout
    return dict(zip(names, orjson.loads(told.replace("'", '"')), strict=True))


if __name__ == "__main__":
    main()
