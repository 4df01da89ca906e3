"""The OpenAPI 3.1 document, made from the same operations that register the routes and check the requests."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from web.ids import id_schema, longest_id
from web.problems import PROBLEM_TYPE
from web.routes import Many, One, Operation
from web.shapes import Json, shown_fields
from web.version import VERSION

PATH: Final = "/openapi.json"
_REF: Final = "#/components/schemas/{model}"
_ALWAYS: Final = (421, 500, 503)
_WITH_QUERY: Final = (400,)
_WITH_BODY: Final = (400, 403, 413, 415, 422)
_MEANINGS: Final = {
    400: "The request cannot be read: malformed JSON, an unknown parameter, a value that is none.",
    403: "A page of another site sent it.",
    404: "There is nothing with this id.",
    409: "It contradicts what is stored: an id in use, a session that has ended.",
    413: "The body is too large.",
    415: "The body is not application/json.",
    421: "The Host header names another server.",
    422: "A field is wrong; `errors` names each.",
    500: "A fault of ours; the log says more.",
    429: "The queue is full; come again after `Retry-After` seconds.",
    503: "The store does not answer; try again after `Retry-After` seconds.",
}
_PROBLEM: Final[Json] = {
    "type": "object",
    "description": "RFC 9457",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"field": {"type": "string"}, "message": {"type": "string"}},
                "required": ["field", "message"],
            },
        },
    },
    "required": ["type", "title", "status", "detail", "instance"],
}


def document(operations: Sequence[Operation]) -> Json:
    """The whole document."""
    schemas = _Schemas(operations)
    paths: dict[str, Json] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Stepwell",
            "version": VERSION,
            "description": "Start agents, talk to them, and read what they did. What is accepted is stored.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name} for name in dict.fromkeys(operation.tag for operation in operations)],
        "paths": paths,
        "components": {"schemas": {**schemas.components, "Problem": _PROBLEM}},
    }


class _Schemas:
    """The JSON Schema of every type in use, by type."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        wanted: dict[Any, JsonSchemaMode] = {}
        for operation in operations:
            wanted[operation.answer.kind] = "serialization"
            if operation.body is not None:
                wanted[operation.body] = "validation"
        adapters = [(kind, mode, TypeAdapter(kind)) for kind, mode in wanted.items()]
        by_kind, shared = TypeAdapter.json_schemas(adapters, ref_template=_REF)
        self.components: Json = shared.get("$defs", {})
        for record in (kind for kind in wanted if isinstance(kind, type) and dataclasses.is_dataclass(kind)):
            _leave_out_inner_fields(self.components.get(record.__name__, {}), shown_fields(record))
        self._by_kind = {kind: schema for (kind, _), schema in by_kind.items()}

    def of(self, kind: Any) -> Json:
        """The schema of a type, as a reference where it has a name."""
        return dict(self._by_kind[kind])


def _leave_out_inner_fields(schema: Json, shown: Iterable[str]) -> None:
    """Take what never goes over the wire out of a record's schema."""
    keep = set(shown)
    schema["properties"] = {name: kind for name, kind in schema.get("properties", {}).items() if name in keep}
    schema["required"] = list(schema["properties"])


def _operation(operation: Operation, schemas: _Schemas) -> Json:
    found: Json = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.handler.__doc__ or "",
        "parameters": [*_path_parameters(operation), *_query_parameters(operation)],
        "responses": {str(operation.status): _success(operation, schemas), **_errors(operation)},
    }
    if operation.body is not None:
        content = {"application/json": {"schema": schemas.of(operation.body)}}
        found["requestBody"] = {"required": not operation.body_may_be_empty, "content": content}
    return found


def _path_parameters(operation: Operation) -> list[Json]:
    names = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
    return [{"name": name, "in": "path", "required": True, "schema": id_schema(longest_id(name))} for name in names]


def _query_parameters(operation: Operation) -> list[Json]:
    if operation.query is None:
        return []
    schema = _inlined(operation.query.model_json_schema())
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _without_null(found)}
        for name, found in schema["properties"].items()
    ]


def _inlined(schema: Json) -> Json:
    """A schema with its few references (the enumerations) put in their places."""
    definitions = schema.pop("$defs", {})

    def put_in(value: Any) -> Any:
        if isinstance(value, dict):
            if "$ref" in value:
                return definitions[value["$ref"].rsplit("/", 1)[-1]]
            return {key: put_in(inner) for key, inner in value.items()}
        return [put_in(inner) for inner in value] if isinstance(value, list) else value

    found: Json = put_in(schema)
    return found


def _without_null(schema: Json) -> Json:
    """A parameter is given or left out: null is no choice in an address."""
    choices = [choice for choice in schema.get("anyOf", ()) if choice.get("type") != "null"]
    rest = {key: value for key, value in schema.items() if key not in {"anyOf", "default"} or value is not None}
    if len(choices) != 1:
        return rest
    rest.pop("anyOf", None)
    return {**rest, **choices[0]}


def _success(operation: Operation, schemas: _Schemas) -> Json:
    phrase = HTTPStatus(operation.status).phrase
    return {"description": phrase, "content": {"application/json": {"schema": _answer(operation.answer, schemas)}}}


def _answer(answer: One | Many, schemas: _Schemas) -> Json:
    if isinstance(answer, One):
        return schemas.of(answer.kind)
    properties: Json = {
        "items": {"type": "array", "items": schemas.of(answer.kind)},
        "next_cursor": {"type": ["string", "null"]},
    }
    if answer.counted is not None:
        properties["counts"] = _counts(answer.counted)
    return {"type": "object", "properties": properties, "required": list(properties)}


def _counts(statuses: type[StrEnum]) -> Json:
    names = [status.value for status in statuses]
    return {"type": "object", "properties": {name: {"type": "integer"} for name in names}, "required": names}


def _errors(operation: Operation) -> Json:
    found = {*_ALWAYS, *operation.problems}
    found.update(_WITH_QUERY)
    found.update({429} if operation.enqueues else ())
    found.update(_WITH_BODY if operation.body is not None else ())
    found.update({403} if operation.method != "GET" else ())
    schema = {"$ref": "#/components/schemas/Problem"}
    content = {PROBLEM_TYPE: {"schema": schema}}
    return {str(status): {"description": _MEANINGS[status], "content": content} for status in sorted(found)}
