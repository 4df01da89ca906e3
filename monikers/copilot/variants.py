"""Agents from JSON, also in several versions: `versions` says what each has in place of the fields around it.

    {"id": "closer", "text": "...", "versions": [{"version": "short", "share": 1},
                                                 {"version": "long", "share": 3, "text": "...", "cooldown": 30}]}

A session always gets the same version (`versions.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from monikers.copilot.agent import BaseAgent
from monikers.copilot.dynamic import DynamicAgent
from monikers.copilot.errors import AgentConfigurationError, Mistake
from monikers.copilot.versions import Version, VersionedAgent

FIELD = "versions"
MAX_VERSIONS = 20
#: fields whose own fields are replaced one by one
_PARTS = ("trigger_config", "model_config")
_OWN = frozenset({"version", "share"})


class _Named(BaseModel):
    """A version; what else it says stands in place of the agent's own."""

    model_config = ConfigDict(frozen=True, extra="allow")

    version: Annotated[str, Field(min_length=1, max_length=100)]
    share: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0


_VERSIONS: TypeAdapter[list[_Named]] = TypeAdapter(
    Annotated[list[_Named], Field(min_length=1, max_length=MAX_VERSIONS)]
)


class Variant(NamedTuple):
    """One version of an agent as a definition of its own."""

    name: str
    share: float
    definition: dict[str, Any]


def agent_of(config: Mapping[str, Any], *, schema_folder: Path | None = None) -> BaseAgent:
    """The agent of a definition: a `DynamicAgent`, or a `VersionedAgent` of several.

    Raises `AgentConfigurationError` with every mistake of the definition, or of one of its versions.
    """
    found = variants_of(config)
    if not found:
        return DynamicAgent(config, schema_folder=schema_folder)
    return VersionedAgent([Version(one.name, _built(place, one, schema_folder), one.share) for place, one in found])


def variants_of(config: Any) -> list[tuple[int, Variant]]:
    """The versions of a definition with their places; none for one without.

    Raises `AgentConfigurationError` when `versions` is no list of versions, or one of them has an id of its own.
    """
    if not isinstance(config, Mapping) or config.get(FIELD) is None:
        return []
    try:
        named = _VERSIONS.validate_python(config[FIELD])
    except ValidationError as error:
        mistakes = [
            Mistake(".".join(map(str, (FIELD, *one["loc"]))), one["msg"]) for one in error.errors(include_url=False)
        ]
        raise AgentConfigurationError("; ".join(map(str, mistakes)), mistakes) from error
    if mistakes := list(_clashes(config, named)):
        raise AgentConfigurationError("; ".join(map(str, mistakes)), mistakes)
    return [(place, Variant(one.version, one.share, _merged(config, one))) for place, one in enumerate(named)]


def _clashes(config: Mapping[str, Any], named: list[_Named]) -> Iterator[Mistake]:
    seen: set[str] = set()
    for place, one in enumerate(named):
        more = one.model_extra or {}
        if more.get("id", config.get("id")) != config.get("id"):
            yield Mistake(f"{FIELD}.{place}.id", "versions of one agent share its id: leave it out")
        if FIELD in more:
            yield Mistake(f"{FIELD}.{place}.{FIELD}", "a version has no versions: leave it out")
        if one.version in seen:
            yield Mistake(
                f"{FIELD}.{place}.version", f"two versions are called {one.version!r}: give each its own name"
            )
        seen.add(one.version)
    if sum(one.share for one in named) <= 0:
        yield Mistake(FIELD, "every share is 0: give at least one version a share")


def _merged(config: Mapping[str, Any], version: _Named) -> dict[str, Any]:
    more = version.model_extra or {}
    base = {name: value for name, value in config.items() if name != FIELD}
    parts = {
        name: {**base[name], **more[name]}
        for name in _PARTS
        if isinstance(base.get(name), Mapping) and isinstance(more.get(name), Mapping)
    }
    return {**base, **more, **parts}


def _built(place: int, variant: Variant, schema_folder: Path | None) -> DynamicAgent:
    try:
        return DynamicAgent(variant.definition, schema_folder=schema_folder)
    except AgentConfigurationError as error:
        raise AgentConfigurationError(
            f"{FIELD}.{place}: {error}", [in_version(place, mistake) for mistake in error.mistakes]
        ) from error


def in_version(place: int, mistake: Mistake) -> Mistake:
    """A mistake of a version's definition, named by where it stands."""
    field = f"{FIELD}.{place}.{mistake.field}" if mistake.field else f"{FIELD}.{place}"
    return Mistake(field, mistake.message)
