"""A browser tab that keeps a list of everything a healthy page does not do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Dialog, Locator, Page, Request, expect

from tests.processes import HOST, ROOT
from tests.support import eventually

PATIENCE_MS = 40_000
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
# Runs before any script of the page, in every frame: what the page's own policy had to stop.
WATCH_POLICY = """
window.stopped = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.stopped.push(`${event.violatedDirective}: ${event.blockedURI} ${event.sample}`);
});
"""


@dataclass
class Tab:
    """A tab on one dashboard."""

    url: str
    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: int = 0

    async def open(self, path: str) -> Tab:
        """Go to a page and wait until it is live."""
        await self.page.goto(self.url + path)
        await self.is_live()
        return self

    async def is_live(self) -> None:
        """Return once the page has caught up."""
        await expect(self.find("[data-live]")).to_have_attribute("data-live", "live")

    def find(self, selector: str, **filters: Any) -> Locator:
        """Elements of the page."""
        return self.page.locator(selector, **filters)

    async def shows(self, selector: str, words: str) -> None:
        """Return once an element shows these words."""
        await expect(self.find(selector)).to_contain_text(words)

    async def session_is(self, status: str) -> None:
        """Return once a session's page shows this status."""
        await expect(self.find("[data-pill]")).to_have_attribute("data-status", status)

    async def step_count(self) -> int:
        """The counter of a session's page."""
        return int(await self.find("[data-step-count]").inner_text())

    async def has_steps(self, count: int) -> None:
        """Return once a session's page counts so many steps."""

        async def enough() -> bool:
            return await self.step_count() >= count

        await eventually(enough, PATIENCE_MS / 1000, 0.05)

    async def iterations(self) -> list[int]:
        """The numbers of the steps on a session's page, from top to bottom."""
        rows: list[int] = await self.page.evaluate(
            "[...document.querySelectorAll('[data-steps] [data-iteration]')].map((row) => +row.dataset.iteration)"
        )
        return rows

    async def nodes(self) -> int:
        """How many elements the page has."""
        return int(await self.page.evaluate("document.querySelectorAll('*').length"))

    async def healthy(self) -> None:
        """Fail with all that was complained about."""
        stopped: list[str] = await self.page.evaluate("window.stopped ?? []")
        assert not [*self.complaints, *stopped]

    def forgive(self, *words: str) -> None:
        """Drop the complaints with one of these words: what the test has brought about itself."""
        self.complaints[:] = [line for line in self.complaints if not any(word in line for word in words)]

    def watch(self) -> None:
        """Begin to keep complaints."""
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("requestfailed", self._failed)
        self.page.on("request", self._request)
        self.page.on("dialog", self._dialog)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(f"console: {message.text} {message.location.get('url')}")

    def _failed(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # the page was left while it asked
            self.complaints.append(f"failed: {request.url} {request.failure}")

    def _request(self, request: Request) -> None:
        self.requests += 1
        parts = urlsplit(request.url)
        if parts.scheme not in {"data", "blob", "about"} and parts.hostname != HOST:
            self.complaints.append(f"foreign: {request.url}")

    async def _dialog(self, dialog: Dialog) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        await dialog.dismiss()


@asynccontextmanager
async def new_tab(browser: Browser, url: str, **options: Any) -> AsyncIterator[Tab]:
    """A tab with a profile of its own; `options` are those of a browser context."""
    context = await browser.new_context(**{"viewport": {"width": 1400, "height": 900}, **options})
    try:
        yield await tab_in(context, url)
    finally:
        await context.close()


async def tab_in(context: BrowserContext, url: str) -> Tab:
    """One more tab of a profile."""
    context.set_default_timeout(PATIENCE_MS)
    await context.add_init_script(WATCH_POLICY)
    tab = Tab(url, await context.new_page())
    tab.watch()
    return tab


async def barriers(tab: Tab) -> list[str]:
    """What axe finds, as `rule: elements`; the tab has to bypass the page's policy."""
    if not await tab.page.evaluate("'axe' in window"):
        await tab.page.add_script_tag(path=AXE)
    rules: list[str] = await tab.page.evaluate(
        "axe.run().then(({ violations }) =>"
        " violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.target.join(' ')).join(', ')}`))"
    )
    return rules


async def overhang(tab: Tab) -> int:
    """By how many pixels a page scrolls sideways."""
    return int(await tab.page.evaluate("document.documentElement.scrollWidth - innerWidth"))
