"""An agent from JSON: its prompt is a template, its model's answer is read by an output format (spec 2 §9, §10)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from monikers.copilot.agent import AgentConfig, BaseAgent
from monikers.copilot.answers import read_answer
from monikers.copilot.definition import Definition, definition_of, doubts_about
from monikers.copilot.errors import AgentConfigurationError, Mistake
from monikers.copilot.formats import output_schema
from monikers.copilot.limits import RateLimit
from monikers.copilot.llm import LLMResult
from monikers.copilot.models import AgentContext, AgentResponse, InsightType, shared_state_of
from monikers.copilot.prompts import Messages, PromptSource, messages_of
from monikers.copilot.templates import PromptTemplateError, check_template

MAX_SHOWN_CHARS = 100
_MALFORMED = "malformed"
_log = logging.getLogger(__name__)


class DynamicAgent(BaseAgent):
    """An agent that is nothing but its configuration: the JSON of spec 2 §9.

    `schema_folder` is where a host keeps output formats of its own. Raises `AgentConfigurationError` with every mistake
    in the configuration, its template and its output format.
    """

    def __init__(self, config_dict: Mapping[str, Any], *, schema_folder: Path | None = None) -> None:
        definition = definition_of(config_dict)
        super().__init__(_config(definition))
        self.definition = deepcopy(dict(config_dict))
        self.schema = output_schema(definition.output_format, schema_folder)
        self._turns = definition.turns
        self._include_context = definition.include_context
        self.system_prompt = definition.text
        try:
            check_template(definition.text)
        except PromptTemplateError as error:
            said = f"agent {self.config.id!r}: text: {error}"
            raise AgentConfigurationError(said, [Mistake("text", str(error))]) from error
        for doubt in doubts_about(definition):
            _log.warning("agent %r %s", definition.name, doubt.message)

    async def evaluate(self, context: AgentContext) -> AgentResponse:
        """Render the prompt, ask the model, read its answer.

        An answer that is no JSON, and a call that failed, is an ERROR insight with no update. Raises
        `PromptTemplateError` when the prompt cannot be rendered against this board.
        """
        if self.llm is None:
            raise AgentConfigurationError(f"agent {self.config.id!r} has no model: register it, or set its `llm`")
        memory = self._memory(context)
        messages = messages_of(self._source(), context, memory)
        result = await self._ask(messages)
        shown = {"prompt_messages": messages, "model": self.config.model, "llm_output": result.parsed}
        response = (
            self._failed(result) if result.parsed is None or result.error_category else self._read(result, memory)
        )
        response.usage = dict(result.usage)
        response.debug_info = {**response.debug_info, **shown}
        return response

    def prompt(self, context: AgentContext) -> Messages:
        """The messages that an evaluation in this context would send. Raises `PromptTemplateError`."""
        return messages_of(self._source(), context, self._memory(context))

    def description(self) -> dict[str, Any]:
        """The configuration as it was given, with the prompt."""
        return {**super().description(), "definition": self.definition}

    def _source(self) -> PromptSource:
        return PromptSource(
            agent_id=self.config.id,
            agent_name=self.config.name,
            text=self.system_prompt,
            instruction=self.schema.instruction,
            turns=self._turns,
            include_context=self._include_context,
            subscribed_events=tuple(self.config.subscribed_events),
        )

    def _memory(self, context: AgentContext) -> dict[str, Any]:
        """What the agent keeps: what the board has, over what it starts with; where the board has nothing of it, what
        version 1 has, over what the agent has kept itself."""
        board = context.blackboard
        kept: Any = None if board is None else board.memory.get(self.config.id)
        if isinstance(kept, Mapping):
            return {**self.first_state, **kept}
        kept = shared_state_of(context).get(f"memory_{self.config.id}")
        return {**self.private_state, **(kept if isinstance(kept, Mapping) else {})}

    async def _ask(self, messages: Messages) -> LLMResult:
        generate = getattr(self.llm, "generate", None)
        if generate is None:
            return LLMResult(await self.llm.generate_json(model=self.config.model, messages=messages))
        # what is not set is left out: a model that somebody wrote need not take it
        options: dict[str, Any] = {"max_tokens": self.config.max_tokens, "timeout": self.config.timeout}
        if self.config.model_params:
            options["model_params"] = dict(self.config.model_params)
        told = {name: value for name, value in options.items() if value is not None}
        return _result(await generate(model=self.config.model, messages=messages, **told))

    def _read(self, result: LLMResult, memory: Mapping[str, Any]) -> AgentResponse:
        reading = read_answer(result.parsed, self.schema, agent_id=self.config.id, agent_name=self.config.name)
        if not reading.usable:
            return self._failed(result)
        if reading.problems:
            self.logger.info("%s left out of its answer: %s", self.config.name, "; ".join(reading.problems))
            reading.response.debug_info = {"answer_problems": reading.problems}
        updates = reading.response.memory_updates
        if updates:
            self.private_state = {**memory, **updates}
        return reading.response

    def _failed(self, result: LLMResult) -> AgentResponse:
        """The ERROR insight of a call that gave nothing, and nothing else (spec 2 §10.4)."""
        category = result.error_category or _MALFORMED
        if category == _MALFORMED:
            began = result.partial or ("" if result.parsed is None else str(result.parsed))
            said = f"Agent returned invalid JSON: {began[:MAX_SHOWN_CHARS]}..."
        else:
            said = f"The model did not answer ({category}): {result.error[:MAX_SHOWN_CHARS]}"
        self.logger.warning("%s gives an ERROR insight instead of an answer: %s", self.config.name, said)
        insight = self.create_insight(said, InsightType.ERROR)
        insight.metadata = {"error_category": category}
        response = AgentResponse(insights=[insight], source_agent_id=self.config.id)
        response.debug_info = {"error_category": category}
        return response


def _result(given: Any) -> LLMResult:
    """A result as a model gave it: a whole one, or anything with some of its fields, or the parsed JSON alone."""
    if isinstance(given, LLMResult):
        return given
    if given is None or isinstance(given, dict | list):
        return LLMResult(given)
    usage = getattr(given, "usage", None)
    return LLMResult(
        getattr(given, "parsed", None),
        getattr(given, "error_category", None),
        usage if isinstance(usage, Mapping) else {},
        getattr(given, "finish_reason", None),
    )


def _config(definition: Definition) -> AgentConfig:
    trigger, model = definition.trigger, definition.model_part
    limit = trigger.rate_limit
    params = {**model.params, **definition.model_params}
    return AgentConfig(
        name=definition.name,
        id=definition.id,
        trigger_interval=trigger.interval,
        cooldown=trigger.cooldown,
        model=definition.asked_model,
        trigger_types=trigger.mode,
        trigger_keywords=trigger.keywords,
        silence_threshold=trigger.silence_threshold,
        priority=definition.weight,
        output_format=definition.output_format if isinstance(definition.output_format, str) else "(inline)",
        trigger_conditions=definition.trigger_conditions,
        subscribed_events=trigger.subscribed_events,
        timeout=model.timeout or definition.timeout,
        max_tokens=model.max_tokens or definition.max_tokens,
        model_params=params,
        groups=definition.groups,
        rate_limit=None if limit is None else RateLimit(limit.runs, limit.per_s),
        needs_approval=definition.needs_approval,
    )
