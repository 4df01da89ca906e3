"""From a piece of text at the worker's door to a subscribed client: three processes and an endpoint that is slow.

Each piece is the moment at which the endpoint wrote it, on the clock that all processes of a machine share, so the
figure holds the way over loopback to the worker too. The first piece of a stream is stored at once, those behind it
wait for the next commit, 50 ms after the last one began at most.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import socketio
from aiohttp import web

from bench.endpoint import endpoint
from bench.latency import served
from bench.machine import emit, summary_ms
from bench.processes import eventually, folder, opened, worker_ready
from store.agent_events import events_of
from store.database import Store

_QUOTE = "Stepwells kept water through the dry months."
_CONFIG: dict[str, Any] = {"question": "What did stepwells do?", "documents": [{"title": "A", "text": _QUOTE}]}
_PAUSE_S = 0.03
_SETTLE_S = 1.0


async def tokens(pieces: int, sessions: int) -> None:
    """Print the figure for so many sessions that stream so many pieces each, all at once."""
    with folder() as path:
        async with (
            _endpoint(pieces) as url,
            opened(path) as store,
            served(path, OPENAI_BASE_URL=url, STEPWELL_MODEL="slow") as address,
        ):
            await worker_ready(store)
            taken, commits_per_s = await _watched(address, store, sessions, pieces)
    emit(
        "token_to_client",
        path.parent,
        sessions=sessions,
        pieces_per_s=round(sessions / _PAUSE_S),
        commits_per_s=round(commits_per_s, 1),
        **summary_ms(taken),
    )


async def _watched(address: str, store: Store, sessions: int, pieces: int) -> tuple[list[float], float]:
    taken: list[float] = []
    ended: set[str] = set()

    def heard(event: dict[str, Any]) -> None:
        now = time.monotonic()
        text = event["data"]["text"]
        taken.extend(now - float(moment) for moment in text.split("|") if moment)

    client = socketio.AsyncClient()
    client.on("token", heard)
    client.on("step", lambda step: ended.add(step["session_id"]) if step["status"] == "done" else None)
    await client.connect(address, transports=["websocket"])
    async with aiohttp.ClientSession() as http:
        for number in range(sessions):
            body = {"moniker": "research", "config": _CONFIG, "session_id": f"s{number}"}
            async with http.post(f"{address}/api/agents", json=body) as answer:
                answer.raise_for_status()
            await client.call("subscribe", {"session_id": f"s{number}"})
    events = events_of(store.tenant())
    before, began = await events.version(), time.monotonic()

    async def all_ended() -> bool:
        return len(ended) == sessions

    await eventually(all_ended, 60 + pieces * _PAUSE_S * 10)
    rate = (await events.version() - before) / (time.monotonic() - began)
    await asyncio.sleep(_SETTLE_S)
    await client.disconnect()
    return taken, rate


@asynccontextmanager
async def _endpoint(pieces: int) -> AsyncIterator[str]:
    """An OpenAI-compatible endpoint whose reports are streams of moments."""

    async def answer(request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        if asked.get("stream"):
            return await _streamed(request, pieces)
        planned = "sub-questions that documents could answer" in json.dumps(asked["messages"])
        found = {"findings": [{"claim": "They kept water.", "quote": _QUOTE}]}
        content = json.dumps({"sub_questions": ["What?"]} if planned else found)
        choice = {"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
        return web.json_response({"model": "slow", "choices": [choice]})

    async with endpoint(answer) as url:
        yield url


async def _streamed(request: web.Request, pieces: int) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for _ in range(pieces):
        await asyncio.sleep(_PAUSE_S)
        await response.write(_event({"delta": {"content": f"{time.monotonic():.6f}|"}, "finish_reason": None}))
    await response.write(_event({"delta": {}, "finish_reason": "stop"}))
    await response.write(b"data: [DONE]\n\n")
    return response


def _event(choice: dict[str, Any]) -> bytes:
    return f"data: {json.dumps({'model': 'slow', 'choices': [{'index': 0, **choice}]})}\n\n".encode()
