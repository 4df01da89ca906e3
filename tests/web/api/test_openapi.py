"""The OpenAPI document is valid, and says what is served: no more, no less, and in the very shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from store import TenantStore, append_agent_step, save_agent, upsert_agent_state
from store.ids import AgentId
from store.memories import memories_of
from tests.store.rows import a_memory
from tests.web.api.test_approvals import asking
from tests.web.kit import START, Caller, state, step
from web.api.table import OPERATIONS
from web.factory import Web

#: what is served but is no part of the API: pages, their files, and the document itself
NOT_API = (
    "/search",
    "/static/",
    "/openapi.json",
    "/docs",
    "/frame",
    "/sessions",
    "/copilot",
    "/conversations",
    "/approvals",
    "/queue",
    "/budgets",
    "/tools",
    "/memories",
    "/metrics",
)


@pytest.fixture
def document(api: Caller) -> Any:
    return api.get("/openapi.json")


def test_it_is_valid(document: Any) -> None:
    validate(document)
    assert document["openapi"].startswith("3.1")


def test_it_names_every_route_and_no_other(web: Web, document: Any) -> None:
    described = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    served = {
        (method, str(rule).replace("<", "{").replace(">", "}"))
        for rule in web.app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
        if str(rule) != "/" and not str(rule).startswith(NOT_API)
    }
    assert described == served
    assert len(described) == len(OPERATIONS)


def test_every_operation_has_a_name_of_its_own_and_words_for_people(document: Any) -> None:
    operations = [operation for item in document["paths"].values() for operation in item.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    assert all(operation["summary"] and operation["description"] and operation["tags"] for operation in operations)


def test_every_write_tells_that_pages_of_other_sites_are_refused(document: Any) -> None:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            assert ("403" in operation["responses"]) is (method != "get"), (method, path)


def test_limits_are_told(document: Any) -> None:
    body = document["components"]["schemas"]["CreateAgent"]
    assert body["additionalProperties"] is False
    assert body["required"] == ["moniker"]
    queries = {one["name"]: one["schema"] for one in document["paths"]["/api/agent-steps"]["get"]["parameters"]}
    assert (queries["limit"]["minimum"], queries["limit"]["maximum"]) == (1, 1000)
    assert queries["status"]["enum"] == ["running", "waiting", "done", "error"]


def test_answers_have_the_described_shapes(
    document: Any, api: Caller, db: TenantStore, run: Callable[[Any], Any]
) -> None:
    run(upsert_agent_state(db, [state("s1", wake_at=START), asking("s2")]))
    run(append_agent_step(db, step("s1", 0)))
    run(memories_of(db).insert_missing([a_memory("m", user_id="mia"), a_memory("n", user_id="mia")]))
    run(save_agent(db, AgentId("echo"), "echo", {}))
    made = api.post("/api/agents", {"moniker": "echo", "task": "t"})
    thread = api.post("/api/conversations", {"title": "t", "created_by": "u", "conversation_id": "c1"}, 201)
    said = api.post("/api/conversations/c1/messages", {"text": "hi", "data": {"a": 1}})
    member = api.post("/api/conversations/c1/participants", {"session_id": "s1"}, 201)
    told = api.post("/api/sessions/s1/input", {"text": "x"})
    later = {"agent_input": {"session_id": "s1", "text": "x"}, "every_s": 60, "schedule_id": "every-minute"}
    scheduled = api.post("/api/schedules", later, 201)
    seen = {
        ("get", "/api/approvals", "200"): api.get("/api/approvals"),
        ("post", "/api/approvals/{approval_id}", "202"): api.post("/api/approvals/s2:3:0", {"decision": "repeat"}),
        ("post", "/api/queue/{action_id}/cancel", "202"): api.post(f"/api/queue/{told['action_id']}/cancel"),
        ("post", "/api/sessions/{session_id}/fork", "202"): api.post("/api/sessions/s1/fork", {"iteration": 0}),
        ("post", "/api/schedules", "201"): scheduled,
        ("get", "/api/schedules", "200"): api.get("/api/schedules"),
        ("get", "/api/schedules/{schedule_id}", "200"): api.get("/api/schedules/every-minute"),
        ("post", "/api/agents", "202"): made,
        ("get", "/api/agents", "200"): api.get("/api/agents"),
        ("get", "/api/agents/{agent_id}/sessions", "200"): api.get("/api/agents/echo/sessions"),
        ("get", "/api/sessions", "200"): api.get("/api/sessions"),
        ("get", "/api/sessions/{session_id}", "200"): api.get(f"/api/sessions/{made['session_id']}"),
        ("post", "/api/sessions/{session_id}/input", "202"): told,
        ("get", "/api/agent-steps", "200"): api.get("/api/agent-steps"),
        ("get", "/api/agent-steps/latest", "200"): api.get("/api/agent-steps/latest", session_id="s1"),
        ("post", "/api/conversations", "201"): thread,
        ("get", "/api/conversations", "200"): api.get("/api/conversations"),
        ("get", "/api/conversations/{conversation_id}", "200"): api.get("/api/conversations/c1"),
        ("post", "/api/conversations/{conversation_id}/participants", "201"): member,
        ("get", "/api/conversations/{conversation_id}/participants", "200"): api.get(
            "/api/conversations/c1/participants"
        ),
        ("post", "/api/conversations/{conversation_id}/messages", "202"): said,
        ("get", "/api/conversations/{conversation_id}/messages", "200"): api.get("/api/conversations/c1/messages"),
        ("get", "/api/queue", "200"): api.get("/api/queue"),
        ("get", "/api/queue/{action_id}", "200"): api.get(f"/api/queue/{told['action_id']}"),
        ("get", "/api/monikers", "200"): api.get("/api/monikers"),
        ("get", "/api/memories", "200"): api.get("/api/memories"),
        ("get", "/api/memories/{memory_id}", "200"): api.get("/api/memories/m"),
        ("delete", "/api/memories/{memory_id}", "200"): api.client.delete("/api/memories/m").json,
        ("delete", "/api/memories", "200"): api.client.delete("/api/memories?user_id=mia").json,
        ("get", "/healthz", "200"): api.get("/healthz"),
        ("get", "/readyz", "200"): api.get("/readyz"),
    }
    for (method, path, status), answer in seen.items():
        schema = document["paths"][path][method]["responses"][status]["content"]["application/json"]["schema"]
        checker = Draft202012Validator({**schema, "components": document["components"]})
        assert [error.message for error in checker.iter_errors(answer)] == [], path
        assert _same_fields(schema, answer, document), path


def _same_fields(schema: Any, answer: Any, document: Any) -> bool:
    """Whether the answer has exactly the fields that are described, in lists too."""
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[-1]]
    if "items" in schema.get("properties", {}):
        assert answer["items"], "a list to look at must not be empty"
        return all(_same_fields(schema["properties"]["items"]["items"], one, document) for one in answer["items"])
    return bool(set(schema["properties"]) == set(answer))
