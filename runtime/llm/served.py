"""The models behind endpoints that the settings ask for. Loading this loads the client of such endpoints."""

from __future__ import annotations

import os

from runtime.llm.models import Models, ModelSettings
from runtime.llm.modelsread import read_models
from runtime.llm.openai_chat import OpenAiChat
from runtime.llm.pool import ModelPool


def served_models(settings: ModelSettings) -> Models:
    """The models that `settings` ask for. Opens no connection; the first call does.

    Raises `SettingError` when the file of models cannot be used.
    """
    if settings.models_file is not None:
        pool = ModelPool(read_models(settings.models_file, os.environ))
        return Models(pool.model(), pool.embedder() if pool.embeds else None)
    key = settings.api_key.get_secret_value() if settings.api_key else None
    return Models(OpenAiChat(base_url=settings.base_url, api_key=key, model=settings.model))
