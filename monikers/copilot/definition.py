"""An agent as a person writes it down: the JSON of spec 2 §9, checked, with errors that name the field and the cure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from monikers.copilot.agent import DEFAULT_MODEL
from monikers.copilot.errors import AgentConfigurationError, Mistake
from monikers.copilot.models import TriggerType

DEFAULT_COOLDOWN_S = 15.0
DEFAULT_CONTEXT_TURNS = 6
#: what may be asked of a model beside its prompt
MODEL_PARAMS = frozenset(
    "temperature top_p top_k min_p presence_penalty frequency_penalty repetition_penalty seed stop logit_bias "
    "reasoning_effort verbosity service_tier max_tokens user".split()
)
_MODES = tuple(trigger for trigger in TriggerType if trigger is not TriggerType.FORCE)
_LIKE = 0.85


def _modes(value: Any) -> Any:
    named = [value] if isinstance(value, str) else value
    if not isinstance(named, list | tuple) or not named:
        raise ValueError(f"is no mode: write one of {', '.join(_MODES)}, or a list of them")
    for one in named:
        if one not in _MODES:
            raise ValueError(f"{str(one)[:40]!r} is not known: write one of {', '.join(_MODES)}")
    return list(dict.fromkeys(TriggerType(one) for one in named))


def _names(value: Any) -> Any:
    named = value.split(",") if isinstance(value, str) else value
    if named is None:
        return []
    if not isinstance(named, list | tuple) or not all(isinstance(one, str) for one in named):
        raise ValueError('is no list of texts: write ["one", "two"] or "one, two"')
    return [one.strip() for one in named if one.strip()]


def _params(value: Any) -> Any:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError('is no object: write {"temperature": 0.2}')
    if unknown := sorted(map(str, set(value) - MODEL_PARAMS)):
        raise ValueError(f"{unknown[0]!r} cannot be set: use {', '.join(sorted(MODEL_PARAMS))}")
    return dict(value)


Names = Annotated[list[str], BeforeValidator(_names)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
SomeSeconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Tokens = Annotated[int, Field(ge=1)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class RateLimitPart(_Part):
    """At most `runs` starts in any `per_s` seconds of a session."""

    runs: Annotated[int, Field(ge=1)]
    per_s: SomeSeconds = 60.0


class TriggerPart(_Part):
    """When the agent is asked. Times in seconds."""

    mode: Annotated[list[TriggerType], BeforeValidator(_modes)] = [TriggerType.TURN_BASED]
    cooldown: Seconds = DEFAULT_COOLDOWN_S
    keywords: Names = []
    silence_threshold: SomeSeconds | None = None
    subscribed_events: Names = []
    interval: SomeSeconds | None = None
    rate_limit: RateLimitPart | None = None
    priority: int | None = None


class ModelPart(_Part):
    """What the agent asks and how much it reads. `context_turns` 0 is the whole transcript that it is given."""

    model: Annotated[str, Field(min_length=1)] | None = None
    context_turns: Annotated[int, Field(ge=0)] | None = None
    timeout: SomeSeconds | None = None
    max_tokens: Tokens | None = None
    params: Annotated[dict[str, Any], BeforeValidator(_params)] = Field(default={}, alias="model_params")

    @model_validator(mode="before")
    @classmethod
    def _params_beside(cls, given: Any) -> Any:
        """Parameters may also stand beside the model's name."""
        if not isinstance(given, Mapping) or not isinstance(given.get("model_params", {}), Mapping):
            return given
        beside = {key: given[key] for key in given if key in MODEL_PARAMS and key != "max_tokens"}
        return {**given, "model_params": {**beside, **given.get("model_params", {})}} if beside else given


