"""From a model's answer to an agent's response (spec 2 §10.3, appendix D).

**Invariant: whatever came, reading it never raises, and a malformed field costs that field.** What can be mended is
(monikers/copilot/mending.py); what cannot is left out and told in `Reading.problems`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from monikers.copilot import mending
from monikers.copilot.formats import OutputSchema
from monikers.copilot.models import AgentInsight, AgentResponse, InsightType

T = TypeVar("T")

MAX_PROBLEMS = 20
#: what a mapping that says nothing of a field means; null in a mapping switches the field off
_USUAL = {
    "root_key": None,
    "check_field": None,
    "content_field": ["content", "message"],
    "type_field": "type",
    "confidence_field": "confidence",
    "expiry_field": "expiry",
    "action_label_field": "action_label",
    "metadata_field": "metadata",
    "events_field": "events",
    "state_field": "variable_updates",
    "variable_updates_field": None,
    "queue_field": "queue_pushes",
    "facts_field": "facts",
    "memory_field": "memory_updates",
    "data_field": None,
}
_LEGACY_STATE = "state_updates"


@dataclass(slots=True)
class Reading:
    """What an answer says. `usable` is False when it is neither an object nor a list of objects."""

    response: AgentResponse
    usable: bool = True
    problems: list[str] = field(default_factory=list)


def read_answer(raw: Any, schema: OutputSchema, *, agent_id: str, agent_name: str) -> Reading:
    """Read an answer by the mapping of `schema`. A list of answers counts as all of them. Never raises."""
    reader = _Reader(schema.mapping, agent_id, agent_name)
    answers = [part for part in (raw if isinstance(raw, list | tuple) else [raw]) if isinstance(part, Mapping)]
    if not answers and not (isinstance(raw, list | tuple) and not raw):
        reader.note("the answer", f"is a {mending.kind(raw)}, not an object")
        return Reading(reader.response, usable=False, problems=reader.problems)
    for answer in answers:
        reader.read(answer)
    return Reading(reader.response, problems=reader.problems)


class _Reader:
    """Collects one response from one or more answers."""

    def __init__(self, mapping: Mapping[str, Any], agent_id: str, agent_name: str) -> None:
        self._mapping = mapping
        self._id = agent_id
        self._name = agent_name
        self.response = AgentResponse(source_agent_id=agent_id)
        self.problems: list[str] = []

    def note(self, where: str, problem: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(f"{where} {problem}")

    def read(self, answer: Mapping[Any, Any]) -> None:
        said = list(self._said(answer))
        for one in said if self._wants_to_speak(answer, said) else ():
            self._insight(one)
        inside = said[0] if said else {}
        self._updates(answer, inside)

    # --- the insight --------------------------------------------------------

    def _said(self, answer: Mapping[Any, Any]) -> Iterator[Mapping[Any, Any]]:
        """The objects that an insight's fields stand in: the answer, or what it holds under `root_key`."""
        roots = self._names("root_key")
        if not roots or not any(root in answer for root in roots):
            yield answer
            return
        root = next(root for root in roots if root in answer)
        for part in mending.many(answer[root]):
            if isinstance(part, Mapping):
                yield part
            elif isinstance(part, str):
                yield {self._names("content_field")[0] if self._names("content_field") else "content": part}
            elif part is not None:
                self.note(root, f"is a {mending.kind(part)}, not an object")

    def _wants_to_speak(self, answer: Mapping[Any, Any], said: list[Mapping[Any, Any]]) -> bool:
        checks = self._names("check_field")
        found = [place[check] for check in checks for place in (answer, *said) if check in place]
        return not checks or (bool(found) and bool(self._kept(checks[0], mending.flag, found[0], otherwise=False)))

    def _insight(self, said: Mapping[Any, Any]) -> None:
        found = [(name, said[name]) for name in self._names("content_field") if not _is_blank(said.get(name))]
        if not found:
            return
        words = self._kept(found[0][0], mending.content, found[0][1], otherwise=None)
        if words is None:
            return
        insight = AgentInsight(
            agent_id=self._id,
            agent_name=self._name,
            type=self._of(said, "type_field", mending.insight_type, InsightType.SUGGESTION),
            content=words,
            confidence=self._of(said, "confidence_field", mending.confidence, 1.0),
            expiry=self._of(said, "expiry_field", mending.expiry, AgentInsight.model_fields["expiry"].default),
            action_label=self._of(said, "action_label_field", mending.label, None),
            metadata=self._metadata(said),
        )
        self.response.insights.append(insight)

    def _metadata(self, said: Mapping[Any, Any]) -> dict[str, Any]:
        nothing: dict[str, Any] = {}
        found = dict(self._of(said, "metadata_field", mending.fields, nothing))
        named = self._mapping.get("metadata_fields")
        for name, source in (named if isinstance(named, Mapping) else {}).items():
            if said.get(source) is not None:
                found[str(name)] = said[source]
        return found

    # --- what is to be changed --------------------------------------------------------

    def _updates(self, answer: Mapping[Any, Any], inside: Mapping[Any, Any]) -> None:
        out = self.response
        for name, value in self._all(answer, inside, "events_field"):
            found = [self._kept(name, lambda one: mending.event(one, self._id), one) for one in mending.events(value)]
            out.events += [event for event in found if event is not None]
        for name, value in self._all(answer, inside, "facts_field"):
            facts = [self._kept(name, lambda one: mending.fact(one, self._id), one) for one in mending.facts(value)]
            out.facts += [fact for fact in facts if fact is not None]
        for name, value in self._all(answer, inside, "queue_field"):
            for queue, items in self._kept(name, mending.fields, value, otherwise={}).items():
                out.queue_pushes.setdefault(queue, []).extend(mending.many(items))
        memory = self._names("memory_field")
        for key in ("state_field", "variable_updates_field"):
            for name, value in self._all(answer, inside, key):
                into = out.memory_updates if name in memory else out.variable_updates
                into.update(self._kept(name, mending.fields, value, otherwise={}))
        for name, value in self._all(answer, inside, "memory_field"):
            out.memory_updates.update(self._kept(name, mending.fields, value, otherwise={}))
        if answer.get(_LEGACY_STATE) is not None and _LEGACY_STATE not in self._names("state_field"):
            out.state_updates.update(self._kept(_LEGACY_STATE, mending.fields, answer[_LEGACY_STATE], otherwise={}))
        self._sidecar(answer)

    def _sidecar(self, answer: Mapping[Any, Any]) -> None:
        for name in self._names("data_field"):
            if answer.get(name) is not None:
                key = self._mapping.get("data_key")
                self.response.data[key if isinstance(key, str) else name] = answer[name]

    # --- looking --------------------------------------------------------

    def _names(self, key: str) -> list[str]:
        named = self._mapping.get(key, _USUAL[key])
        return [] if named is None else [named] if isinstance(named, str) else list(named)

    def _all(self, answer: Mapping[Any, Any], inside: Mapping[Any, Any], key: str) -> Iterator[tuple[str, Any]]:
        """Every field of that meaning that says something: of the answer, else of the insight's object in it."""
        for name in self._names(key):
            value = answer[name] if name in answer else inside.get(name)
            if value is not None:
                yield name, value

    def _of(self, said: Mapping[Any, Any], key: str, mend: Callable[[Any], T], otherwise: T) -> T:
        for name in self._names(key):
            if said.get(name) is not None:
                found: T = self._kept(name, mend, said[name], otherwise=otherwise)
                return found
        return otherwise

    def _kept(self, name: str, mend: Callable[[Any], Any], value: Any, *, otherwise: Any = None) -> Any:
        """The field as `mend` has it; else, with a note, `otherwise`."""
        try:
            return mend(value)
        except mending.UnusableError as error:
            self.note(name, str(error))
        except Exception as error:  # a value with code of its own, which an agent's own model may give
            self.note(name, f"cannot be read: {type(error).__name__}")
        return otherwise


def _is_blank(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value)
