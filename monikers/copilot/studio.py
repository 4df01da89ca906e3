"""What somebody who writes an agent wants to know before it runs: its mistakes, and its prompt on a board of a session.

Both are pure: no model is asked, nothing is kept. They are as bounded as a template is (monikers/copilot/templatework).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from monikers.copilot.definition import definition_of, doubts_about
from monikers.copilot.dynamic import DynamicAgent
from monikers.copilot.errors import AgentConfigurationError, Mistake
from monikers.copilot.formats import output_schema
from monikers.copilot.models import AgentContext
from monikers.copilot.prompts import Messages
from monikers.copilot.templates import PromptTemplateError, check_template
from monikers.copilot.variants import agent_of, in_version, variants_of


def problems(definition: Any) -> list[Mistake]:
    """Every mistake in a definition, its template and its output format; none: `DynamicAgent` takes it.

    Never raises, whatever JSON `definition` is.
    """
    try:
        variants = variants_of(definition)
    except AgentConfigurationError as error:
        return [*_own_problems(definition), *error.mistakes]
    if not variants:
        return _own_problems(definition)
    return [in_version(place, one) for place, variant in variants for one in _own_problems(variant.definition)]


def doubts(definition: Any) -> list[Mistake]:
    """What an author can hardly have meant in a definition that has no mistakes; see `doubts_about`."""
    if problems(definition):
        return []
    variants = variants_of(definition)
    if not variants:
        return doubts_about(definition_of(definition))
    return [
        in_version(place, one) for place, variant in variants for one in doubts_about(definition_of(variant.definition))
    ]


def _own_problems(definition: Any) -> list[Mistake]:
    found = _mistakes(definition_of, definition)
    if not isinstance(definition, Mapping):
        return found
    told = {mistake.field.partition(".")[0] for mistake in found}
    if isinstance(text := definition.get("text"), str) and "text" not in told:
        found += _template_mistakes(text)
    named = definition.get("output_format")
    if named is not None and "output_format" not in told:
        found += _mistakes(output_schema, named)
    return found


def preview(
    definition: Mapping[str, Any], context: AgentContext, private_state: Mapping[str, Any] | None = None
) -> Messages:
    """The messages that the agent's model would be sent in `context`. `private_state` is what the agent keeps there.

    Raises `AgentConfigurationError` with every mistake in the definition, also when its text cannot be rendered on this
    board.
    """
    if found := problems(definition):
        raise AgentConfigurationError("; ".join(map(str, found)), found)
    agent = agent_of(definition).serving(context.session_id)
    if not isinstance(agent, DynamicAgent):
        raise TypeError(f"a definition makes a DynamicAgent, not {type(agent).__name__}")
    agent.private_state = dict(private_state or {})
    try:
        return agent.prompt(context)
    except PromptTemplateError as error:
        raise AgentConfigurationError(f"text: {error}", [Mistake("text", str(error))]) from error


def _mistakes(check: Callable[[Any], object], value: Any) -> list[Mistake]:
    try:
        check(value)
    except AgentConfigurationError as error:
        return list(error.mistakes)
    return []


def _template_mistakes(text: str) -> list[Mistake]:
    try:
        check_template(text)
    except PromptTemplateError as error:
        return [Mistake("text", str(error))]
    return []
