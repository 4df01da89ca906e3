"""The worker's settings: the environment's `STEPWELL_*`, read once at start into a frozen record."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from runtime.errors import SettingError

_Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class WorkerSettings(BaseSettings):
    """How a worker runs. Every field is the setting `STEPWELL_<FIELD>`."""

    model_config = SettingsConfigDict(env_prefix="STEPWELL_", frozen=True, extra="ignore")

    #: a folder, or an object-store URL
    data: str = "./data"
    #: folders that monikers may read files from, separated like PATH
    files: str = "."
    log_format: Literal["text", "json"] = "text"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    #: projections are at most this far behind the journal
    projection_s: _Seconds = 0.25
    heartbeat_s: _Seconds = 2.0
    #: a running step has this long to finish when its session is destroyed
    stop_grace_s: _Seconds = 5.0
    #: running steps have this long to finish when the worker stops
    drain_s: _Seconds = 20.0
    #: a wait shorter than this stays in memory
    hold_s: _Seconds = 30.0
    #: an action in hand for longer is shown as claimed
    claim_after_s: _Seconds = 0.5
    #: a write is tried again for this long before its session gives up
    patience_s: _Seconds = 3600.0
    #: <point>:<n> kills the process there, for tests
    crash_at: str | None = None

    @property
    def file_roots(self) -> list[Path]:
        """The folders in `files`."""
        return [Path(part) for part in self.files.split(os.pathsep) if part]


def worker_settings() -> WorkerSettings:
    """The settings in the environment; raises `SettingError` that names a bad key, its value and the cure."""
    try:
        return WorkerSettings()
    except ValidationError as error:
        raise SettingError(
            "; ".join(_explain(item["loc"], item["input"], item["msg"]) for item in error.errors())
        ) from error


def _explain(loc: tuple[int | str, ...], value: object, message: str) -> str:
    return f"STEPWELL_{'_'.join(map(str, loc)).upper()}={value!r}: {message}"
