"""Reads `models.toml` and the keys that it names. An error says file, table, key, value and cure."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from runtime.errors import SettingError
from runtime.llm.apikey import ApiKey, key_of_environment, key_of_file
from runtime.llm.modelsfile import EMBEDDING_ROLE, Ability, KeyEntry, ModelsFile

MAX_SHOWN = 80
#: a value under such a name, or that looks like a key, is never repeated in a message
_SECRET_NAME = re.compile(r"key|secret|token$|password|auth", re.I)
_SECRET_VALUE = re.compile(r"^(sk-|Bearer |[A-Za-z0-9_+/=-]{20,}$)")
_CURES = {
    "extra_forbidden": "remove it or correct its name",
    "missing": "add it",
    "greater_than": "give a larger number",
    "greater_than_equal": "give a larger number",
    "less_than_equal": "give a smaller number",
    "int_type": "give a whole number without quotes",
    "bool_type": "give true or false",
    "string_type": "put it into quotes",
    "dict_type": "make it a table",
    "model_type": "make it a table",
    "tuple_type": "make it a list",
    "is_instance_of": "give a number without quotes",
}


class ModelsFileError(SettingError):
    """`models.toml` cannot be used; no model was made."""


@dataclass(frozen=True, slots=True)
class KnownModels:
    """The file's content and the keys that it names, by provider; a provider without keys has none in the map."""

    file: ModelsFile
    keys: Mapping[str, tuple[ApiKey, ...]]


def read_models(path: Path, environment: Mapping[str, str]) -> KnownModels:
    """The models of the file at `path` with their keys. Paths in it start at its folder.

    Raises `ModelsFileError` with every mistake that was found, one a line. Keys are read once, here.
    """
    file = read_file(path)
    return KnownModels(file, _keys(path, file, environment))


def read_file(path: Path) -> ModelsFile:
    """What the file at `path` says; no key is looked for. Raises `ModelsFileError` as `read_models` does."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
    except OSError as error:
        raise ModelsFileError(f"{path}: cannot be read: {error.strerror}; make it or correct the path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ModelsFileError(f"{path}: not TOML: {_reason(error)}; mend that place") from None
    try:
        file = ModelsFile.model_validate(found)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        # without the cause: its text would repeat values that may be secrets
        raise ModelsFileError("\n".join(_told(path, problem, found) for problem in problems)) from None
    if wrong := [f"{path}: {problem}" for problem in _contradictions(file)]:
        raise ModelsFileError("\n".join(wrong))
    return file


def _reason(error: Exception) -> str:
    # a byte that is not UTF-8 may be of a key that somebody put into the file
    return str(error) if isinstance(error, tomllib.TOMLDecodeError) else "it is not UTF-8"


def _told(path: Path, problem: ErrorDetails, found: dict[str, Any]) -> str:
    steps = [str(step) for step in problem["loc"] if step != "[key]"]
    table, key = (steps[:-1], steps[-1]) if len(steps) > 1 else ([], steps[0] if steps else "")
    where = f"[{'.'.join(table)}] " if table else ""
    message = problem["msg"].removeprefix("Value error, ").removeprefix("Input ")
    value = "" if problem["type"] == "missing" else f" = {_shown(steps, problem.get('input'))}"
    cure = _CURES.get(problem["type"], "correct it")
    return f"{path}: {where}{key}{value}: {message[:1].lower()}{message[1:]}; {cure}"


def _shown(steps: list[str], value: Any) -> str:
    """A value as a message may repeat it."""
    if isinstance(value, dict | list | tuple):
        return "(a table)" if isinstance(value, dict) else "(a list)"
    text = str(value)
    if any(_SECRET_NAME.search(step) for step in steps) or _SECRET_VALUE.match(text) or "@" in text:
        return "(not shown)"
    return repr(text[:MAX_SHOWN]) if isinstance(value, str) else text[:MAX_SHOWN]


def _contradictions(file: ModelsFile) -> Iterator[str]:
    for name, model in file.models.items():
        if model.provider not in file.providers:
            known = ", ".join(file.providers)
            yield f"[models.{name}] provider = {model.provider!r}: no such provider; there are {known}"
    for role, models in file.roles.items():
        for model_name in models:
            if model_name not in file.models:
                yield f"[roles] {role} = {model_name!r}: no such model; there are {', '.join(file.models)}"
            elif role == EMBEDDING_ROLE and Ability.EMBEDDINGS not in file.models[model_name].abilities:
                yield f'[roles] {role} = {model_name!r}: it does not embed; add "embeddings" to its abilities'
    known_names = [name for name in file.embedding_models() if name in file.models]
    if len({(file.models[name].model, file.models[name].dimensions) for name in known_names}) > 1:
        yield (
            f"[roles] {EMBEDDING_ROLE}: its models differ in model or dimensions; "
            "vectors of different models cannot be compared, so name one model, at one or several providers"
        )


def _keys(path: Path, file: ModelsFile, environment: Mapping[str, str]) -> dict[str, tuple[ApiKey, ...]]:
    keys: dict[str, tuple[ApiKey, ...]] = {}
    wrong: list[str] = []
    for name, provider in file.providers.items():
        found: dict[str, ApiKey] = {}
        for place, entry in enumerate(provider.keys):
            try:
                key = _key(path, entry, environment)
                found.setdefault(key.fingerprint, key)
            except ValueError as error:
                wrong.append(f"{path}: [providers.{name}] keys[{place}]: {error}")
        keys[name] = tuple(found.values())
    if wrong:
        raise ModelsFileError("\n".join(wrong))
    return keys


def _key(path: Path, entry: KeyEntry, environment: Mapping[str, str]) -> ApiKey:
    if entry.env is not None:
        return key_of_environment(entry.env, environment)
    return key_of_file(path.parent / (entry.file or ""))
