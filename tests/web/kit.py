"""What the web tests are made of: a catalogue, rows, and a small client for the API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from store import AgentState, AgentStep, SessionStatus, StepStatus, StoreOptions, TenantStore, open_store
from store.clock import SystemClock, SystemIds
from store.ids import ActionId, AgentId, ConversationId, SessionId, step_id
from tests.freshstore import put_fresh_store
from web.catalogue import ConfigError, ModelInfo, MonikerEntry
from web.factory import StoreOpener

START = datetime(2026, 1, 1, tzinfo=UTC)
MODEL = ModelInfo("offline", offline=True)
NASTY = (
    "' or 1=1 --",
    '" or ""="',
    "%",
    "_",
    "\\",
    "’; drop table queue; --",
    "s1' AND 'a'='a",
    "null",
    "\u202eabc",
    "😀",
    "é",
    "e\u0301",
    "*",
)


def echo_check(config: dict[str, Any], task: str) -> dict[str, Any]:
    """Accepts `text`, which the task fills, and `steps`."""
    unknown = sorted(config.keys() - {"text", "steps"})
    errors = [{"field": f"config.{name}", "message": "unknown field"} for name in unknown]
    if not isinstance(config.get("steps", 1), int):
        errors.append({"field": "config.steps", "message": "give a whole number"})
    if errors:
        raise ConfigError(errors)
    return {"text": task, "steps": 1, **config}


CATALOGUE = {
    "echo": MonikerEntry(
        name="echo",
        summary="Says it again",
        config_schema={"type": "object", "properties": {"text": {"type": "string"}}},
        example={"text": "hi"},
        task_field="text",
        stop_on_done=True,
        check=echo_check,
    ),
    "joke": MonikerEntry("joke", "Tells jokes", {"type": "object"}, {}, None, False, lambda config, _: config),
}


def opener(folder: Path) -> StoreOpener:
    """Opens a store in `folder`."""

    async def open_db() -> TenantStore:
        put_fresh_store(folder)
        store = await open_store(StoreOptions(url=str(folder)), clock=SystemClock(), ids=SystemIds())
        return store.tenant()

    return open_db


def state(session_id: str, **given: Any) -> AgentState:
    """A session's row."""
    agent_id, conversation_id = given.pop("agent_id", "echo"), given.pop("conversation_id", None)
    values: dict[str, Any] = {
        "moniker": "echo",
        "status": SessionStatus.RUNNING,
        "reason": None,
        "iteration": -1,
        "step_token": None,
        "next_step_token": "0",
        "result": None,
        "context": {"seen": 1},
        "inbox": None,
        "spec": {"task": "t", "config": {}, "stop_on_done": True, "max_steps": None, "max_runtime_s": None},
        "last_error": None,
        "usage": None,
        "wake_at": None,
        "owner": None,
        "epoch": 1,
        "created_at": START,
        "updated_at": START,
        **given,
    }
    return AgentState(
        agent_id=AgentId(agent_id),
        session_id=SessionId(session_id),
        conversation_id=None if conversation_id is None else ConversationId(conversation_id),
        **values,
    )


def step(session_id: str, iteration: int, **given: Any) -> AgentStep:
    """A step's row."""
    agent_id, action_id = given.pop("agent_id", "echo"), given.pop("action_id", None)
    values: dict[str, Any] = {
        "created_at": START + timedelta(seconds=iteration),
        "iteration": iteration,
        "step_token": str(iteration),
        "next_step_token": str(iteration + 1),
        "status": StepStatus.RUNNING,
        "text": f"step {iteration}",
        "data": None,
        "state": {"n": iteration},
        "guidance": None,
        "notes": None,
        "wait": None,
        "latency_ms": 1.5,
        "error": None,
        "usage": None,
        "epoch": 1,
        **given,
    }
    return AgentStep(
        id=step_id(SessionId(session_id), iteration),
        agent_id=AgentId(agent_id),
        session_id=SessionId(session_id),
        action_id=None if action_id is None else ActionId(action_id),
        **values,
    )


@dataclass(frozen=True)
class Caller:
    """Calls the API and checks the status."""

    client: FlaskClient

    def get(self, path: str, expect: int = 200, **query: Any) -> Any:
        """GET; the JSON of the answer."""
        return self._checked(self.client.get(path, query_string=query), expect)

    def post(self, path: str, body: Any = None, expect: int = 202, headers: Mapping[str, str] | None = None) -> Any:
        """POST an object; the JSON of the answer."""
        data = json.dumps({} if body is None else body)
        answer = self.client.post(path, data=data, content_type="application/json", headers=headers)
        return self._checked(answer, expect)

    def raw(self, path: str, body: bytes, expect: int, content_type: str | None = "application/json") -> Any:
        """POST bytes as they are."""
        return self._checked(self.client.post(path, data=body, content_type=content_type), expect)

    def _checked(self, response: TestResponse, expect: int) -> Any:
        assert response.status_code == expect, (response.status_code, response.get_data(as_text=True)[:500])
        if expect >= 400:
            assert response.mimetype == "application/problem+json"
            assert_problem(response.json, expect)
        return response.json


def assert_problem(problem: Any, status: int) -> None:
    """A problem has all that RFC 9457 and the contract ask for."""
    assert problem["status"] == status
    assert {"type", "title", "status", "detail", "instance"} <= problem.keys()
    assert problem["detail"]
    for error in problem.get("errors", ()):
        assert error.keys() == {"field", "message"}


def gathered(*work: Any) -> Any:
    """Several coroutines at the same time, as one."""

    async def run() -> list[Any]:
        return list(await asyncio.gather(*work))

    return run()
