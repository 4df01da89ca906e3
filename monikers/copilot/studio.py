"""What somebody who writes an agent wants to know before it runs: its mistakes, and its prompt on a board of a session.

Both are pure: no model is asked, nothing is kept. They are as bounded as a template is (monikers/copilot/templatework).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from monikers.copilot.agentsets import AgentSet, load_set, set_names
from monikers.copilot.blackboard import Blackboard
from monikers.copilot.definition import Definition, definition_of
from monikers.copilot.dynamic import DynamicAgent
from monikers.copilot.errors import AgentConfigurationError, Mistake
from monikers.copilot.formats import output_schema
from monikers.copilot.models import AgentConfigOverride, AgentContext, TranscriptSegment, TriggerType
from monikers.copilot.prompts import Messages
from monikers.copilot.templates import PromptTemplateError, check_template


@dataclass(frozen=True, slots=True)
class Scene:
    """What an agent would be shown, in the forms in which a session keeps it.

    `board` is `Blackboard.to_dict()`, `engine` what `AgentEngine.export_session` gives, `segments` and `overrides` are
    JSON of their models.
    """

    session_id: str = "preview"
    board: Mapping[str, Any] = field(default_factory=dict)
    segments: Sequence[Mapping[str, Any]] = ()
    engine: Mapping[str, Any] = field(default_factory=dict)
    user_context: str | None = None
    language_directive: str | None = None
    rag_docs: Sequence[str] = ()
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    trigger: TriggerType = TriggerType.FORCE


def scene_of(session_id: str, config: Mapping[str, Any], state: Mapping[str, Any]) -> Scene:
    """What an agent of a session would be shown now: from the session's config and its newest state.

    Words that came as guidance stand with those of the host, as they do in the session's own turns.
    """
    said = [config.get("user_context"), *map(_words, state.get("guidance") or ())]
    overrides = {**(config.get("overrides") or {}), **(state.get("overrides") or {})}
    return Scene(
        session_id=session_id,
        board=state.get("board") or {},
        segments=state.get("segments") or (),
        engine=state.get("engine") or {},
        user_context="\n".join(words for words in said if words) or None,
        language_directive=config.get("language_directive"),
        rag_docs=config.get("rag_docs") or (),
        overrides=overrides,
    )


def _words(guidance: Any) -> str:
    return guidance if isinstance(guidance, str) else json.dumps(guidance, ensure_ascii=False)


def problems(definition: Any) -> list[Mistake]:
    """Every mistake in a definition, its template and its output format; none: `DynamicAgent` takes it.

    Never raises, whatever JSON `definition` is.
    """
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


def preview(definition: Mapping[str, Any], scene: Scene) -> Messages:
    """The messages that the agent's model would be sent now.

    Raises `AgentConfigurationError` with every mistake in the definition, also when the text cannot be rendered on this
    board; `ValueError` when the scene is none that a session keeps.
    """
    if found := problems(definition):
        raise AgentConfigurationError("; ".join(map(str, found)), found)
    agent = DynamicAgent(definition)
    kept = scene.engine.get("agents", {}).get(agent.config.id) or {}
    agent.private_state = dict(kept.get("private_state") or {})
    try:
        return agent.prompt(_context(scene))
    except PromptTemplateError as error:
        raise AgentConfigurationError(f"text: {error}", [Mistake("text", str(error))]) from error


@dataclass(frozen=True, slots=True)
class Draft:
    """A prompt, or the mistakes that there is none for."""

    messages: Messages = field(default_factory=list)
    problems: Sequence[Mistake] = ()


class Studio:
    """What pages ask that somebody writes agents on: all of this as one object, answered rather than raised."""

    def sets(self) -> list[AgentSet]:
        """The sets that ship, by name."""
        return [load_set(name) for name in set_names()]

    def problems(self, definition: Any) -> list[Mistake]:
        """See `problems`."""
        return problems(definition)

    def preview(
        self, definition: Mapping[str, Any], session_id: str, config: Mapping[str, Any], state: Mapping[str, Any]
    ) -> Draft:
        """The prompt in a session, from its config and its newest state; see `preview` and `scene_of`."""
        try:
            return Draft(preview(definition, scene_of(session_id, config, state)))
        except AgentConfigurationError as error:
            return Draft(problems=error.mistakes)
        except (ValueError, TypeError) as error:
            said = f"the state of session {session_id!r} cannot be read, was it written by another version? {error}"
            return Draft(problems=[Mistake("", said[:500])])


def _context(scene: Scene) -> AgentContext:
    return AgentContext(
        session_id=scene.session_id,
        recent_segments=[TranscriptSegment.model_validate(one) for one in scene.segments],
        blackboard=Blackboard.from_dict(scene.board).snapshot(),
        trigger_type=scene.trigger,
        rag_docs=list(scene.rag_docs),
        user_context=scene.user_context,
        language_directive=scene.language_directive,
        agent_config_overrides={
            agent_id: AgentConfigOverride.model_validate(one) for agent_id, one in scene.overrides.items()
        },
    )


def _mistakes(check: Callable[[Any], Definition | Any], value: Any) -> list[Mistake]:
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
