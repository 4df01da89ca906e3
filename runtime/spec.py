"""What a session is created with: the payload of `agent_create`, checked once at the edge."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, ValidationError

from runtime.errors import RefusedError
from store.conversations import Delivery
from store.limits import Limits, limits_of

OwnLimits = Annotated[Limits, PlainValidator(limits_of), PlainSerializer(Limits.row)]


class ForkedFrom(BaseModel):
    """The step that a session began with."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    session_id: Annotated[str, Field(min_length=1)]
    iteration: Annotated[int, Field(ge=0)]


class SessionSpec(BaseModel):
    """The fixed part of a session. Unknown fields are ignored: an older worker may read a newer client's row."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    moniker: Annotated[str, Field(min_length=1)]
    task: str = ""
    #: under which name tools are granted to it; None is the moniker's name
    agent_type: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    config: dict[str, Any] = Field(default_factory=dict)
    #: None leaves the choice to the moniker
    stop_on_done: bool | None = None
    max_steps: Annotated[int, Field(ge=1)] | None = None
    #: seconds of work, pauses and long waits left out
    max_runtime_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    delivery: Delivery = Delivery.PUSH
    #: where a fork began
    forked_from: ForkedFrom | None = None
    #: at most so many sessions of the agent take a turn at a time
    max_concurrent: Annotated[int, Field(ge=1)] | None = None
    #: its place among sessions that wait for a slot
    urgency: int = 0
    #: what it may spend, unless a stored budget of the session says otherwise
    budget: Annotated[OwnLimits | None, Field(exclude_if=lambda budget: budget is None)] = None
    #: the create action
    action_id: str | None = None


def read_spec(payload: Any, action_id: str) -> SessionSpec:
    """The spec in a create action's payload; raises `RefusedError` that names every bad field."""
    if not isinstance(payload, dict):
        raise RefusedError(f"the payload of agent_create is {type(payload).__name__}; it must be an object")
    try:
        return SessionSpec.model_validate({**payload, "action_id": action_id})
    except ValidationError as error:
        found = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        raise RefusedError(f"the payload of agent_create cannot be used: {found}") from error
