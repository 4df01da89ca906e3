"""Monikers: what sessions can be started of."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from web.catalogue import Catalogue, MonikerEntry
from web.routes import Answer, Api, Many, Operation
from web.shapes import Json, many


class Moniker(TypedDict):
    """A moniker."""

    name: str
    summary: str
    config_schema: dict[str, Any]
    example: dict[str, Any]
    task_field: str | None
    stop_on_done: bool


async def list_monikers(api: Api) -> Answer:
    """Every moniker, in the order to offer them, with the JSON Schema of its config."""
    return Answer(many(moniker_shapes(api.catalogue)))


def moniker_shapes(catalogue: Catalogue) -> list[Json]:
    """The monikers as JSON."""
    return [_shape(entry) for entry in catalogue.values()]


def _shape(entry: MonikerEntry) -> Json:
    return {
        "name": entry.name,
        "summary": entry.summary,
        "config_schema": dict(entry.config_schema),
        "example": dict(entry.example),
        "task_field": entry.task_field,
        "stop_on_done": entry.stop_on_done,
    }


OPERATIONS = (Operation("GET", "/api/monikers", list_monikers, "monikers", "List monikers", Many(Moniker)),)
