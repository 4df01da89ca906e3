"""Traces over REST: of turns that have ended, of those that run, and in pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from store import StepStatus, TenantStore, append_agent_step, upsert_agent_state
from store.agent_requests import agent_create, agent_input
from store.ids import AgentId, SessionId
from store.marks import mark_action_processed_async
from store.traces import save_traces
from store.tracing import Told, TraceKind, trace_of
from tests.web.kit import START, Caller, state, step

Run = Callable[[Any], Any]
S = SessionId("s")


def stored(run: Run, db: TenantStore, count: int) -> None:
    """A session with traces `t0`, `t1`, ...; each cost as many cents as its number."""
    run(upsert_agent_state(db, [state("s")]))
    traces = []
    for number in range(count):
        steps = [step("s", number, status=StepStatus.WAITING)]
        told = Told(f"t{number}", TraceKind.OWN, S, None, steps, agent_id=AgentId("echo"))
        traces.append(trace_of(told, START + timedelta(hours=1), str))
    run(save_traces(db, [replace(one, cost=n / 100) for n, one in enumerate(traces)], epoch=1))


def test_a_page_of_a_sessions_traces_leads_to_the_next(api: Caller, run: Run, db: TenantStore) -> None:
    stored(run, db, 5)
    first = api.get("/api/sessions/s/trace", limit=3)
    ids = [item["trace_id"] for item in first["items"]]
    assert all(item["spans"] is None for item in first["items"])
    second = api.get("/api/sessions/s/trace", limit=3, cursor=first["next_cursor"])
    ids += [item["trace_id"] for item in second["items"]]
    assert [name for name in ids if name.startswith("t")] == ["t4", "t3", "t2", "t1", "t0"]
    assert second["next_cursor"] is None


def test_one_trace_whole_by_its_id(api: Caller, run: Run, db: TenantStore) -> None:
    stored(run, db, 2)
    trace = api.get("/api/traces/t1")
    assert [(span["id"], span["parent"]) for span in trace["spans"]] == [("turn", None), ("s1", "turn")]
    assert "epoch" not in trace
    assert api.get("/api/sessions/s/trace", trace_id="t1")["items"] == [trace]
    api.get("/api/traces/nothing", 404)
    api.get("/api/sessions/s/trace", 404, trace_id="nothing")
    api.get("/api/sessions/nobody/trace", 404)


def test_traces_are_found_by_what_they_cost_and_when_and_whose(api: Caller, run: Run, db: TenantStore) -> None:
    stored(run, db, 4)
    assert [item["trace_id"] for item in api.get("/api/traces", min_cost="0.02")["items"]] == ["t3", "t2"]
    since = (START + timedelta(seconds=2.5)).isoformat()
    assert [item["trace_id"] for item in api.get("/api/traces", since=since)["items"]] == ["t3"]
    assert api.get("/api/traces", agent_id="somebody")["items"] == []
    assert api.get("/api/traces", status="failed")["items"] == []
    api.get("/api/traces", 400, status="odd")
    api.get("/api/traces", 400, min_cost="-1")


def test_a_turn_that_runs_can_be_read(api: Caller, run: Run, db: TenantStore) -> None:
    create = run(
        agent_create(db, moniker="echo", agent_id=AgentId("echo"), session_id=S, conversation_id=None, spec={})
    )
    assert [item["status"] for item in api.get("/api/sessions/s/trace")["items"]] == ["running"]
    run(mark_action_processed_async(db, create.id))
    run(append_agent_step(db, step("s", 0, action_id=create.id, status=StepStatus.WAITING)))
    run(upsert_agent_state(db, [state("s", iteration=0)]))
    asked = run(agent_input(db, session_id=S, text="a secret", metadata={"message_id": "m"}))
    read = {"inputs": [{"text": "a secret"}], "turn": asked.id}
    run(append_agent_step(db, step("s", 1, action_id=asked.id, guidance=read)))

    (turn,) = api.get("/api/sessions/s/trace")["items"]
    assert (turn["trace_id"], turn["status"], turn["steps"], turn["ended_at"]) == ("m", "running", 1, None)
    whole = api.get("/api/sessions/s/trace", trace_id="m")["items"][0]
    assert [span["kind"] for span in whole["spans"]] == ["turn", "step"]
    assert "secret" not in str(whole)
    assert api.get(f"/api/traces/{asked.id}")["trace_id"] == "m"
