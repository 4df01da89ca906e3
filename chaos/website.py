"""A web process for chaos: what app.py serves, with one more moniker to start sessions of."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from chaos.child import begin
from chaos.worker import known_monikers
from monikers.catalogue import check_config
from monikers.errors import MonikerConfigError
from runtime.contract import Moniker
from runtime.logs import configure_logs
from runtime.settings import worker_settings
from store import StoreOptions, TenantStore, open_store
from store.clock import SystemClock, SystemIds
from store.crashpoints import crash_at, no_crash
from web.catalogue import ConfigError, ModelInfo, MonikerEntry
from web.factory import create_app
from web.server import serve
from web.settings import read_settings

_PATIENCE_S = 3.0


def be_website(said: str, settings: Mapping[str, str]) -> None:
    """Serve in this process until it is asked to end."""
    begin(said, settings)
    web_settings, common = read_settings(), worker_settings()
    configure_logs(common.log_format, common.log_level)
    point = crash_at(common.crash_at) if common.crash_at else no_crash

    async def open_db() -> TenantStore:
        options = StoreOptions(common.data, _PATIENCE_S)
        return (await open_store(options, clock=SystemClock(), ids=SystemIds(), crash_point=point)).tenant()

    entries = {str(moniker.name): _entry(moniker) for moniker in known_monikers()}
    serve(create_app(web_settings, open_db, entries, ModelInfo(label="stand-in", offline=False)))
    sys.exit(0)


def _entry(moniker: Moniker[Any]) -> MonikerEntry:
    def check(config: dict[str, Any], task: str) -> dict[str, Any]:
        try:
            return check_config(moniker, config, task).model_dump(mode="json")
        except MonikerConfigError as error:
            raise ConfigError(error.errors) from error

    schema = moniker.config_model.model_json_schema()
    name, example = str(moniker.name), moniker.example
    return MonikerEntry(name, moniker.summary, schema, example, moniker.task_field, moniker.stop_on_done, check)