class Definition(_Part):
    """One agent's JSON. Fields of other programs are left alone; a misspelt one of ours is refused."""

    id: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    name: Annotated[str, Field(min_length=1, max_length=200)]
    text: str = ""
    trigger: TriggerPart = Field(default=TriggerPart(), alias="trigger_config")
    trigger_conditions: dict[str, Any] | None = None
    priority: int | None = None
    model_part: ModelPart = Field(default=ModelPart(), alias="model_config")
    model: Annotated[str, Field(min_length=1)] | None = None
    context_turns: Annotated[int, Field(ge=0)] | None = None
    timeout: SomeSeconds | None = None
    max_tokens: Tokens | None = None
    model_params: Annotated[dict[str, Any], BeforeValidator(_params)] = {}
    output_format: str | dict[str, Any] = "default"
    include_context: bool = True
    groups: Names = []
    needs_approval: bool = False
    #: see variants.py
    versions: list[dict[str, Any]] | None = None

    @property
    def asked_model(self) -> str:
        """The model's name."""
        return self.model_part.model or self.model or DEFAULT_MODEL

    @property
    def turns(self) -> int:
        """How many segments it reads; 0 for all."""
        return next(
            (turns for turns in (self.model_part.context_turns, self.context_turns) if turns is not None),
            DEFAULT_CONTEXT_TURNS,
        )

    @property
    def weight(self) -> int:
        """Its priority in a merge."""
        return next((found for found in (self.priority, self.trigger.priority) if found is not None), 0)


def definition_of(config: Any) -> Definition:
    """The checked form of an agent's JSON.

    Raises `AgentConfigurationError` with every mistake: its field, what is wrong, what to write.
    """
    if not isinstance(config, Mapping):
        said = f"the agent is a {type(config).__name__}, not an object of its fields"
        raise AgentConfigurationError(said, [Mistake("", said)])
    given = {str(key): value for key, value in config.items() if value is not None or key == "trigger_conditions"}
    if "name" not in given and isinstance(given.get("id"), str):
        given["name"] = given["id"]
    mistakes = _misspelt(given, Definition, "")
    for alias, part in (("trigger_config", TriggerPart), ("model_config", ModelPart)):
        if isinstance(given.get(alias), Mapping):
            given[alias] = {key: value for key, value in given[alias].items() if value is not None}
            mistakes += _misspelt(given[alias], part, f"{alias}.")
    try:
        found = Definition.model_validate(given)
    except ValidationError as error:
        mistakes += [_told(one) for one in error.errors()]
        raise AgentConfigurationError(_said(given, mistakes), mistakes) from error
    if mistakes:
        raise AgentConfigurationError(_said(given, mistakes), mistakes)
    return found


def _said(given: Mapping[str, Any], mistakes: list[Mistake]) -> str:
    named = str(given.get("id") or given.get("name") or "(unnamed)")[:80]
    return f"agent {named!r}: {'; '.join(map(str, mistakes))}"


def _told(error: Any) -> Mistake:
    place = ".".join(str(part) for part in error["loc"] if part not in ("str", "dict[str,any]", "float", "int"))
    if error["type"] == "missing":
        return Mistake(place, "is missing: write one")
    got = error["input"]
    shown = f", not {str(got)[:40]!r}" if isinstance(got, str | int | float | bool) else ""
    return Mistake(place, f"{error['msg'].removeprefix('Value error, ')}{shown}")


def _misspelt(given: Mapping[str, Any], part: type[BaseModel], place: str) -> list[Mistake]:
    known = [field.alias or name for name, field in part.model_fields.items()]
    found = []
    for key in given:
        near = difflib.get_close_matches(str(key), known, n=1, cutoff=_LIKE) if key not in known else []
        if near and near[0] not in given:
            found.append(Mistake(f"{place}{key}", f"is not known: write {near[0]!r}"))
    return found


def doubts_about(found: Definition) -> list[Mistake]:
    """What its author can hardly have meant, though it can run: it waits for what it has not named, or has no words."""
    doubts = []
    for mode, names, field in (
        (TriggerType.EVENT, found.trigger.subscribed_events, "subscribed_events"),
        (TriggerType.KEYWORD, found.trigger.keywords, "keywords"),
    ):
        if mode in found.trigger.mode and not names:
            said = f"has the mode {mode} and no {field}: it is not asked by it"
            doubts.append(Mistake("trigger_config.mode", said))
    if not found.text.strip():
        doubts.append(Mistake("text", "has no text: its model is told the format and nothing of what to look for"))
    return doubts
