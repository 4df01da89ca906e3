"""`make chaos`: kill, stall and starve real processes while people work with them, then check every promise."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

import click

from chaos.report import details, diary, passed, table
from chaos.run import Orders, Verdict, run
from chaos.schedule import Kind

_BROKEN = 1


@click.command()
@click.option("--seed", default=1, show_default=True, help="The same seed gives the same series of faults.")
@click.option("--kills", default=200, show_default=True, help="Processes to kill.")
@click.option("--duration", default=840.0, show_default=True, help="Seconds over which the kills are spread.")
@click.option("--workers", default=2, show_default=True, help="Worker processes on the one folder.")
@click.option("--people", default=12, show_default=True, help="Clients at work at the same time.")
@click.option("--points/--no-points", default=True, show_default=True, help="Also kill at named crash points.")
@click.option("--model-faults", default=0.08, show_default=True, help="Share of model requests that fail.")
@click.option("--calm", default=120.0, show_default=True, help="Seconds to finish in once the faults have ended.")
@click.option("--disk-mb", default=1024, show_default=True, help="Size of the disk that is filled; 0 fills none.")
@click.option("--without", multiple=True, type=click.Choice([kind.name for kind in Kind]), help="Leave a fault out.")
@click.option("--keep", is_flag=True, help="Keep the data and the logs of a good run too.")
def main(
    seed: int,
    kills: int,
    duration: float,
    workers: int,
    people: int,
    points: bool,
    model_faults: float,
    calm: float,
    disk_mb: int,
    without: tuple[str, ...],
    keep: bool,
) -> None:
    """Put Stepwell under fire and print what broke; exit code 1 when anything did."""
    left_out = tuple(Kind[name] for name in without)
    orders = Orders(seed, kills, duration, workers, people, points, model_faults, calm, disk_mb, left_out)
    folder = Path(tempfile.mkdtemp(prefix="stepwell-chaos-"))
    click.echo(f"seed {seed}; again with: python -m chaos {' '.join(sys.argv[1:])}")
    verdict = asyncio.run(run(orders, folder, click.echo))
    sys.exit(_conclude(verdict, folder, keep=keep))


def _conclude(verdict: Verdict, folder: Path, *, keep: bool) -> int:
    good = passed(verdict)
    click.echo(table(verdict))
    if not good:
        click.echo(details(verdict))
    if keep or not good:
        (folder / "ledger.txt").write_text(diary(verdict))
        click.echo(f"data and logs are in {folder}")
    else:
        shutil.rmtree(folder)
    return 0 if good else _BROKEN


if __name__ == "__main__":
    main()
