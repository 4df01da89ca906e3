"""`agents.py check`: reads a store, reports what does not fit together, and mends what can be mended safely.

Exit codes: 0 when the store is clean, or made so; 1 when something was found, and is left; 2 when it cannot be read.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from runtime.checking.check import check, mend
from runtime.checking.files import damaged_files, of_damage, repair_files
from runtime.checking.finding import Finding, Mended
from runtime.commands.opening import carry_out, living_workers, refuse_beside_workers_here
from runtime.settings import WorkerSettings
from store.database import Store
from store.errors import ConflictError
from store.jsontext import json_dumps
from store.options import StoreOptions


@click.command(name="check")
@click.option("--repair", is_flag=True, help="Mend what can be mended safely; no worker may run.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check_store(repair: bool, as_json: bool) -> None:
    """Look for what does not fit together in the store. Exits with 0: clean, 1: found something, 2: cannot read it."""
    show = _show_json if as_json else _show
    files: list[Mended] = []

    async def first(settings: WorkerSettings) -> int | None:
        """A store whose files are damaged may not open at all, so they come first."""
        damages = await damaged_files(settings.data)
        if damages and not repair:
            return show([Mended(of_damage(damage), None) for damage in damages], False)
        if repair:
            refuse_beside_workers_here(StoreOptions(settings.data).folder)
        files.extend(await repair_files(settings.data, damages))
        return None

    async def work(store: Store, settings: WorkerSettings) -> int:
        if not repair:
            return show([Mended(fault, None) for fault in await check(store.tenant())], False)
        await _refuse_beside_workers(store)
        mended = await mend(await check(store.tenant()))
        left = [Mended(fault, None) for fault in await check(store.tenant())]
        return show([*files, *[each for each in mended if each.deed is not None], *left], True)

    sys.exit(carry_out(work, first))


async def _refuse_beside_workers(store: Store) -> None:
    if working := await living_workers(store):
        raise ConflictError(
            f"worker {working[0].worker_id!r} (pid {working[0].pid} on {working[0].host}) is at work; "
            "stop it, or leave --repair out"
        )


def _show(found: Sequence[Mended], repaired: bool) -> int:
    left = [each.finding for each in found if each.deed is None]
    for each in found:
        fault = each.finding
        click.echo(f"{fault.level.value}: {fault.where} {fault.what}: {fault.problem}")
        if each.deed is None:
            click.echo(f"    cure: {fault.cure}{_offer(fault, repaired)}")
        else:
            click.echo(f"    mended: {each.deed}")
    mended = len(found) - len(left)
    click.echo(f"{len(left)} found" + (f", {mended} mended" if mended else "") if found else "clean")
    return 1 if left else 0


def _offer(fault: Finding, repaired: bool) -> str:
    return " (--repair does it)" if fault.mend is not None and not repaired else ""


def _show_json(found: Sequence[Mended], repaired: bool) -> int:
    left = sum(each.deed is None for each in found)
    click.echo(json_dumps({"clean": not left, "repaired": repaired, "findings": [_row(each) for each in found]}))
    return 1 if left else 0


def _row(each: Mended) -> dict[str, Any]:
    fault = each.finding
    return {
        "kind": fault.kind.value,
        "level": fault.level.value,
        "where": fault.where,
        "what": fault.what,
        "problem": fault.problem,
        "cure": fault.cure,
        "can_be_mended": fault.mend is not None,
        "mended": each.deed,
    }
