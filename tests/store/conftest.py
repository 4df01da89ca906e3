"""Every test of the store gets a fresh one on the local disk, with a clock and ids it can foretell."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from store.database import Store, TenantStore, open_store
from store.options import StoreOptions
from store.testing import CountingIds, FrozenClock, TickingClock
from tests.freshstore import put_fresh_store


@pytest.fixture
def clock() -> FrozenClock:
    """Stands still until the test moves it."""
    return FrozenClock()


@pytest.fixture
def ids() -> CountingIds:
    """Gives `id-000001` and so on."""
    return CountingIds()


@pytest.fixture
def options(tmp_path: Path) -> StoreOptions:
    """A folder that does not exist yet, and little patience."""
    return StoreOptions(str(tmp_path / "data"), patience_s=0.2)


@pytest.fixture
async def store(options: StoreOptions, clock: FrozenClock, ids: CountingIds) -> AsyncIterator[Store]:
    """A fresh store whose clock stands still."""
    put_fresh_store(Path(options.url))
    opened = await open_store(options, clock=clock, ids=ids)
    yield opened
    await opened.close()


@pytest.fixture
def db(store: Store) -> TenantStore:
    """The main tenant of a fresh store."""
    return store.tenant()


@pytest.fixture
async def ticking(options: StoreOptions, ids: CountingIds) -> AsyncIterator[TenantStore]:
    """The main tenant of a fresh store in which every row has its own time."""
    put_fresh_store(Path(options.url))
    opened = await open_store(options, clock=TickingClock(), ids=ids)
    yield opened.tenant()
    await opened.close()
