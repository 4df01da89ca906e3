"""The shape of `models.toml`: providers, the models that they serve, and the roles that monikers ask for.

    currency = "USD"

    [providers.local]
    base_url = "http://127.0.0.1:8080/v1"
    local = true

    [providers.openai]
    keys = [{ env = "OPENAI_API_KEY" }, { file = "keys/openai" }]
    limits = { concurrency = 8, requests_per_minute = 500, tokens_per_minute = 200_000 }

    [models.small]
    provider = "openai"
    model = "gpt-4.1-mini"
    context = 1_000_000
    prices = { input = 0.40, output = 1.60, cached = 0.10 }
    abilities = ["tools", "json_schema", "streaming"]

    [roles]
    default = ["small"]

Names, never keys, stand in the file. Which file, and how a mistake in it is told: runtime/llm/modelsread.py.
"""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, field_validator, model_validator

from runtime.llm.money import Prices

DEFAULT_ROLE = "default"
EMBEDDING_ROLE = "embedding"


class Ability(StrEnum):
    """What a model can do beyond answering in text."""

    TOOLS = "tools"
    JSON_SCHEMA = "json_schema"
    JSON_OBJECT = "json_object"
    STREAMING = "streaming"
    EMBEDDINGS = "embeddings"
    REASONING = "reasoning"  # thinks first: takes max_completion_tokens and no temperature


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)


def _exact(value: object) -> object:
    return Decimal(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _names(value: object) -> object:
    return (value,) if isinstance(value, str) else _tuple(value)


Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
_Price = Annotated[Decimal, BeforeValidator(_exact), Field(ge=0, allow_inf_nan=False)]
_Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False, strict=False)]
_Count = Annotated[int, Field(ge=1)]


class KeyEntry(_Table):
    """Where one key is: an environment variable or a file of its own."""

    env: Annotated[str, Field(min_length=1)] | None = None
    file: Annotated[str, Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.env is None) == (self.file is None):
            raise ValueError('a key is { env = "NAME" } or { file = "path" }, exactly one of them')
        return self


class Limits(_Table):
    """What one provider is asked at most. None is no limit."""

    concurrency: _Count = 8
    requests_per_minute: _Count | None = None
    tokens_per_minute: _Count | None = None
    #: to get a connection
    connect_s: _Seconds = 10.0
    #: for one try of a call, and between two pieces of a stream
    timeout_s: _Seconds = 120.0
    #: a call waits so long for its turn here before it goes to the next provider
    queue_s: _Seconds = 5.0


class ProviderEntry(_Table):
    """One endpoint."""

    base_url: Annotated[str, Field(pattern=r"^https?://[^\s@]+$")] = "https://api.openai.com/v1"
    #: on this machine or in this house: asked before those that are not
    local: bool = False
    #: among its like, the lowest first; equal ones in the file's order
    priority: int = 100
    keys: Annotated[tuple[KeyEntry, ...], BeforeValidator(_tuple)] = ()
    limits: Limits = Limits()


class PriceEntry(_Table):
    """Money per million tokens."""

    input: _Price | None = None
    output: _Price | None = None
    cached: _Price | None = None


def _abilities(value: object) -> object:
    if not isinstance(value, list):
        return value
    known = {ability.value for ability in Ability}
    if strange := [item for item in value if item not in known]:
        raise ValueError(f"{strange[0]!r} is no ability; there are {', '.join(sorted(known))}")
    return frozenset(Ability(item) for item in value)


_NO_ABILITIES: frozenset[Ability] = frozenset()


class ModelEntry(_Table):
    """One model at one provider."""

    provider: str
    #: its name at the endpoint
    model: Annotated[str, Field(min_length=1, max_length=200)]
    #: tokens of prompt and answer together
    context: _Count = 8_192
    #: larger ones are tried first when others fail; billions of parameters, or any number that orders them
    size: Annotated[float, Field(ge=0, allow_inf_nan=False, strict=False)] = 0.0
    prices: PriceEntry = PriceEntry()
    abilities: Annotated[frozenset[Ability], BeforeValidator(_abilities)] = _NO_ABILITIES
    #: the length of its vectors
    dimensions: _Count | None = None

    @property
    def money(self) -> Prices:
        """The prices as the arithmetic takes them."""
        return Prices(self.prices.input, self.prices.output, self.prices.cached)


class Retrying(_Table):
    """How a failed call is tried again, and how long what fails is left alone."""

    #: tries on one provider and key before the next one
    attempts: Annotated[int, Field(ge=1, le=20)] = 3
    #: limit of the first pause; it doubles with each
    base_s: _Seconds = 0.5
    #: no pause is longer, nor is a longer Retry-After waited for: the next provider is asked instead
    cap_s: _Seconds = 20.0
    #: a key that is not accepted is left alone for so long
    quarantine_s: _Seconds = 900.0
    #: so many failures of a provider in a row, and it is left alone for `breaker_s`
    breaker_failures: _Count = 5
    breaker_s: _Seconds = 30.0
    #: after the models of a role, every other one that can do what is asked
    failover: bool = True


class ModelsFile(_Table):
    """All of `models.toml`."""

    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] = "USD"
    providers: Annotated[dict[Name, ProviderEntry], Field(min_length=1)]
    models: Annotated[dict[Name, ModelEntry], Field(min_length=1)]
    roles: dict[Name, Annotated[tuple[str, ...], BeforeValidator(_names), Field(min_length=1)]] = {}
    retrying: Retrying = Retrying()

    @field_validator("models")
    @classmethod
    def _not_offline(cls, models: dict[str, ModelEntry]) -> dict[str, ModelEntry]:
        if "offline" in models:
            raise ValueError('"offline" is the model without a network; give this one another name')
        return models

    def embedding_models(self) -> tuple[str, ...]:
        """The models that embed, by name: those of the role, else the first that can."""
        able = tuple(name for name, model in self.models.items() if Ability.EMBEDDINGS in model.abilities)
        return self.roles.get(EMBEDDING_ROLE, able[:1])
