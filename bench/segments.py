"""From a segment of a live conversation to the advice at a subscribed client: four processes, the model's time too.

The endpoint answers at once, so what is left is ours: the post, the queue, the turn with its records, the step, the way
to the browser. Five agents are asked for each segment, one of them has something to say.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import socketio
from aiohttp import web

from bench.endpoint import endpoint
from bench.latency import served
from bench.machine import emit, summary_ms
from bench.processes import folder, opened, worker_ready

_AGENTS = 5
_ADVISER = "AGENT 0"
#: seconds between two segments of one conversation
_PAUSE_S = 2.0
_PATIENCE_S = 60.0


async def segments(count: int, conversations: int) -> None:
    """Print the figures for so many conversations at once with so many segments each."""
    with folder() as path:
        async with (
            _endpoint() as url,
            opened(path) as store,
            served(path, OPENAI_BASE_URL=url, STEPWELL_MODEL="advice") as address,
        ):
            await worker_ready(store)
            told, stored = await _advised(address, count, conversations)
    for figure, taken in (("segment_to_insight", told), ("segment_to_stored_insight", stored)):
        emit(figure, path.parent, conversations=conversations, agents=_AGENTS, **summary_ms(taken))


async def _advised(address: str, count: int, conversations: int) -> tuple[list[float], list[float]]:
    posted: dict[str, float] = {}
    told: dict[str, float] = {}
    stored: dict[str, float] = {}

    def heard(insight: Mapping[str, Any]) -> None:
        (stored if insight["stored"] else told).setdefault(insight["content"], time.monotonic())

    client = socketio.AsyncClient()
    client.on("insight", heard)
    await client.connect(address, transports=["websocket"])
    async with aiohttp.ClientSession() as http:
        for number in range(conversations):
            await _begin(http, address, number)
            await client.call("subscribe", {"session_id": f"s{number}"})
        speaking = [_speak(http, address, number, count, posted, conversations) for number in range(conversations)]
        await asyncio.gather(*speaking)
        async with asyncio.timeout(_PATIENCE_S):
            while len(stored) < len(posted):
                await asyncio.sleep(0.05)
    await client.disconnect()
    return _since(posted, told), _since(posted, stored)


def _since(posted: Mapping[str, float], seen: Mapping[str, float]) -> list[float]:
    return [seen[key] - began for key, began in posted.items() if key in seen]


async def _begin(http: aiohttp.ClientSession, address: str, number: int) -> None:
    agents = [
        {"id": f"agent{one}", "name": f"Agent {one}", "text": f"AGENT {one}", "trigger_config": {"cooldown": 0}}
        for one in range(_AGENTS)
    ]
    await _post(http, f"{address}/api/conversations", {"conversation_id": f"c{number}"})
    session = {"moniker": "copilot", "session_id": f"s{number}", "conversation_id": f"c{number}"}
    await _post(http, f"{address}/api/agents", {**session, "config": {"agents": agents}})


async def _speak(
    http: aiohttp.ClientSession, address: str, number: int, count: int, posted: dict[str, float], conversations: int
) -> None:
    await asyncio.sleep(1 + _PAUSE_S * number / conversations)
    for place in range(count):
        text = f"conversation {number} segment {place}"
        posted[text] = time.monotonic()
        await _post(http, f"{address}/api/conversations/c{number}/messages", {"speaker": "ANN", "text": text})
        await asyncio.sleep(_PAUSE_S)


async def _post(http: aiohttp.ClientSession, address: str, body: dict[str, Any]) -> None:
    async with http.post(address, json=body) as answer:
        answer.raise_for_status()


@asynccontextmanager
async def _endpoint() -> AsyncIterator[str]:
    """An OpenAI-compatible endpoint whose advice is the last thing that was said."""

    async def answer(request: web.Request) -> web.StreamResponse:
        system, said = (message["content"] for message in (await request.json())["messages"][:2])
        last = json.loads(said[said.index("<data>") + 6 : said.index("</data>")])["transcript"][-1]
        content = {"has_insight": _ADVISER in system, "content": last.removeprefix("ANN: ")}
        choice = {"message": {"role": "assistant", "content": json.dumps(content)}, "finish_reason": "stop"}
        return web.json_response({"model": "advice", "choices": [choice]})

    async with endpoint(answer) as url:
        yield url
