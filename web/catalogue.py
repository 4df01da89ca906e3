"""What the web process knows of each moniker. The entry point fills it; nothing here imports or runs a moniker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FieldErrors = Sequence[Mapping[str, str]]


class ConfigError(ValueError):
    """A config does not fit its moniker; `errors` is a list of `{"field", "message"}`."""

    def __init__(self, errors: FieldErrors) -> None:
        super().__init__("; ".join(f"{error['field']}: {error['message']}" for error in errors))
        self.errors = tuple(dict(error) for error in errors)


@dataclass(frozen=True, slots=True)
class MonikerEntry:
    """One moniker, as the pages and the API show it."""

    name: str
    summary: str
    #: JSON Schema of the config
    config_schema: Mapping[str, Any]
    #: a config to begin with
    example: Mapping[str, Any]
    #: the config field that `task` fills when it was left out
    task_field: str | None
    #: whether a session ends when the moniker says done, unless the request says otherwise
    stop_on_done: bool
    #: (config, task) -> the config with its defaults; raises `ConfigError`
    check: Callable[[dict[str, Any], str], Mapping[str, Any]]


Catalogue = Mapping[str, MonikerEntry]


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The language model, for people. `offline`: none is configured and the built-in one answers."""

    label: str
    offline: bool
