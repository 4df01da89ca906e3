from __future__ import annotations

import pytest
from pydantic import ValidationError

from runtime.llm.factory import DEFAULT_MODEL, ModelSettings, chat_model, close_chat_model
from runtime.llm.offline import OfflineModel
from runtime.llm.openai_chat import OpenAiChat

NAMES = ["OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL", "STEPWELL_MODEL"]


@pytest.fixture(autouse=True)
def _no_settings_around(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("value", [None, ""])
def test_without_a_key_and_an_endpoint_the_model_is_offline(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    if value is not None:
        monkeypatch.setenv("OPENAI_API_KEY", value)
    assert isinstance(chat_model(ModelSettings()), OfflineModel)


@pytest.mark.parametrize(
    ("environment", "label"),
    [
        ({"OPENAI_API_KEY": "k"}, DEFAULT_MODEL),
        ({"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}, DEFAULT_MODEL),
        ({"OPENAI_API_KEY": "k", "OPENAI_MODEL": "m"}, "m"),
        ({"OPENAI_API_KEY": "k", "OPENAI_MODEL": "m", "STEPWELL_MODEL": "s"}, "s"),
    ],
)
async def test_a_key_or_an_endpoint_is_enough(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], label: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    model = chat_model(ModelSettings())
    assert isinstance(model, OpenAiChat)
    assert model.label == label
    await close_chat_model(model)


def test_a_model_named_offline_is_offline_whatever_key_there_is() -> None:
    assert isinstance(chat_model(ModelSettings(api_key="k", model="offline")), OfflineModel)


def test_settings_are_read_once_and_show_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    settings = ModelSettings()
    monkeypatch.delenv("OPENAI_API_KEY")
    assert settings.api_key is not None
    assert settings.api_key.get_secret_value() == "sk-secret"
    assert "secret" not in repr(settings)
    with pytest.raises(ValidationError):
        settings.model = "other"  # type: ignore[misc]
