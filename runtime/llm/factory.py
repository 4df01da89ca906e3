"""Which models a process uses, chosen by its settings.

The client of endpoints takes a second to load, mostly for types that we do not use. So it is loaded by whoever has an
endpoint to ask: not by the dashboard, and not by a worker with the offline model.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from runtime.llm.models import DEFAULT_MODEL, Models, ModelSettings
from runtime.llm.modelsfile import DEFAULT_ROLE
from runtime.llm.modelsread import KnownModels, read_file
from runtime.llm.offline import OFFLINE_LABEL, OfflineModel
from runtime.llm.port import ChatModel
from runtime.llm.route import routes_of

__all__ = ["DEFAULT_MODEL", "ModelSettings", "Models", "chat_model", "close_chat_model", "model_label", "models_of"]


@runtime_checkable
class _Closable(Protocol):
    async def aclose(self) -> None: ...


def models_of(settings: ModelSettings) -> Models:
    """The models that `settings` ask for. Opens no connection; the first call does.

    Raises `SettingError` when the file of models cannot be used.
    """
    if settings.offline:
        return Models(OfflineModel(), OfflineModel())
    from runtime.llm.served import served_models

    return served_models(settings)


def chat_model(settings: ModelSettings) -> ChatModel:
    """The model that chats, as `models_of` has it."""
    return models_of(settings).chat


def model_label(settings: ModelSettings) -> str:
    """What people see of the model that `settings` asks for, without making it."""
    if settings.models_file is None or settings.offline:
        return OFFLINE_LABEL if settings.offline else settings.model
    return routes_of(KnownModels(read_file(settings.models_file), {}), DEFAULT_ROLE)[0].model.model


async def close_chat_model(model: ChatModel) -> None:
    """Close the connections of a model that `chat_model` made."""
    if isinstance(model, _Closable):
        await model.aclose()
