"""What each table takes: rows, files, bytes, versions. For people who look after a store."""

from __future__ import annotations

from dataclasses import dataclass

from store.database import Store


@dataclass(frozen=True, slots=True)
class TableFigures:
    """One table's size. On object storage `files` and `bytes` count the data of the newest version only."""

    table: str
    rows: int
    files: int
    bytes: int
    versions: int


async def table_figures(store: Store) -> list[TableFigures]:
    """The size of every table, in the order of the schema."""
    return [await _figures(store, name) for name in store.tables]


async def _figures(store: Store, name: str) -> TableFigures:
    table = store.tables[name]
    data = await table.data_size()
    rows, versions, folder = await table.rows(), await table.versions(), store.options.folder
    if folder is None:
        return TableFigures(name, rows, data.files, data.bytes, versions)
    sizes = [file.stat().st_size for file in (folder / f"{name}.lance").rglob("*") if file.is_file()]
    return TableFigures(name, rows, len(sizes), sum(sizes), versions)
