"""A stand-in for the model and for a tool, over HTTP: they answer with a number and note who asked when.

A request to the model may fail in the ways that providers fail, at most twice in a row for one call, so that a client
that tries again gets through.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from aiohttp import web

from chaos.ledger import Ask, CallId, Effect, Ledger, ModelFault
from runtime.llm.port import ChatMessage, read_data_block

HOST = "127.0.0.1"
_HANG_S = 2.0
_FASTEST_S, _SLOWEST_S = 0.01, 0.12
_MOST_FAULTS = 2
_FAULTS = (ModelFault.RATE_LIMIT, ModelFault.SERVER, ModelFault.HANG, ModelFault.CUT)


class StandIn:
    """The two servers. `share` of the requests to the model fail."""

    def __init__(self, ledger: Ledger, *, seed: int, share: float) -> None:
        self._ledger = ledger
        self._chance = random.Random(seed)
        self._share = share
        self._serials = count(1)
        self._failed: Counter[CallId] = Counter()
        self.model_url = ""
        self.tool_url = ""

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """Answer a chat completion with the request's number, or fail it."""
        body = await request.json()
        ask = Ask(next(self._serials), _call_of(body["messages"]), str(body["model"]), time.monotonic())
        ask.fault = self._fault_for(ask.call)
        self._ledger.asks.append(ask)
        await asyncio.sleep(self._chance.uniform(_FASTEST_S, _SLOWEST_S))
        match ask.fault:
            case ModelFault.NONE:
                # Noted before the answer leaves: what was asked next was asked later.
                ask.answered_at = time.monotonic()
                return web.json_response(_completion(ask))
            case ModelFault.RATE_LIMIT:
                return web.json_response({"error": {"message": "slow down"}}, status=429, headers={"Retry-After": "0"})
            case ModelFault.SERVER:
                return web.json_response({"error": {"message": "oops"}}, status=500)
            case ModelFault.HANG:
                await asyncio.sleep(_HANG_S)
                return _hang_up(request)
            case ModelFault.CUT:
                return await _half(request, ask)

    async def act(self, request: web.Request) -> web.Response:
        """Have an effect, whatever the key: counting them is the point."""
        body = await request.json()
        effect = Effect(next(self._serials), str(body["key"]), str(body["worker"]), time.monotonic())
        self._ledger.effects.append(effect)
        await asyncio.sleep(self._chance.uniform(0, _FASTEST_S))
        return web.json_response({"serial": effect.serial})

    def _fault_for(self, call: CallId) -> ModelFault:
        if self._failed[call] >= _MOST_FAULTS or self._chance.random() >= self._share:
            return ModelFault.NONE
        self._failed[call] += 1
        return self._chance.choice(_FAULTS)


def _call_of(messages: Sequence[dict[str, str]]) -> CallId:
    asked = [ChatMessage(role="user", content=message["content"]) for message in messages if message["role"] == "user"]
    who = read_data_block(asked) or {}
    return CallId(str(who["session"]), int(who["iteration"]), int(who["call"]))


def _completion(ask: Ask) -> dict[str, Any]:
    message = {"role": "assistant", "content": str(ask.serial)}
    usage = {"prompt_tokens": 7, "completion_tokens": 1}
    return {
        "model": ask.worker,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": usage,
    }


def _hang_up(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.close()
    return web.Response()


async def _half(request: web.Request, ask: Ask) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "1000"})
    try:
        await response.prepare(request)
        await response.write(str(_completion(ask)).encode()[:40])
    except ConnectionError:
        return response  # the worker that asked is dead
    if request.transport is not None:
        request.transport.close()
    return response


@web.middleware
async def _of_the_living(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Whoever was killed while it asked, or was answered, needs no answer and no traceback."""
    try:
        return await handler(request)
    except ConnectionError:
        return _hang_up(request)


@asynccontextmanager
async def stand_in(ledger: Ledger, *, seed: int, share: float) -> AsyncIterator[StandIn]:
    """Running stand-ins."""
    it = StandIn(ledger, seed=seed, share=share)
    app = web.Application(middlewares=[_of_the_living])
    app.router.add_post("/v1/chat/completions", it.chat)
    app.router.add_post("/tool", it.act)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, 0, backlog=1024).start()
        root = f"http://{HOST}:{runner.addresses[0][1]}"
        it.model_url, it.tool_url = f"{root}/v1", f"{root}/tool"
        yield it
    finally:
        await runner.cleanup()
