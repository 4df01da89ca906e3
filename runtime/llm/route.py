"""In which order models are asked: a role's own, then local providers, then each external key with its largest models.

The order after the role's own is that of the agent-team specification ("retries 3 then failover").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from runtime.llm.apikey import ApiKey
from runtime.llm.modelsfile import DEFAULT_ROLE, Ability, ModelEntry, ProviderEntry
from runtime.llm.modelsread import KnownModels


@dataclass(frozen=True, slots=True)
class Route:
    """One way to an answer: a model at a provider, asked with one key or none."""

    provider: str
    name: str
    model: ModelEntry
    key: ApiKey | None

    @property
    def fingerprint(self) -> str | None:
        """Which key, for people and traces."""
        return self.key.fingerprint if self.key else None


def routes_of(known: KnownModels, role: str) -> tuple[Route, ...]:
    """The ways to a chat answer for `role`, the first to be tried first; each stands there once.

    A name that is no role is a model's. Raises `ValueError` for a name that is neither.
    """
    named = _named(known, role)
    first = [route for name in named for route in _of_model(known, name)]
    rest = _by_failover(known) if known.file.retrying.failover or not named else []
    return tuple(dict.fromkeys([*first, *rest]))


def embedding_routes(known: KnownModels) -> tuple[Route, ...]:
    """The ways to vectors: one model only, for vectors of different ones cannot be compared."""
    return tuple(route for name in known.file.embedding_models() for route in _of_model(known, name))


def _named(known: KnownModels, role: str) -> tuple[str, ...]:
    file = known.file
    if role in file.roles:
        return file.roles[role]
    if role in file.models:
        return (role,)
    if role == DEFAULT_ROLE:
        return ()
    there = ", ".join([*file.roles, *file.models])
    raise ValueError(f"no role or model {role!r} in models.toml; there are {there}")


def _of_model(known: KnownModels, name: str) -> Iterator[Route]:
    model = known.file.models[name]
    for key in _keys(known, model.provider):
        yield Route(model.provider, name, model, key)


def _keys(known: KnownModels, provider: str) -> tuple[ApiKey | None, ...]:
    return known.keys.get(provider) or (None,)


def _by_failover(known: KnownModels) -> Iterator[Route]:
    def order(item: tuple[str, ProviderEntry]) -> tuple[bool, int]:
        return not item[1].local, item[1].priority

    for provider, _ in sorted(known.file.providers.items(), key=order):
        models = [(name, model) for name, model in known.file.models.items() if model.provider == provider]
        chatting = [pair for pair in models if Ability.EMBEDDINGS not in pair[1].abilities]
        largest = sorted(chatting, key=lambda pair: (-pair[1].size, -pair[1].context))
        for key in _keys(known, provider):
            for name, model in largest:
                yield Route(provider, name, model, key)
