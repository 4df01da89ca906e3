"""The web process's entry point: settings -> store -> app -> served until it is asked to stop."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from monikers.catalogue import catalogue, check_config
from monikers.copilot.moniker.studio import Studio
from monikers.errors import MonikerConfigError
from runtime.commands.failing import failed
from runtime.contract import Moniker
from runtime.errors import SettingError
from runtime.guard.sources import process_secrets
from runtime.llm.factory import ModelSettings, model_label
from runtime.logs import configure_logs
from runtime.settings import worker_settings
from store import StoreError, StoreOptions, TenantStore, open_store
from store.clock import SystemClock, SystemIds
from store.heap import keep_heap_small
from web.catalogue import ConfigError, ModelInfo, MonikerEntry
from web.child import ChildProcess
from web.factory import create_app
from web.ports import free_port
from web.server import serve
from web.settings import SettingsError, read_settings


@click.command()
@click.option("--host", default=None, help="Address to serve on; STEPWELL_HOST otherwise.")
@click.option("--port", type=int, default=None, help="Port, or the next free one; STEPWELL_PORT otherwise.")
@click.option("--with-worker", is_flag=True, help="Also run agents.py as a child process.")
def main(host: str | None, port: int | None, with_worker: bool) -> None:
    """Serve the Stepwell dashboard and API."""
    try:
        _serve(host, port, with_worker=with_worker)
    except (SettingError, SettingsError, StoreError, OSError) as error:
        sys.exit(failed(error, 2, "app.py"))


def _serve(host: str | None, port: int | None, *, with_worker: bool) -> None:
    keep_heap_small()
    settings, common, model, redact = read_settings(), worker_settings(), ModelSettings(), process_secrets().redact
    configure_logs(common.log_format, common.log_level, redact)
    address = host or settings.host
    chosen = free_port(address, settings.port if port is None else port)
    settings = settings.model_copy(update={"host": address, "port": chosen})
    label = ModelInfo(label=model_label(model), offline=model.offline)

    async def open_db() -> TenantStore:
        options = StoreOptions(common.data, settings.store_patience_s, common.fsync, common.ask_s)
        return (await open_store(options, clock=SystemClock(), ids=SystemIds())).tenant()

    web = create_app(settings, open_db, {str(one.name): _entry(one) for one in catalogue()}, label, redact, Studio())
    worker = ChildProcess([sys.executable, str(Path(__file__).with_name("agents.py")), "--until-stdin-closes"])
    if with_worker:
        worker.start()
    click.echo(f"Stepwell is at http://{address}:{chosen} (model: {label.label})")
    try:
        serve(web)
    finally:
        worker.stop()


def _entry(moniker: Moniker[Any]) -> MonikerEntry:
    def check(config: dict[str, Any], task: str) -> dict[str, Any]:
        try:
            return check_config(moniker, config, task).model_dump(mode="json")
        except MonikerConfigError as error:
            raise ConfigError(error.errors) from error

    name, schema = str(moniker.name), moniker.config_model.model_json_schema()
    return MonikerEntry(name, moniker.summary, schema, moniker.example, moniker.task_field, moniker.stop_on_done, check)


if __name__ == "__main__":
    main()
