"""One model for a library that is told its key: no settings, no store, and offline where there is nobody to ask.

As in runtime/llm/factory.py the client of endpoints is loaded by whoever has one to ask.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from runtime.llm.offline import OFFLINE_LABEL, OfflineModel
from runtime.llm.port import ChatModel


@runtime_checkable
class _Closable(Protocol):
    async def aclose(self) -> None: ...


def json_model(*, base_url: str | None, api_key: str | None, model: str, attempts: int) -> ChatModel:
    """One model for answers in JSON: at an endpoint, tried `attempts` times, or offline without a key and an endpoint.

    The endpoint is bound to JSON rather than to a schema. Opens no connection; the first call does.
    """
    if model == OFFLINE_LABEL or (api_key is None and base_url is None):
        return OfflineModel()
    from runtime.llm.dialect import Dialect
    from runtime.llm.openai_chat import OpenAiChat

    dialect = Dialect("json_object", limit="max_completion_tokens" if base_url is None else "max_tokens")
    return OpenAiChat(base_url=base_url, api_key=api_key, model=model, attempts=attempts, dialect=dialect)


async def close_model(model: ChatModel) -> None:
    """Close the connections of a model that `json_model` made."""
    if isinstance(model, _Closable):
        await model.aclose()
