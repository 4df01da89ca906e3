"""The figures for Prometheus: what they count, how often they are read, and that no user's text is in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from store import SessionStatus, TenantStore, upsert_agent_state
from store.agent_requests import agent_input
from store.ids import AgentId, SessionId
from store.traces import save_traces
from store.tracing import Told, Trace, TraceKind, TraceStatus, trace_of
from tests.web.kit import START, Caller, state
from web.factory import Web
from web.metrics.page import MetricsPage
from web.metrics.totals import MAX_AGENTS

Run = Callable[[Any], Any]


def samples(page: bytes) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample by its name and labels, as Prometheus' own parser reads it."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


def a_trace(number: int, agent: str, **other: Any) -> Trace:
    told = Told(f"t{number}", TraceKind.TURN, SessionId("s"), None, agent_id=AgentId(agent))
    return replace(trace_of(told, START, str), status=TraceStatus.DONE, **other)


def test_it_is_served_as_prometheus_wants_it(web: Web, run: Run, db: TenantStore) -> None:
    run(upsert_agent_state(db, [state("a", iteration=4), state("b", iteration=0, status=SessionStatus.DONE)]))
    run(agent_input(db, session_id=SessionId("a"), text="hello"))
    answer = web.app.test_client().get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/plain")
    found = samples(answer.data)
    assert found["stepwell_sessions", (("status", "running"),)] == 1
    assert found["stepwell_sessions", (("status", "done"),)] == 1
    assert found["stepwell_actions", (("kind", "agent_input"), ("status", "pending"))] == 1
    assert found["stepwell_steps_total", ()] == 6
    assert found["stepwell_workers_alive", ()] == 0
    assert found["stepwell_web_clients", ()] == 0
    assert found["stepwell_oldest_open_action_seconds", ()] >= 0
    assert ("stepwell_table_fragments", (("table", "queue"),)) in found


def test_another_sites_name_is_refused(web: Web) -> None:
    assert web.app.test_client().get("/metrics", headers={"Host": "evil.example"}).status_code == 421


def test_it_counts_what_turns_used_since_it_began_to_look(run: Run, db: TenantStore) -> None:
    clients = 3
    page = MetricsPage(db, lambda: clients)
    run(save_traces(db, [a_trace(0, "early", calls=9)], epoch=1))
    run(page.text())
    used = {"calls": 2, "input_tokens": 30, "output_tokens": 4, "cost": 0.5, "duration_ms": 700.0, "wait_ms": 20.0}
    run(save_traces(db, [a_trace(1, "mason", **used), a_trace(2, "mason", **used)], epoch=1))
    run(save_traces(db, [a_trace(2, "mason", **used)], epoch=2))  # a follower repeats itself after a crash
    page._read_at = None
    found = samples(run(page.text()))
    mason = ("agent", "mason")
    assert found["stepwell_turns_total", (mason, ("status", "done"))] == 2
    assert found["stepwell_model_calls_total", (mason,)] == 4
    assert found["stepwell_tokens_total", (mason, ("direction", "input"))] == 60
    assert found["stepwell_cost_total", (mason,)] == 1.0
    assert found["stepwell_turn_duration_seconds_bucket", (("kind", "turn"), ("le", "0.5"))] == 0
    assert found["stepwell_turn_duration_seconds_bucket", (("kind", "turn"), ("le", "1.0"))] == 2
    assert found["stepwell_action_wait_seconds_count", ()] == 2
    assert found["stepwell_web_clients", ()] == clients
    assert not any("early" in str(key) for key in found)


def test_labels_are_bounded_and_no_text_of_a_user(run: Run, db: TenantStore) -> None:
    page = MetricsPage(db, lambda: 0)
    run(page.text())
    names = [f"agent-{number}" for number in range(MAX_AGENTS + 20)]
    run(save_traces(db, [a_trace(n, name) for n, name in enumerate(['pay "mia" 5', "a" * 90, "ü", *names])], epoch=1))
    page._read_at = None
    found = samples(run(page.text()))
    agents = {dict(labels)["agent"] for _, labels in found if "agent" in dict(labels)}
    assert len(agents) <= MAX_AGENTS + 1
    assert "other" in agents
    assert not any("mia" in agent or len(agent) > 64 for agent in agents)


def test_many_scrapes_within_a_second_are_one_reading(api: Caller, web: Web, run: Run, db: TenantStore) -> None:
    page = MetricsPage(db, lambda: 0)
    first = run(page.text())
    run(upsert_agent_state(db, [state("a")]))
    assert run(page.text()) is first
