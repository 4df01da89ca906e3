"""What the settings say about keeping: how much history stays, and how long old versions do."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from runtime.settings import WorkerSettings
from runtime.tools.deployment import workspaces_of
from runtime.tools.workspace.keeping import WorkspaceKeeper
from store.database import TenantStore
from store.options import StoreOptions
from store.retention import RetentionRules
from store.upkeep import UpkeepRules


def upkeep_rules(settings: WorkerSettings) -> UpkeepRules:
    """The rules of a worker's upkeep."""
    return UpkeepRules(keep=timedelta(seconds=settings.keep_versions_s), retention=retention_rules(settings))


def retention_rules(settings: WorkerSettings) -> RetentionRules:
    """The rules of its retention; 0 in a setting keeps everything."""
    return RetentionRules(
        steps_age=_unless_zero(timedelta(days=settings.keep_steps_days)),
        steps_count=settings.keep_steps_count,
        events_age=_unless_zero(timedelta(seconds=settings.keep_events_s)),
        queue_age=_unless_zero(timedelta(days=settings.keep_queue_days)),
        traces_age=_unless_zero(timedelta(days=settings.keep_traces_days)),
    )


def workspace_keeper(db: TenantStore, settings: WorkerSettings, log: Any) -> WorkspaceKeeper | None:
    """Who removes old workspaces; None where all are kept, or there are none."""
    keep = _unless_zero(timedelta(days=settings.keep_workspaces_days))
    workspaces = workspaces_of(settings.tools_file, StoreOptions(settings.data).folder)
    return None if keep is None or workspaces is None else WorkspaceKeeper(db, workspaces, keep, log)


def _unless_zero(age: timedelta) -> timedelta | None:
    return age if age else None
