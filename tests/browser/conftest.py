"""One Chromium and one dashboard with a worker for all browser tests, gone after the last of them; a tab for each."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright, expect

from scripts.chromium import RULE, find_chromium
from tests.browser.tab import PATIENCE_MS, Tab, new_tab
from tests.processes import HOST, QUICK, Dashboard, start_dashboard
from tests.remote import Api

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    f"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE {HOST}",  # there is no other host in the world
]


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Chromium, without a window."""
    program = find_chromium()
    if program is None:
        missing = f"\n{RULE}\nNO CHROMIUM: no browser test runs. Install Chromium or Google Chrome.\n{RULE}"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    expect.set_options(timeout=PATIENCE_MS)
    async with async_playwright() as driver:
        chromium = await driver.chromium.launch(executable_path=program, args=FLAGS)
        yield chromium
        await chromium.close()


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def dashboard(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> AsyncIterator[Dashboard]:
    """`app.py --with-worker`; started only when there is a browser to look at it."""
    running = await start_dashboard(tmp_path_factory.mktemp("browser"), QUICK, with_worker=True)
    yield running
    running.end()


@pytest.fixture(scope="package")
def api(dashboard: Dashboard) -> Api:
    """Its API."""
    return Api(dashboard.url)


@pytest_asyncio.fixture(loop_scope="session")
async def tab(browser: Browser, dashboard: Dashboard) -> AsyncIterator[Tab]:
    """A tab on the dashboard; the test fails when its page complained about anything."""
    async with new_tab(browser, dashboard.url) as fresh:
        yield fresh
        await fresh.healthy()
