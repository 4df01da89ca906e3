"""The ways in which choosing and configuring a moniker can fail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from runtime.contract import MonikerInputError

FieldErrors = list[dict[str, str]]


class UnknownMonikerError(MonikerInputError):
    """No moniker of this name is in the catalogue."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"there is no moniker {name!r}; known monikers: {', '.join(sorted(known))}")
        self.name = name


class MonikerConfigError(MonikerInputError):
    """A config does not fit its moniker; `errors` says what is wrong, field by field."""

    def __init__(self, moniker: str, errors: FieldErrors) -> None:
        listed = "; ".join(f"{error['field']}: {error['message']}" for error in errors)
        super().__init__(f"the config of {moniker!r} cannot be used: {listed}")
        self.moniker = moniker
        self.errors = errors


def field_errors(found: Iterable[Mapping[str, Any]]) -> FieldErrors:
    """Pydantic's error list as `[{"field", "message"}]`; an error of the whole object has the field "config"."""
    return [{"field": _field(error), "message": str(error["msg"]).removeprefix("Value error, ")} for error in found]


def _field(error: Mapping[str, Any]) -> str:
    return ".".join(str(part) for part in error["loc"]) or "config"
