"""What a host or an agent can do wrong with the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class ReadOnlyError(TypeError):
    """An agent tried to change what it is shown. What it wants changed belongs into its response."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} belongs to the picture of a phase, which never changes: return variable_updates, queue_pushes, "
            "facts, events or memory_updates in an AgentResponse, or work on a copy (monikers.copilot.plain)"
        )


class Mistake(NamedTuple):
    """What is wrong with one field of a definition, and what to write. An empty `field` is the definition itself."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class AgentConfigurationError(ValueError):
    """An agent cannot be registered as it is configured; `mistakes` are those of its definition, if they are its."""

    def __init__(self, said: str, mistakes: Sequence[Mistake] = ()) -> None:
        super().__init__(said)
        self.mistakes = tuple(mistakes)
