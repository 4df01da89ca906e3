"""A stand-in for an OpenAI-compatible endpoint: a small server that answers and keeps what it was asked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.processes import HOST

STEP = {"step": "1", "next_step": "2", "state": {}, "text": "The stand-in did this step.", "done": True}


@dataclass
class StandIn:
    """What was asked so far, and where to ask."""

    url: str = ""
    asked: list[Any] = field(default_factory=list)
    #: looks at a request first; what it answers is the answer
    judge: Callable[[web.Request], Awaitable[web.Response | None]] | None = None

    def asked_for(self, words: str) -> int:
        """How many requests had these words in their messages."""
        return sum(words in json.dumps(request["messages"]) for request in self.asked)

    async def answer(self, request: web.Request) -> web.Response:
        """A completion: a step's JSON where JSON is asked for, else a numbered joke."""
        body = await request.json()
        self.asked.append(body)
        if self.judge is not None and (refused := await self.judge(request)) is not None:
            return refused
        wants_json = "next_step" in json.dumps(body["messages"])
        text = json.dumps(STEP) if wants_json else f"Joke {len(self.asked)} of the stand-in"
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 11, "completion_tokens": 7}
        return web.json_response({"model": body["model"], "choices": [choice], "usage": usage})


@asynccontextmanager
async def stand_in() -> AsyncIterator[StandIn]:
    """A running stand-in."""
    it = StandIn()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", it.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, HOST, 0)
        await site.start()
        it.url = f"http://{HOST}:{runner.addresses[0][1]}/v1"
        yield it
    finally:
        await runner.cleanup()
