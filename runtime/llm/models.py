"""What a process may be told about its models, and what it gets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import AliasChoices, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from runtime.llm.offline import OFFLINE_LABEL
from runtime.llm.port import ChatModel, EmbeddingModel

DEFAULT_MODEL = "gpt-4.1-mini"


class ModelSettings(BaseSettings):
    """Where the chat model is. Read from the environment once, when an instance is made."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", populate_by_name=True, env_ignore_empty=True)

    api_key: SecretStr | None = Field(None, validation_alias=AliasChoices("OPENAI_API_KEY"))
    base_url: str | None = Field(None, validation_alias=AliasChoices("OPENAI_BASE_URL"))
    model: str = Field(DEFAULT_MODEL, validation_alias=AliasChoices("STEPWELL_MODEL", "OPENAI_MODEL"))
    #: several providers (runtime/llm/modelsfile.py); the settings above name one and do not count then
    models_file: Path | None = Field(None, validation_alias=AliasChoices("STEPWELL_MODELS"))

    @property
    def offline(self) -> bool:
        """True when there is nobody to ask: no file, key or endpoint, or the model is named "offline"."""
        nobody = self.api_key is None and self.base_url is None and self.models_file is None
        return self.model == OFFLINE_LABEL or nobody


@dataclass(frozen=True, slots=True)
class Models:
    """The models of a process: the one that chats, and the one that embeds, if one is configured."""

    chat: ChatModel
    embedder: EmbeddingModel | None = None
