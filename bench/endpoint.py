"""A model's endpoint for a figure: an OpenAI-compatible server in this process that answers as the figure needs it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

_HOST = "127.0.0.1"


@asynccontextmanager
async def endpoint(answer: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    """The address of a server whose chat completions are made by `answer`."""
    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, _HOST, 0)
    await site.start()
    try:
        yield f"http://{_HOST}:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()
