"""The secrets that a process is configured with, by name, collected once at start: what must never be shown or stored.

They are the values of environment variables whose names say so, the contents of files that such variables name,
passwords inside addresses, and the keys of `models.toml`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from runtime.errors import SettingError
from runtime.guard.known import MIN_SECRET_CHARS
from runtime.guard.secretsgate import Secrets
from runtime.llm.apikey import key_of_file
from runtime.llm.modelsread import read_file

MODELS_FILE = "STEPWELL_MODELS"
LARGEST_FILE = 10_000
_SAYS_SO = frozenset(
    "APIKEY AUTH AUTHORIZATION BEARER CREDENTIAL CREDENTIALS KEY KEYS PASSPHRASE PASSWD PASSWORD PAT PWD SECRET "
    "SECRETS TOKEN TOKENS".split()
)
#: what is called after a secret and is none
_NO_SECRET = frozenset({"DIR", "PATH", "SOCK", "URL"})
#: what such a variable says when it holds none
_NO_VALUES = frozenset({"disabled", "external", "internal", "keychain", "optional", "password", "required"})


def process_secrets(environment: Mapping[str, str] = os.environ) -> Secrets:
    """Finds and cuts out the secrets of this process."""
    return Secrets(configured_secrets(environment))


def configured_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The secrets by the name of their setting. One under 8 characters is left out: ordinary text would hold it."""
    found: dict[str, str] = {}
    for name, value in [*_of_environment(environment), *_of_models(environment)]:
        bare = value.strip()
        if len(bare) >= MIN_SECRET_CHARS and bare.lower() not in _NO_VALUES and bare not in found.values():
            found.setdefault(name, bare)
    return found


def _of_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in environment.items():
        if _is_secret(name):
            content = _content(value)
            yield name, value if content is None else content
        if "://" in value and (password := _password(value)):
            yield f"{name} password", password
            yield f"{name} password as written", unquote(password)


def _is_secret(name: str) -> bool:
    words = [word for word in re.split(r"[^A-Z0-9]+", name.upper()) if word]
    return bool(words) and words[-1] not in _NO_SECRET and name != "PWD" and not _SAYS_SO.isdisjoint(words)


def _content(value: str) -> str | None:
    """What the file that `value` names holds; None when it names none. A folder holds no secret: it gives ""."""
    path = Path(value)
    try:
        if not path.is_absolute() and not path.exists():
            return None
        if path.is_dir():
            return ""
        return path.read_text(errors="replace") if path.stat().st_size <= LARGEST_FILE else ""
    except (OSError, ValueError):  # no name of a file, or one that is not there: the value is the secret
        return None


def _password(address: str) -> str | None:
    try:
        return urlsplit(address).password
    except ValueError:
        return None


def _of_models(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The keys of `models.toml`. Whoever uses the file says what is wrong with it."""
    if not environment.get(MODELS_FILE):
        return
    path = Path(environment[MODELS_FILE])
    try:
        providers = read_file(path).providers
    except SettingError:
        return
    for provider, entry in providers.items():
        for place, key in enumerate(entry.keys):
            name = f"{provider} key {place + 1}"
            yield name, environment.get(key.env, "") if key.env else _key_in(path.parent / (key.file or ""))


def _key_in(path: Path) -> str:
    try:
        return key_of_file(path).secret.get_secret_value()
    except ValueError:
        return ""
