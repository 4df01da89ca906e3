"""The guard of a deployment, from its settings: `governance.yaml`, or the configured secrets and nothing else."""

from __future__ import annotations

import hashlib
import os
import secrets as chance
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from runtime.errors import SettingError
from runtime.guard.build import Means, build
from runtime.guard.decision import Notary
from runtime.guard.errors import GuardError
from runtime.guard.governance import load
from runtime.guard.guard import Guard, Placed
from runtime.guard.onstep import GuardService
from runtime.guard.port import Channel
from runtime.guard.secretsgate import Secrets, SecretsGate
from runtime.guard.sources import configured_secrets
from runtime.llm.apikey import key_of_file
from runtime.llm.port import ChatModel
from runtime.ports import Clock
from store.clock import SystemClock

KEY_BYTES = 32
NONCE_BYTES = 8


class GuardSettings(BaseSettings):
    """Where the guard's rules and its key are. Read from the environment when an instance is made."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", populate_by_name=True, env_ignore_empty=True)

    governance: Path | None = Field(None, validation_alias="STEPWELL_GOVERNANCE")
    #: a file, readable by its owner only, whose content keys the digests in traces
    guard_key: Path | None = Field(None, validation_alias="STEPWELL_GUARD_KEY")


def guard_service(
    settings: GuardSettings, model: ChatModel, environment: Mapping[str, str] = os.environ, clock: Clock | None = None
) -> GuardService | None:
    """The guard that `settings` ask for; None when there is nothing to look for. `environment` holds the secrets.

    Raises `SettingError` for whatever is asked for and cannot run: no gate is left out silently.
    """
    key, configured, clock = _digest_key(settings.guard_key), configured_secrets(environment), clock or SystemClock()
    if settings.governance is None:
        return _default(configured, key, clock) if configured else None
    means = Means(clock, lambda: chance.token_hex(NONCE_BYTES), key, configured, model)
    try:
        return GuardService(build(load(settings.governance), means))
    except GuardError as error:
        raise SettingError(f"STEPWELL_GOVERNANCE={str(settings.governance)!r} cannot be used:\n{error}") from error


def _default(configured: Mapping[str, str], key: bytes, clock: Clock) -> GuardService:
    """Configured secrets go nowhere; what only looks like one is left alone. In memory, and without a record."""
    secrets = Secrets(configured, forms=False)
    placed = [Placed(SecretsGate(secrets), frozenset(Channel))]
    return GuardService(Guard(placed, clock=clock, notary=Notary(key, secrets.redact)), keeps_all=False)


def _digest_key(path: Path | None) -> bytes:
    """The key of the digests: without a file one that lasts as long as the process, in no table and no log."""
    if path is None:
        return chance.token_bytes(KEY_BYTES)
    try:
        content = key_of_file(path).secret.get_secret_value()
    except ValueError as error:
        raise SettingError(f"STEPWELL_GUARD_KEY: {error}") from error
    return hashlib.blake2b(content.encode(), digest_size=KEY_BYTES).digest()
