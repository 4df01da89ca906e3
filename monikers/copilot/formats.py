"""Output formats: what an agent's model is told to answer, and where in the answer things stand (spec 2 §10.1, D.6)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from monikers.copilot.errors import AgentConfigurationError, Mistake

SHIPPED = Path(__file__).parent / "schemas"
MAX_SCHEMA_BYTES = 100_000
MAX_INSTRUCTION_CHARS = 20_000

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
#: keys of a mapping whose value names a field, several in order, or nothing
_FIELD_KEYS = frozenset(
    "root_key check_field content_field type_field confidence_field expiry_field action_label_field metadata_field "
    "events_field state_field variable_updates_field queue_field facts_field memory_field data_field data_key".split()
)
_OTHER_KEYS = frozenset({"metadata_fields", "is_state_at_root"})


@dataclass(frozen=True, slots=True)
class OutputSchema:
    """One format: the words for the prompt, and the mapping from an answer's fields to a response."""

    name: str
    instruction: str
    mapping: Mapping[str, Any]


def output_schema(named: Any, folder: Path | None = None) -> OutputSchema:
    """The format that an agent's `output_format` means: an object of `instruction` and `mapping`, or its name.

    A name is looked up in `folder`, where a host keeps its own, then among those that ship. Raises
    `AgentConfigurationError` when there is none, or when it is malformed.
    """
    if isinstance(named, Mapping):
        return _checked("(inline)", named)
    if not isinstance(named, str) or not _NAME.fullmatch(named):
        raise _wrong(
            f"{str(named)[:80]!r} is no name of a format: write letters, digits, '_' and '-', or "
            'an object with "instruction" and "mapping"'
        )
    for place in (folder, SHIPPED):
        if place is not None and (place / f"{named}.json").is_file():
            return _of_file(place / f"{named}.json")
    raise _wrong(
        f"there is no format {named!r}: use one of {', '.join(known_formats(folder))}, or write "
        f"{named}.json into the folder of your own formats"
    )


def known_formats(folder: Path | None = None) -> list[str]:
    """The names that can be used, in their order."""
    places = [place for place in (folder, SHIPPED) if place is not None]
    return sorted({file.stem for place in places for file in place.glob("*.json") if _NAME.fullmatch(file.stem)})


@lru_cache(maxsize=64)
def _shipped(path: Path) -> OutputSchema:
    return _read(path)


def _of_file(path: Path) -> OutputSchema:
    return _shipped(path) if path.parent == SHIPPED else _read(path)


def _read(path: Path) -> OutputSchema:
    try:
        raw = path.read_bytes()
        if len(raw) > MAX_SCHEMA_BYTES:
            raise ValueError(f"it has {len(raw)} bytes; at most {MAX_SCHEMA_BYTES} are read")
        found = json.loads(raw)
    except (OSError, ValueError, RecursionError) as error:
        raise _wrong(f"the format {path.stem!r} cannot be read: {str(error)[:200]}; correct {path.name}") from error
    return _checked(path.stem, found)


def _checked(name: str, found: Any) -> OutputSchema:
    problem = _problem(found)
    if problem:
        raise _wrong(f"the format {name!r} {problem}")
    return OutputSchema(name, found.get("instruction", ""), dict(found.get("mapping", {})))


def _wrong(message: str) -> AgentConfigurationError:
    return AgentConfigurationError(f"output_format: {message}", [Mistake("output_format", message)])


def _problem(found: Any) -> str:
    if not isinstance(found, Mapping):
        return 'is no object: give it "instruction" and "mapping"'
    instruction, mapping = found.get("instruction", ""), found.get("mapping", {})
    if not isinstance(instruction, str) or len(instruction) > MAX_INSTRUCTION_CHARS:
        return f'needs a text of at most {MAX_INSTRUCTION_CHARS} characters as "instruction"'
    if not isinstance(mapping, Mapping):
        return 'needs an object as "mapping"'
    if unknown := sorted(map(str, set(mapping) - _FIELD_KEYS - _OTHER_KEYS)):
        return f"maps {unknown[0]!r}, which is not known: use {', '.join(sorted(_FIELD_KEYS))} or metadata_fields"
    for key in sorted(_FIELD_KEYS & set(mapping)):
        if not _names_fields(mapping[key]):
            return f"maps {key} to {str(mapping[key])[:40]!r}: give the name of a field, a list of names, or null"
    parts = mapping.get("metadata_fields")
    if parts is not None and not (isinstance(parts, Mapping) and all(isinstance(name, str) for name in parts.values())):
        return 'maps metadata_fields to no object: write {"name in the metadata": "field of the answer"}'
    return ""


def _names_fields(value: Any) -> bool:
    names = value if isinstance(value, list) else [value]
    return value is None or (bool(names) and all(isinstance(name, str) and name for name in names))
