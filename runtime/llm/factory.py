"""Which chat model a process uses, chosen by its settings."""

from __future__ import annotations

from pydantic import AliasChoices, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from runtime.llm.offline import OFFLINE_LABEL, OfflineModel
from runtime.llm.openai_chat import OpenAiChat
from runtime.llm.port import ChatModel

DEFAULT_MODEL = "gpt-4.1-mini"


class ModelSettings(BaseSettings):
    """Where the chat model is. Read from the environment once, when an instance is made."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", populate_by_name=True, env_ignore_empty=True)

    api_key: SecretStr | None = Field(None, validation_alias=AliasChoices("OPENAI_API_KEY"))
    base_url: str | None = Field(None, validation_alias=AliasChoices("OPENAI_BASE_URL"))
    model: str = Field(DEFAULT_MODEL, validation_alias=AliasChoices("STEPWELL_MODEL", "OPENAI_MODEL"))

    @property
    def offline(self) -> bool:
        """True when there is nobody to ask: neither a key nor an endpoint, or the model is named "offline"."""
        return self.model == OFFLINE_LABEL or (self.api_key is None and self.base_url is None)


def chat_model(settings: ModelSettings) -> ChatModel:
    """The model that `settings` asks for. Opens no connection; the first call does."""
    if settings.offline:
        return OfflineModel()
    key = settings.api_key.get_secret_value() if settings.api_key else None
    return OpenAiChat(base_url=settings.base_url, api_key=key, model=settings.model)


def model_label(settings: ModelSettings) -> str:
    """What people see of the model that `settings` asks for, without making it."""
    return OFFLINE_LABEL if settings.offline else settings.model


async def close_chat_model(model: ChatModel) -> None:
    """Close the connections of a model that `chat_model` made."""
    if isinstance(model, OpenAiChat):
        await model.aclose()
