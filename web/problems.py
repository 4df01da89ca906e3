"""Errors as people and programs get them: one record, and the one table from an error to its status."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final

from pydantic import ValidationError
from werkzeug.exceptions import HTTPException

from store import (
    BadFilterError,
    BadRowError,
    ConflictError,
    NotFoundError,
    StoreTooNewError,
    StoreUnavailableError,
)
from store.limits import BadLimitsError
from web.catalogue import ConfigError

PROBLEM_TYPE: Final = "application/problem+json"
RETRY_AFTER_S: Final = 2


@dataclass(frozen=True, slots=True)
class Problem:
    """An RFC 9457 problem."""

    status: int
    detail: str
    errors: Sequence[Mapping[str, str]] = ()
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return HTTPStatus(self.status).phrase

    def without(self, redact: Callable[[str], str]) -> Problem:
        """The problem in words that passed `redact`."""
        errors = [{name: redact(text) for name, text in error.items()} for error in self.errors]
        return replace(self, detail=redact(self.detail), errors=errors)

    def body(self, instance: str) -> dict[str, Any]:
        """The JSON of this problem; `instance` is the path that was asked for."""
        slug = self.title.lower().replace(" ", "-")
        found: dict[str, Any] = {
            "type": f"urn:stepwell:problem:{slug}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "instance": instance,
        }
        return {**found, "errors": [dict(error) for error in self.errors]} if self.errors else found


class RefusedError(Exception):
    """A request that is answered with `problem`."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


def refused(status: int, detail: str, *, errors: Sequence[Mapping[str, str]] = ()) -> RefusedError:
    """The error to raise to answer with `status`."""
    return RefusedError(Problem(status, detail, errors))


def problem_of(error: Exception) -> Problem | None:
    """What to answer for `error`; None for one that nobody foresaw."""
    match error:
        case RefusedError():
            return error.problem
        case NotFoundError():
            return Problem(404, str(error))
        case ConflictError():
            return Problem(409, str(error))
        case BadRowError():
            return Problem(422, str(error))
        case BadLimitsError():
            return Problem(422, str(error), [{"field": error.field or "limits", "message": str(error)}])
        case BadFilterError():
            return Problem(400, str(error))
        case ConfigError():
            return Problem(422, "the config does not fit the moniker", error.errors)
        case ValidationError():
            return Problem(422, "the body does not have the shape that is expected here", field_errors(error))
        case StoreUnavailableError() | StoreTooNewError() | TimeoutError():
            detail = str(error) or "the store did not answer in time"
            return Problem(503, detail, headers={"Retry-After": str(RETRY_AFTER_S)})
        case HTTPException():
            return _of_http(error)
        case _:
            return None


def unforeseen() -> Problem:
    """The answer for a fault of ours; what went wrong stands in the log, not in the answer."""
    return Problem(500, "something went wrong here; the log of the web process says what")


def field_errors(error: ValidationError) -> list[dict[str, str]]:
    """What pydantic found, as `{"field", "message"}`."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [{"field": ".".join(str(part) for part in item["loc"]), "message": item["msg"]} for item in found]


def _of_http(error: HTTPException) -> Problem:
    headers = {name: value for name, value in error.get_headers() if name.lower() in {"allow", "retry-after"}}
    return Problem(error.code or 500, error.description or "", headers=headers)
