"""The model as the agents of a turn have it: each call is a record of the step, failures too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from monikers.copilot.llm import DEFAULT_MAX_TOKENS, CountedModel, LLMResult, ask_agent_model
from runtime.llm.port import LlmError, Model


class Desk:
    """What the agents of one turn ask. An error that is no agent's affair (a spent budget, a session that is another
    worker's now) is kept for whoever runs the turn: the engine takes every error for the agent's own."""

    def __init__(self, model: Model, timeout_s: float) -> None:
        self._model = model
        self._timeout_s = timeout_s
        self.broken: BaseException | None = None

    def of(self, agent_id: str, timeout_s: float | None) -> AgentModel:
        """The model as one agent has it. Its calls are found again whatever the order in which agents are answered."""
        return AgentModel(self, self._model.apart(agent_id), timeout_s or self._timeout_s)


class AgentModel:
    """One agent's model; anything with `generate` is one to a `BaseAgent`.

    A call is bounded by the model's own deadline alone: that failure is a record too, so that a turn which is taken
    again goes the same way. The deployment's model answers, whatever `model` an agent names.
    """

    def __init__(self, desk: Desk, model: Model, timeout_s: float) -> None:
        self._desk = desk
        self._model = model
        self._timeout_s = timeout_s

    async def generate(
        self,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        *,
        max_tokens: int | None = None,
        timeout: float | None = None,
        model_params: Mapping[str, Any] | None = None,
    ) -> LLMResult:
        """See `LLMClient.generate`."""
        params = {"max_tokens": max_tokens or DEFAULT_MAX_TOKENS, **(model_params or {})}
        try:
            return await ask_agent_model(
                CountedModel(self._model), messages, params, deadline_s=timeout or self._timeout_s
            )
        except LlmError:
            raise
        except BaseException as error:
            self._desk.broken = self._desk.broken or error
            raise
