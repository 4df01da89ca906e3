"""The agents of the copilot as people know them: those that ship, those that were saved, and what replaces what.

Version 0 of an agent ships with the product; later ones are rows of `copilot_agents`. The newest of an id is the one in
use, and an agent that is only saved belongs to its set like the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from typing_extensions import TypedDict

from store import NotFoundError
from store.copilot_agents import SHIPPED, SavedAgent, get_version, list_versions, newest_versions
from web.problems import refused
from web.routes import Api
from web.shapes import Json, time_of
from web.workshop import Mistake, ShippedSet, in_time

_AMISS: Final = "the definition has mistakes; nothing was done"


class AgentVersion(TypedDict):
    """A version of an agent; 0 ships with the product. `definition`, `note` and `saved_by` are somebody's words."""

    agent_id: str
    version: int
    agent_set: str
    definition: Any
    note: str | None
    saved_by: str | None
    saved_at: datetime | None


def find_set(api: Api, name: str) -> ShippedSet:
    """A set by its name; raises `NotFoundError`."""
    for one in api.workshop.sets():
        if one.name == name:
            return one
    raise NotFoundError("agent set", name)


def named_set(api: Api, name: str) -> ShippedSet:
    """A set that a body names; one that is not there is a 422 for the field."""
    try:
        return find_set(api, name)
    except NotFoundError as error:
        known = ", ".join(one.name for one in api.workshop.sets())
        wrong = {"field": "agent_set", "message": f"give one of: {known}"}
        raise refused(422, f"there is no agent set {name[:80]!r}", errors=[wrong]) from error


async def newest_agents(api: Api, of_set: ShippedSet) -> list[Json]:
    """The newest version of each agent of a set: those that ship in their order, then those that were only saved."""
    saved = await newest_versions(api.db, of_set.name)
    newest = {str(config.get("id")): _shipped(of_set, config) for config in of_set.configs}
    return list({**newest, **{agent_id: saved_shape(one) for agent_id, one in saved.items()}}.values())


async def versions_of(api: Api, of_set: ShippedSet, agent_id: str) -> list[Json]:
    """Every version of an agent, newest first; raises `NotFoundError` for an agent that the set does not have."""
    saved = await list_versions(api.db, of_set.name, agent_id)
    shipped = [_shipped(of_set, config) for config in of_set.configs if config.get("id") == agent_id]
    found = [*map(saved_shape, saved), *shipped]
    if not found:
        raise NotFoundError(f"agent of {of_set.name!r}", agent_id)
    return found


async def definition_of(api: Api, of_set: ShippedSet, agent_id: str, version: int) -> Mapping[str, Any]:
    """The definition of a version; raises `NotFoundError`."""
    if version != SHIPPED:
        found: Mapping[str, Any] = (await get_version(api.db, of_set.name, agent_id, version)).definition
        return found
    for config in of_set.configs:
        if config.get("id") == agent_id:
            return config
    raise NotFoundError("version", f"{of_set.name}/{agent_id}/{SHIPPED}")


async def refuse_mistakes(api: Api, definition: Mapping[str, Any], agent_id: str | None = None) -> None:
    """Raise a 422 that names every mistake of a body's `definition`. Its id must be there, and `agent_id` if given."""
    wrong = mistake_shapes(await in_time(api.workshop.problems, definition), "definition")
    named = definition.get("id")
    if agent_id is not None and named != agent_id:
        wrong.append({"field": "definition.id", "message": f"must be {agent_id!r}, the agent that it is saved for"})
    elif agent_id is None and not named:
        wrong.append({"field": "definition.id", "message": "is missing: write one"})
    if wrong:
        raise refused(422, _AMISS, errors=wrong)


def mistake_shapes(mistakes: Iterable[Mistake], inside: str = "") -> list[dict[str, str]]:
    """Mistakes as `{"field", "message"}`, their fields those of an object that stands at `inside`."""
    return [
        {"field": ".".join(part for part in (inside, one.field) if part), "message": one.message} for one in mistakes
    ]


def _shipped(of_set: ShippedSet, config: Mapping[str, Any]) -> Json:
    return {
        "agent_id": config.get("id"),
        "version": SHIPPED,
        "agent_set": of_set.name,
        "definition": dict(config),
        "note": None,
        "saved_by": None,
        "saved_at": None,
    }


def saved_shape(one: SavedAgent) -> Json:
    return {
        "agent_id": one.agent_id,
        "version": one.version,
        "agent_set": one.agent_set,
        "definition": one.definition,
        "note": one.note,
        "saved_by": one.saved_by,
        "saved_at": time_of(one.saved_at),
    }
