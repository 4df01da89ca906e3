"""Which monikers there are, by name, and whether a config fits one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from monikers.copilot.moniker import COPILOT
from monikers.echo import ECHO
from monikers.errors import MonikerConfigError, UnknownMonikerError, field_errors
from monikers.joke import JOKE
from monikers.prompted import PROMPTED
from monikers.research import RESEARCH
from monikers.summarize import SUMMARIZE
from runtime.contract import Moniker, MonikerName


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The monikers that a worker can run. Iterating gives them in the order in which they were listed."""

    entries: Mapping[MonikerName, Moniker[Any]]

    @classmethod
    def of(cls, *monikers: Moniker[Any]) -> Catalogue:
        """A catalogue of these monikers.

        Raises `ValueError` when two share a name.
        """
        entries = {moniker.name: moniker for moniker in monikers}
        if len(entries) != len(monikers):
            raise ValueError(f"two monikers share a name: {[str(moniker.name) for moniker in monikers]}")
        return cls(entries)

    def get(self, name: str) -> Moniker[Any]:
        """The moniker of this name; raises `UnknownMonikerError`, which lists the known ones."""
        try:
            return self.entries[MonikerName(name)]
        except KeyError:
            raise UnknownMonikerError(name, self.entries) from None

    def check(self, moniker: Moniker[Any], config: Mapping[str, Any] | None, task: str) -> BaseModel:
        """See `check_config`."""
        return check_config(moniker, config, task)

    def names(self) -> tuple[MonikerName, ...]:
        """Every name, in order."""
        return tuple(self.entries)

    def __iter__(self) -> Iterator[Moniker[Any]]:
        return iter(self.entries.values())

    def __len__(self) -> int:
        return len(self.entries)


def catalogue() -> Catalogue:
    """The monikers that ship with the product."""
    return Catalogue.of(ECHO, JOKE, SUMMARIZE, RESEARCH, PROMPTED, COPILOT)


def check_config(moniker: Moniker[Any], config: Mapping[str, Any] | None, task: str) -> BaseModel:
    """The config as the moniker's own model, with `task` in the moniker's task field when that was left out.

    Raises `MonikerConfigError`, whose `errors` names every wrong field.
    """
    given = dict(config or {})
    if moniker.task_field and task.strip() and given.get(moniker.task_field) is None:
        given[moniker.task_field] = task
    try:
        checked: BaseModel = moniker.config_model.model_validate(given)
    except ValidationError as error:
        raise MonikerConfigError(moniker.name, field_errors(error.errors())) from error
    return checked
