"""With an endpoint in the settings the agents really ask it, and nothing says "offline" any more."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest

from tests.processes import start_dashboard
from tests.remote import Api
from tests.standin import stand_in

pytestmark = [pytest.mark.process, pytest.mark.slow]


async def test_agents_ask_the_endpoint_of_the_settings(tmp_path: Path) -> None:
    async with stand_in() as endpoint:
        model = {"OPENAI_BASE_URL": endpoint.url, "OPENAI_MODEL": "stand-in-1"}
        dashboard = await start_dashboard(tmp_path, model, with_worker=True)
        try:
            assert "(model: stand-in-1)" in dashboard.output()
            assert (await Api(dashboard.url).get("/frame"))["model"] == {"label": "stand-in-1", "offline": False}
            assert '<p class="notice" data-model hidden>' in await _page(dashboard.url)
            await _tell_jokes_and_work(Api(dashboard.url))
        finally:
            dashboard.end()
    assert {request["model"] for request in endpoint.asked} == {"stand-in-1"}
    assert endpoint.asked_for("comedian") == 2
    assert endpoint.asked_for("Mend the stairs") == 1


async def _tell_jokes_and_work(api: Api) -> None:
    joke = await api.start("joke", task="buckets", config={"interval_s": 0}, max_steps=2)
    prompted = await api.start("prompted", task="Mend the stairs")
    told = await api.becomes(joke, "stopped")
    assert told["reason"] == "max_steps 2 reached"
    usage = told["usage"]
    assert (usage["calls"], usage["input_tokens"], usage["output_tokens"]) == (2, 22, 14)
    assert all("of the stand-in" in step["text"] for step in await api.steps(joke))
    await api.becomes(prompted, "done")
    assert [step["text"] for step in await api.steps(prompted)] == ["The stand-in did this step."]


async def _page(url: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/sessions") as answer:
        return await answer.text()
