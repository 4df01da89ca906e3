"""The schedules' addresses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from store import TenantStore
from store.schedules import schedules_of
from tests.web.kit import NASTY, Caller
from web.factory import Web

Run = Callable[[Any], Any]
JOKE = {"moniker": "joke", "task": "t", "agent_id": "a"}


def test_a_schedule_is_made_shown_listed_changed_and_deleted(api: Caller, web: Web) -> None:
    body = {"cron": "0 9 * * MON-FRI", "timezone": "Europe/Berlin", "agent_create": JOKE, "schedule_id": "daily"}
    made = api.post("/api/schedules", body, 201)
    assert (made["schedule_id"], made["kind"], made["rule"], made["enabled"], made["agent_id"]) == (
        "daily",
        "agent_create",
        {"cron": "0 9 * * MON-FRI"},
        True,
        "a",
    )
    assert made["upcoming"][0] == made["next_at"]
    moments = [datetime.fromisoformat(moment) for moment in made["upcoming"]]
    assert moments == sorted(set(moments))
    assert len(moments) == 3
    assert made["payload"]["payload"]["moniker"] == "joke"
    assert api.get("/api/schedules/daily") == made
    other = api.post("/api/schedules", {"every_s": 60, "agent_create": JOKE, "enabled": False}, 201)
    assert (other["next_at"], other["upcoming"]) == (None, [])
    assert [one["schedule_id"] for one in api.get("/api/schedules")["items"]] == [other["schedule_id"], "daily"]
    client = web.app.test_client()
    off = client.patch("/api/schedules/daily", json={"enabled": False})
    assert (off.status_code, off.get_json()["enabled"], off.get_json()["next_at"]) == (200, False, None)
    assert client.patch("/api/schedules/daily", json={"enabled": True}).get_json()["next_at"] == made["next_at"]
    assert client.delete("/api/schedules/daily").get_json() == {"schedule_id": "daily", "deleted": True}
    for answer in [client.delete("/api/schedules/daily"), client.patch("/api/schedules/daily", json={"enabled": True})]:
        assert answer.status_code == 404
    api.get("/api/schedules/daily", 404)


def test_an_input_is_scheduled_for_a_session_or_an_agent(api: Caller) -> None:
    api.post("/api/agents", {"moniker": "echo", "session_id": "s"})
    said = {"text": "x", "urgency": 5}
    to_session = api.post("/api/schedules", {"every_s": 5, "agent_input": {**said, "session_id": "s"}}, 201)
    assert (to_session["kind"], to_session["session_id"], to_session["agent_id"]) == ("agent_input", "s", "echo")
    to_agent = api.post("/api/schedules", {"every_s": 5, "agent_input": {**said, "agent_id": "echo"}}, 201)
    assert (to_agent["session_id"], to_agent["agent_id"]) == (None, "echo")
    for unknown in [{"session_id": "nobody"}, {"agent_id": "nobody"}]:
        api.post("/api/schedules", {"every_s": 5, "agent_input": {**said, **unknown}}, 404)
    api.post("/api/schedules", {"every_s": 5, "agent_create": {**JOKE, "conversation_id": "none"}}, 404)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"every_s": 5},
        {"agent_create": JOKE},
        {"every_s": 5, "cron": "* * * * *", "agent_create": JOKE},
        {"every_s": 5, "agent_create": JOKE, "agent_input": {"text": "x", "agent_id": "a"}},
        {"every_s": 5, "agent_input": {"text": "x"}},
        {"every_s": 5, "agent_input": {"text": "x", "agent_id": "a", "session_id": "s"}},
        {"every_s": 0, "agent_create": JOKE},
        {"every_s": "5", "agent_create": JOKE},
        {"cron": "* * *", "agent_create": JOKE},
        {"cron": "* * * * *", "timezone": "Moon/Base", "agent_create": JOKE},
        {"every_s": 5, "agent_create": {**JOKE, "session_id": "s"}},
        {"every_s": 5, "agent_create": {**JOKE, "idempotency_key": "k"}},
        {"every_s": 5, "agent_create": {"moniker": "nope"}},
        *[{"cron": text, "agent_create": JOKE} for text in NASTY],
    ],
)
def test_what_cannot_be_used_is_refused(api: Caller, body: dict[str, Any]) -> None:
    assert api.post("/api/schedules", body, 422)["errors"]
    assert api.get("/api/schedules")["items"] == []


def test_an_id_is_used_once(api: Caller) -> None:
    body = {"every_s": 5, "agent_create": JOKE, "schedule_id": "one"}
    api.post("/api/schedules", body, 201)
    api.post("/api/schedules", body, 409)


def test_a_rule_of_a_newer_version_is_shown_without_moments(api: Caller, db: TenantStore, run: Run) -> None:
    api.post("/api/schedules", {"every_s": 5, "agent_create": JOKE, "schedule_id": "one"}, 201)

    async def change() -> None:
        await schedules_of(db).change(("one",), rule={"moon": "full"})

    run(change())
    assert api.get("/api/schedules/one")["upcoming"] == []
