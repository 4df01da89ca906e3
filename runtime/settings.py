"""The worker's settings: the environment's `STEPWELL_*`, read once at start into a frozen record."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from runtime.errors import SettingError

_Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
#: a hundred years at most: a date cannot be moved by much more
_Days = Annotated[float, Field(ge=0, le=36_500)]
_Age = Annotated[float, Field(ge=0, le=3_000_000_000)]


class WorkerSettings(BaseSettings):
    """How a worker runs. Every field is the setting `STEPWELL_<FIELD>`."""

    model_config = SettingsConfigDict(env_prefix="STEPWELL_", frozen=True, extra="ignore")

    #: a folder, or an object-store URL
    data: str = "./data"
    #: folders that monikers may read files from, separated like PATH
    files: str = "."
    #: which tools there are and who may use them (runtime/tools/toolsfile.py); "" is the default set
    tools: str = ""
    #: how programs of models are walled in (`ctx.sandbox`)
    sandbox: Literal["light", "full"] = "light"
    #: so many programs run at once in a worker
    sandbox_runs: Annotated[int, Field(ge=1, le=1000)] = 2
    #: seals suspended programs, in hexadecimal; without it the key is in a file of the data folder
    seal_key: SecretStr | None = None
    log_format: Literal["text", "json"] = "text"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    #: projections are at most this far behind the journal
    projection_s: _Seconds = 0.25
    heartbeat_s: _Seconds = 2.0
    #: a worker that was not heard of for so long loses its sessions to the others
    lease_s: _Seconds = 8.0
    #: sessions pass something on to each other so often at most: agents that delegate in circles come to an end
    max_hops: Annotated[int, Field(ge=1, le=10_000)] = 25
    #: a step during which more workers than this were lost is not tried again by itself
    max_losses: Annotated[int, Field(ge=1, le=1000)] = 10
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
    #: a step that fails for a cause that may pass, or an action whose handler breaks, is tried so often
    max_attempts: Annotated[int, Field(ge=1, le=1000)] = 5
    #: the limit of the first delay between two tries; it doubles with each
    retry_base_s: _Seconds = 0.5
    #: no delay between two tries is longer
    retry_cap_s: _Seconds = 60.0
    #: so many actions are tried again in a second
    retries_per_s: _Seconds = 20.0
    #: so many steps run at a time; 0 is no limit
    max_running: Annotated[int, Field(ge=0)] = 0
    #: a commit is acknowledged only when it would survive a power cut
    fsync: bool = False
    #: a session's steps older than this are deleted; 0 keeps them for ever
    keep_steps_days: _Days = 0.0
    #: so many newest steps of a session are kept; 0 keeps all
    keep_steps_count: Annotated[int, Field(ge=0)] = 0
    #: events older than this are deleted; 0 keeps them for ever
    keep_events_s: _Age = 3600.0
    #: actions processed longer ago are deleted; 0 keeps them for ever
    keep_queue_days: _Days = 30.0
    #: traces of turns that ended longer ago are deleted; 0 keeps them for ever
    keep_traces_days: _Days = 30.0
    #: files of sessions that ended longer ago are deleted, and those of projects at rest; 0 keeps them for ever
    keep_workspaces_days: _Days = 0.0
    #: readers of an older version of a table have this long to finish
    keep_versions_s: Annotated[float, Field(ge=3, le=3_000_000_000)] = 15.0
    #: a moniker's own function (`ctx.record`) is given up after this long
    record_s: _Seconds = 600.0
    #: the largest result of such a function or of a model call, in bytes of JSON
    record_bytes: Annotated[int, Field(ge=1000, le=1_000_000_000)] = 10_000_000
    #: on object storage: the longest time between two looks for what others committed
    ask_s: _Seconds = 0.5
    #: stored traces are sent to an OpenTelemetry collector, which the standard OTEL_* variables name
    otel: bool = False
    #: <point>:<n> kills the process there, for tests
    crash_at: str | None = None

    @property
    def tools_file(self) -> Path | None:
        """The file in `tools`."""
        return Path(self.tools) if self.tools else None

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
