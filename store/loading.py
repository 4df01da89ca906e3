"""Loads LanceDB without what nothing here uses: the first import of this package.

LanceDB brings the client of remote catalogues, whose 366 functions each build a check of their arguments as they are
defined. That is a third of the time that LanceDB takes to load, in every process. Here a check is built when its
function is first called, and is then the same check.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import pydantic

P = ParamSpec("P")
R = TypeVar("R")

_validate_call = pydantic.validate_call


def checked_when_called(function: Callable[P, R]) -> Callable[P, R]:
    """As `pydantic.validate_call`, but the check is built by the first call."""

    @functools.cache
    def checked() -> Callable[P, R]:
        return _validate_call(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return checked()(*args, **kwargs)

    return call


pydantic.validate_call = checked_when_called  # type: ignore[assignment]
try:
    import lancedb as lancedb
finally:
    pydantic.validate_call = _validate_call
