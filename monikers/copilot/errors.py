"""What a host or an agent can do wrong with the engine."""

from __future__ import annotations


class ReadOnlyError(TypeError):
    """An agent tried to change what it is shown. What it wants changed belongs into its response."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} belongs to the picture of a phase, which never changes: return variable_updates, queue_pushes, "
            "facts, events or memory_updates in an AgentResponse, or work on a copy (monikers.copilot.plain)"
        )


class AgentConfigurationError(ValueError):
    """An agent cannot be registered as it is configured."""
