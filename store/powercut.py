"""What opening a store does about damaged files: refuse, or set aside what a power cut tore before it was told.

LanceDB writes a version's manifest before we can sync the files that it names. A power cut in between can leave a
newest version that names torn files. With `StoreOptions.fsync` a note says up to which version everything was synced
(`store.fsync`): a damaged version above it was never acknowledged, and is moved to `damaged/`. Any other damage is
refused, for a person to decide on.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import structlog

from store.fsync import TableSync, durable_version, sync_note
from store.options import StoreOptions
from store.repair import Damage, damage_at_open, refusal, repair
from store.schema import ALL_TABLES, MIGRATIONS


async def ready_files(options: StoreOptions) -> None:
    """Return when every table's newest version is whole. Raises `StoreDamagedError` naming a file and the cure."""
    folder = options.folder
    if folder is None:
        return
    damages = await asyncio.to_thread(damage_at_open, folder)
    if not damages:
        return
    if not options.fsync or not all(_never_told(folder, damage) for damage in damages):
        raise refusal(folder, damages)
    for done in await repair(options.url, damages):
        structlog.get_logger().warning(
            "a power cut tore what was never acknowledged; it was set aside",
            table=done.table,
            did=str(done),
        )
    if left := await asyncio.to_thread(damage_at_open, folder):
        raise refusal(folder, left)


def _never_told(folder: Path, damage: Damage) -> bool:
    """Whether nobody was told of the damaged version. Version 1 is an empty table: a first start that was cut short."""
    noted = durable_version(folder / f"{damage.table}.lance")
    return damage.version == 1 or (noted is not None and damage.version > noted)


async def first_sync(options: StoreOptions) -> dict[str, TableSync]:
    """How each table's commits are made durable; with fsync on, what is there now is durable when this returns."""
    folder = options.folder
    if folder is None or not options.fsync:
        return {spec.name: TableSync(None) for spec in ALL_TABLES}
    syncs = {spec.name: TableSync(folder / f"{spec.name}.lance") for spec in (*ALL_TABLES, MIGRATIONS)}
    for sync in syncs.values():
        await sync()
    for name in syncs:
        # Later notes may get lost; without a first one nobody could tell a torn version from a damaged one.
        await asyncio.to_thread(sync_note, folder / f"{name}.lance")
    return syncs
