from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from runtime.llm.apikey import ApiKey
from runtime.llm.modelsfile import Ability
from runtime.llm.modelsread import KnownModels, ModelsFileError, read_models

CANARY = "sk-canary-0123456789-wxyz"
GOOD = """
currency = "EUR"

[providers.house]
base_url = "http://127.0.0.1:8080/v1"
local = true

[providers.cloud]
keys = [{ env = "CLOUD_KEY" }, { file = "second.key" }]
limits = { concurrency = 2, requests_per_minute = 60, tokens_per_minute = 90_000, timeout_s = 30 }

[models.small]
provider = "cloud"
model = "vendor/small-1"
context = 128_000
prices = { input = 0.1, output = 3, cached = 0.025 }
abilities = ["tools", "json_schema", "streaming"]

[models.vectors]
provider = "house"
model = "embed-1"
abilities = ["embeddings"]
dimensions = 8

[roles]
default = "small"
fast = ["small"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    key = tmp_path / "second.key"
    key.write_text(f"{CANARY}-2\n")
    key.chmod(0o600)
    return tmp_path


def read(folder: Path, text: str, **environment: str) -> KnownModels:
    path = folder / "models.toml"
    path.write_text(text)
    return read_models(path, {"CLOUD_KEY": CANARY} | environment)


def refused(folder: Path, text: str, **environment: str) -> str:
    with pytest.raises(ModelsFileError) as caught:
        read(folder, text, **environment)
    said = str(caught.value)
    assert str(folder / "models.toml") in said
    assert "canary" not in said
    assert caught.value.__cause__ is None
    return said


def test_a_whole_file(folder: Path) -> None:
    known = read(folder, GOOD)
    small = known.file.models["small"]
    assert (small.money.input, small.money.output, small.money.cached) == (Decimal("0.1"), Decimal(3), Decimal("0.025"))
    assert small.abilities == {Ability.TOOLS, Ability.JSON_SCHEMA, Ability.STREAMING}
    assert known.file.roles == {"default": ("small",), "fast": ("small",)}
    assert known.file.embedding_models() == ("vectors",)
    assert known.file.providers["cloud"].limits.timeout_s == 30.0
    assert known.keys["house"] == ()
    assert [key.secret.get_secret_value() for key in known.keys["cloud"]] == [CANARY, f"{CANARY}-2"]


def test_nothing_that_is_printed_holds_a_key(folder: Path) -> None:
    known = read(folder, GOOD)
    shown = f"{known!r} {known} {[str(key) for key in known.keys['cloud']]} {known.file.model_dump_json()}"
    assert "canary" not in shown
    assert str(known.keys["cloud"][0]) == f"…wxyz ({known.keys['cloud'][0].fingerprint})"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("local = true", 'local = "yes"', ["[providers.house] local = 'yes'", "true or false"]),
        ("local = true", "locl = true", ["[providers.house] locl", "correct its name"]),
        ("8080/v1", "8080/v1 x", ["[providers.house] base_url", "pattern"]),
        ('"http://127', '"ftp://127', ["[providers.house] base_url = 'ftp://"]),
        ("concurrency = 2", "concurrency = 0", ["[providers.cloud.limits] concurrency = 0", "larger"]),
        ("timeout_s = 30", "timeout_s = nan", ["[providers.cloud.limits] timeout_s"]),
        ("input = 0.1", "input = -0.1", ["[models.small.prices] input = -0.1", "larger"]),
        ("input = 0.1", 'input = "0.1"', ["[models.small.prices] input = '0.1'", "without quotes"]),
        ("input = 0.1", "input = inf", ["[models.small.prices] input"]),
        ('model = "embed-1"\n', "", ["[models.vectors] model", "add it"]),
        ('"tools"', '"flying"', ["[models.small] abilities", "'flying'", "json_schema"]),
        ('provider = "house"', 'provider = "hose"', ["[models.vectors] provider = 'hose'", "house, cloud"]),
        ('default = "small"', 'default = "smal"', ["[roles] default = 'smal'", "small, vectors"]),
        ('default = "small"', 'embedding = "small"', ["[roles] embedding = 'small'", '"embeddings"']),
        ('{ env = "CLOUD_KEY" }', "{}", ["[providers.cloud.keys] 0", "exactly one"]),
        ("CLOUD_KEY", "OTHER_KEY", ["[providers.cloud] keys[0]", "OTHER_KEY is not set", "set it"]),
        ("second.key", "third.key", ["[providers.cloud] keys[1]", "third.key", "correct the path"]),
        ('keys = [{ env = "CLOUD_KEY" }', f'keys = ["{CANARY}"', ["[providers.cloud.keys] 0 = (not shown)"]),
        ("local = true", f'api_key = "{CANARY}"', ["[providers.house] api_key = (not shown)", "remove it"]),
        ("local = true", f'local = "{CANARY}"', ["[providers.house] local = (not shown)"]),
        ("http://127", f"http://u:{CANARY}@127", ["[providers.house] base_url = (not shown)"]),
        ("[models.vectors]", "[models.offline]", ["models", "another name"]),
        ("EUR", "euro", ["currency = 'euro'"]),
        ("local = true", "local = ", ["not TOML", "line"]),
    ],
)
def test_a_mistake_is_told_with_its_place_its_value_and_its_cure(
    folder: Path, old: str, new: str, told: list[str]
) -> None:
    assert old in GOOD
    said = refused(folder, GOOD.replace(old, new, 1))
    for words in told:
        assert words in said


def test_all_mistakes_are_told_at_once(folder: Path) -> None:
    said = refused(
        folder, GOOD.replace("concurrency = 2", "concurrency = 0").replace("8_192", "x").replace("3,", "-3,")
    )
    assert len(said.splitlines()) == 2


def test_embedding_models_of_different_kinds_are_refused(folder: Path) -> None:
    other = '[models.others]\nprovider = "cloud"\nmodel = "embed-2"\nabilities = ["embeddings"]\n[roles]'
    text = GOOD.replace("[roles]", other) + 'embedding = ["vectors", "others"]\n'
    assert "cannot be compared" in refused(folder, text)
    assert read(folder, text.replace("embed-2", "embed-1").replace("dimensions = 8", "")).file.embedding_models()


@pytest.mark.parametrize(
    ("content", "mode", "told"),
    [
        ("a" * 20, 0o640, "chmod 600"),
        ("a" * 20, 0o604, "chmod 600"),
        (" \n", 0o600, "is empty"),
        ("two words", 0o600, "white space"),
        ("clé-clé-clé-clé", 0o600, "no key has"),
        ("x" * 20_000, 0o600, "small file"),
    ],
)
def test_a_key_file_that_cannot_be_used(folder: Path, content: str, mode: int, told: str) -> None:
    (folder / "second.key").write_text(content)
    (folder / "second.key").chmod(mode)
    assert told in refused(folder, GOOD)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelsFileError, match=r"models\.toml: cannot be read"):
        read_models(tmp_path / "models.toml", {})


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=60))
def test_a_key_shows_its_last_four_characters_at_most(value: str) -> None:
    key = ApiKey(SecretStr(value))
    shown = f"{key} {key!r}"
    assert len(key.last4) <= 4
    assert len(value) < 12 or value not in shown
    assert len(value) >= 12 or key.last4 == ""
