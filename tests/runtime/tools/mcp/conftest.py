"""A fresh store for each test of the MCP client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from store.clock import SystemClock, SystemIds
from store.database import TenantStore, open_store
from store.options import StoreOptions


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[TenantStore]:
    """The main tenant of a fresh store."""
    store = await open_store(StoreOptions(str(tmp_path / "data")), clock=SystemClock(), ids=SystemIds())
    yield store.tenant()
    await store.close()
