from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from runtime.llm.factory import DEFAULT_MODEL, ModelSettings, chat_model, close_chat_model, model_label
from runtime.llm.modelsread import ModelsFileError
from runtime.llm.offline import OfflineModel
from runtime.llm.openai_chat import OpenAiChat
from runtime.llm.pool import PooledModel

NAMES = ["OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL", "STEPWELL_MODEL", "STEPWELL_MODELS"]


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


MODELS = """
[providers.cloud]
keys = [{ env = "CLOUD_KEY" }]

[models.small]
provider = "cloud"
model = "small-1"

[models.large]
provider = "cloud"
model = "large-1"
size = 70

[roles]
default = "small"
"""


async def test_a_file_of_models_counts_more_than_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "models.toml"
    path.write_text(MODELS)
    monkeypatch.setenv("STEPWELL_MODELS", str(path))
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    # people see the name without anybody having the keys
    assert model_label(ModelSettings()) == "small-1"
    with pytest.raises(ModelsFileError, match="CLOUD_KEY is not set"):
        chat_model(ModelSettings())
    monkeypatch.setenv("CLOUD_KEY", "sk-0123456789abcdef")
    model = chat_model(ModelSettings())
    assert isinstance(model, PooledModel)
    assert model.label == "small-1"
    await close_chat_model(model)
    path.write_text(MODELS.split("[roles]")[0])
    assert model_label(ModelSettings()) == "large-1"
    monkeypatch.setenv("STEPWELL_MODEL", "offline")
    assert model_label(ModelSettings()) == "offline"
    assert isinstance(chat_model(ModelSettings()), OfflineModel)
