"""An endpoint as data: its address, what it takes, what it answers and the coroutine that does it.

The same record registers the route, checks its query and body, and is described in /openapi.json, so that the three
cannot drift apart. Handlers run on the store's loop and never see Flask.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal, TypeVar

import orjson
from flask import Blueprint, Response, request
from pydantic import BaseModel, ValidationError

from store import NotFoundError, StoreUnavailableError, TenantStore
from store.budgets import split_scope
from web.body import json_body
from web.bridge import StoreBridge
from web.catalogue import Catalogue
from web.depth import QueueDepth
from web.ids import checked_id, longest_id
from web.problems import field_errors, refused
from web.queries import Query
from web.schemas import Body
from web.settings import WebSettings
from web.shapes import Json
from web.turns import Turns
from web.vitals import Vitals
from web.workshop import NO_WORKSHOP, Workshop

T = TypeVar("T")
Q = TypeVar("Q", bound=Query)

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


@dataclass(frozen=True, slots=True)
class Api:
    """What handlers work with."""

    db: TenantStore
    catalogue: Catalogue
    turns: Turns
    vitals: Vitals
    depth: QueueDepth
    workshop: Workshop = NO_WORKSHOP


@dataclass(frozen=True, slots=True)
class Answer:
    """What a handler answers."""

    body: Json
    status: int = 200


#: called with the api, then by keyword the path's ids and, where there is one, `query` and `body`
Handler = Callable[..., Coroutine[Any, Any, Answer]]


@dataclass(frozen=True, slots=True)
class One:
    """The answer is one object of this type."""

    kind: Any


@dataclass(frozen=True, slots=True)
class Many:
    """The answer is a list of objects of this type, with a count of each of `counted` where that is given."""

    kind: Any
    counted: type[StrEnum] | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """One endpoint. `path` is in OpenAPI's form: `/api/sessions/{session_id}`."""

    method: Method
    path: str
    handler: Handler
    tag: str
    summary: str
    answer: One | Many
    status: int = 200
    query: type[Query] | None = None
    body: type[Body] | None = None
    body_may_be_empty: bool = False
    #: the errors it can answer besides those that every endpoint can
    problems: Sequence[int] = field(default=())
    #: whether it puts work into the queue, which may be full; control actions always pass
    enqueues: bool = False

    @property
    def name(self) -> str:
        """The handler's name, which is also the operation's id."""
        return str(getattr(self.handler, "__name__", self.path))

    @property
    def rule(self) -> str:
        """The path in Flask's form."""
        return self.path.replace("{", "<").replace("}", ">")


IDS_THAT_NAME: Final[Mapping[str, str]] = {
    "session_id": "session",
    "agent_id": "agent",
    "conversation_id": "conversation",
    "action_id": "action",
    "approval_id": "approval",
    "schedule_id": "schedule",
    "tool_name": "tool",
    "scope": "budget",
    "memory_id": "memory",
    "trace_id": "trace",
    "insight_id": "insight",
}


def blueprint_of(name: str, operations: Sequence[Operation], door: Door) -> Blueprint:
    """The routes of some operations."""
    found = Blueprint(name, __name__)
    for operation in operations:
        view = door.view(operation)
        found.add_url_rule(operation.rule, operation.name, view, methods=[operation.method])
    return found


@dataclass(frozen=True, slots=True)
class Door:
    """Takes requests in: checks them, has them handled on the store's loop, and answers."""

    api: Api
    bridge: StoreBridge
    settings: WebSettings

    def view(self, operation: Operation) -> Callable[..., Response]:
        """The Flask view of an operation."""

        def view(**ids: str) -> Response:
            arguments: dict[str, Any] = {name: _path_id(name, value) for name, value in ids.items()}
            if operation.query is None:
                _no_query()
            else:
                arguments["query"] = _query(operation.query)
            if operation.body is not None:
                arguments["body"] = self._body(operation, operation.body)
            answer = self.answer(operation, arguments)
            return Response(orjson.dumps(answer.body), answer.status, mimetype="application/json")

        return view

    def answer(self, operation: Operation, arguments: dict[str, Any]) -> Answer:
        """What an operation answers to arguments that were checked, whichever way they came."""
        return ask(self.bridge, self._handled(operation, arguments))

    async def _handled(self, operation: Operation, arguments: dict[str, Any]) -> Answer:
        if operation.enqueues:
            async with self.api.depth.room():
                return await operation.handler(self.api, **arguments)
        return await operation.handler(self.api, **arguments)

    def _body(self, operation: Operation, model: type[Body]) -> BaseModel:
        found = json_body(
            request,
            max_bytes=self.settings.max_body_bytes,
            max_depth=self.settings.max_json_depth,
            may_be_empty=operation.body_may_be_empty,
        )
        return model.model_validate(found)


def ask(bridge: StoreBridge, work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that reads or writes the store.

    Raises `StoreUnavailableError` when the store cannot be read: the engine says so with whatever error it has.
    """
    try:
        return bridge.run(work)
    except (OSError, RuntimeError, CancelledError) as error:
        raise StoreUnavailableError(f"the store could not be read ({error}); try again in a moment") from error


def _path_id(name: str, value: str) -> str:
    """An id from the path; one that cannot be an id is one that is not there."""
    try:
        return _scope(value) if name == "scope" else checked_id(value, longest=longest_id(name))
    except ValueError as error:
        raise NotFoundError(IDS_THAT_NAME.get(name, name), value) from error


def _scope(value: str) -> str:
    """A budget's scope; the id in it follows the rules of ids."""
    _, key = split_scope(value)
    if key:
        checked_id(key)
    return value


def _query(model: type[Query]) -> Query:
    given = request.args.to_dict(flat=False)
    repeated = [name for name, values in given.items() if len(values) > 1]
    if repeated:
        raise refused(400, f"give {', '.join(repeated)} only once")
    return read_query(model, {name: values[0] for name, values in given.items()})


def read_query(model: type[Q], given: Mapping[str, Any]) -> Q:
    """What an address asks for; a value that cannot be read is a 400 that names it."""
    try:
        return model.model_validate(given)
    except ValidationError as error:
        errors = field_errors(error)
        words = "; ".join(f"{item['field']}: {item['message']}" for item in errors)
        raise refused(400, f"the address asks for something that cannot be given: {words}", errors=errors) from error


def _no_query() -> None:
    if request.args:
        raise refused(400, f"unknown parameters: {', '.join(request.args)}; this address takes none")
