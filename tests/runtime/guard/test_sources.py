"""What a process is configured with and must never show."""

from __future__ import annotations

from pathlib import Path

from runtime.guard.secretsgate import Secrets
from runtime.guard.sources import configured_secrets

KEY = "velvet-otter-9917-harbour"


def test_secrets_are_found_by_their_names_and_in_addresses() -> None:
    found = configured_secrets(
        {
            "OPENAI_API_KEY": KEY,
            "AWS_SECRET_ACCESS_KEY": "aws-secret-of-ours",
            "MCP_SEARCH_TOKEN": "mcp-token-of-ours",
            "STEPWELL_REDIS_URL": "redis://:redis%2Fpassword@127.0.0.1:6379/0",
            "HOME": "/home/somebody-here",
            "PWD": "/somewhere/else",
            "KEYBOARD": "a-keyboard-layout",
            "SSH_AUTH_SOCK": "/run/somewhere/agent",
            "SHORT_KEY": "short",
            "SOME_AUTH": "disabled",
        }
    )
    assert set(found.values()) == {
        KEY,
        "aws-secret-of-ours",
        "mcp-token-of-ours",
        "redis%2Fpassword",
        "redis/password",
    }


def test_a_setting_that_names_a_file_gives_its_content(tmp_path: Path) -> None:
    file = tmp_path / "seal.key"
    file.write_text("the-content-of-the-file\n")
    found = configured_secrets({"STEPWELL_SEAL_KEY": str(file), "OTHER_KEY": str(tmp_path)})
    assert found == {"STEPWELL_SEAL_KEY": "the-content-of-the-file"}


def test_the_keys_of_the_models_file_are_secrets(tmp_path: Path) -> None:
    key, models = tmp_path / "second.key", tmp_path / "models.toml"
    key.write_text("key-from-a-file-of-its-own")
    key.chmod(0o600)
    models.write_text(
        '[providers.one]\nbase_url = "http://127.0.0.1:1/v1"\nkeys = [{env = "SOME_NAME"}, {file = "second.key"}]\n'
        '[models.m]\nprovider = "one"\nmodel = "m"\n[roles]\nchat = ["m"]\n'
    )
    found = configured_secrets({"STEPWELL_MODELS": str(models), "SOME_NAME": "key-from-a-setting"})
    assert found == {"one key 1": "key-from-a-setting", "one key 2": "key-from-a-file-of-its-own"}


def test_a_value_without_secrets_is_left_as_it_is() -> None:
    secrets = Secrets({"KEY": KEY})
    value = {"a": ["x", 1], "b": None, "api_key": "AKIAABCDEFGHIJKLMNOP"}
    assert secrets.clean(value) is value
    assert secrets.clean({"a": [f"x {KEY}"], "n": 1}) == {"a": ["x ⟦redacted KEY⟧"], "n": 1}
    assert Secrets().clean({"a": KEY}) == {"a": KEY}
