"""A web process over a store in a temporary folder, without a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from store import TenantStore
from tests.web.kit import CATALOGUE, MODEL, Caller, opener
from web.factory import Web, create_app
from web.settings import AsyncMode, WebSettings


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    """The web process in threading mode."""
    made = create_app(WebSettings(async_mode=AsyncMode.THREADING), opener(tmp_path / "data"), CATALOGUE, MODEL)
    yield made
    made.close()


@pytest.fixture
def db(web: Web) -> TenantStore:
    """Its store; use it through `run`."""
    return web.db


@pytest.fixture
def run(web: Web) -> Callable[[Any], Any]:
    """Runs a coroutine on the store's loop."""
    return web.bridge.run


@pytest.fixture
def api(web: Web) -> Caller:
    """A client of its API."""
    return Caller(web.app.test_client())
