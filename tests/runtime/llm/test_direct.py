"""A model for a library that is told its key: offline with nobody to ask, else one model at one endpoint."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from runtime.llm.direct import close_model, json_model
from runtime.llm.offline import OfflineModel
from runtime.llm.openai_chat import OPENAI_URL, OpenAiChat
from runtime.llm.port import ChatMessage, ChatRequest
from tests.llmserver import llm_server, said

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("key", "url", "model"), [(None, None, "m"), ("k", None, "offline"), ("k", "http://x", "offline")]
)
def test_with_nobody_to_ask_it_is_offline(key: str | None, url: str | None, model: str) -> None:
    assert isinstance(json_model(base_url=url, api_key=key, model=model, attempts=1), OfflineModel)


@pytest.mark.parametrize(
    ("key", "url", "asked"), [("k", None, OPENAI_URL), (None, "http://127.0.0.1:1/v1", "http://127.0.0.1:1/v1")]
)
async def test_a_key_or_an_endpoint_is_enough(key: str | None, url: str | None, asked: str) -> None:
    model = json_model(base_url=url, api_key=key, model="m", attempts=1)
    assert isinstance(model, OpenAiChat)
    assert str(model._client.base_url).rstrip("/") == asked
    await close_model(model)


async def test_it_is_bound_to_json_at_once() -> None:
    request = ChatRequest(
        purpose="p", messages=(ChatMessage(role="user", content="Hi"),), json_schema={"type": "object"}
    )
    async with llm_server() as server:
        model = json_model(base_url=server.url, api_key="k", model="m", attempts=1)
        server.script(said("{}"))
        await model.chat(request)
        assert server.asked[0].body["response_format"] == {"type": "json_object"}
        await close_model(model)


def test_neither_the_store_nor_the_client_is_loaded_before_it_is_needed() -> None:
    heavy = "('openai', 'store', 'lancedb')"
    code = f"import sys, runtime.llm.direct; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
