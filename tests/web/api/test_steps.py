"""The journal's addresses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import AgentStep, StepStatus, TenantStore, append_agent_step
from tests.support import examples
from tests.web.kit import START, Caller, gathered, step

Run = Callable[[Any], Any]


def _store(db: TenantStore, run: Run, *steps: AgentStep) -> None:
    run(gathered(*[append_agent_step(db, one) for one in steps]))


def _iterations(answer: Any) -> list[int]:
    return [one["iteration"] for one in answer["items"]]


def test_a_step_has_the_shape_of_the_contract(api: Caller, db: TenantStore, run: Run) -> None:
    _store(db, run, step("s1", 0, data={"k": 1}, notes="n"))
    found = api.get("/api/agent-steps", session_id="s1")["items"][0]
    named = """id created_at agent_id session_id action_id iteration step_token next_step_token status text data state
        guidance notes latency_ms error usage epoch"""
    assert set(named.split()) <= found.keys()
    assert (found["id"], found["data"], found["created_at"]) == ("s1:0", {"k": 1}, "2026-01-01T00:00:00.000000Z")


def test_steps_are_paged_in_both_orders(api: Caller, db: TenantStore, run: Run) -> None:
    _store(db, run, *[step("s1", n) for n in range(5)], step("s2", 0))
    for order, expected in (("asc", [0, 1, 2, 3, 4]), ("desc", [4, 3, 2, 1, 0])):
        found: list[int] = []
        cursor = None
        while True:
            query: dict[str, Any] = {"session_id": "s1", "order": order, "limit": 2}
            page = api.get("/api/agent-steps", **query, **({"cursor": cursor} if cursor else {}))
            found += _iterations(page)
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert found == expected


@examples(25)
@given(
    low=st.none() | st.integers(-2, 7),
    high=st.none() | st.integers(-2, 7),
    after=st.none() | st.integers(-2, 7),
    since=st.none() | st.integers(-2, 7),
    status=st.none() | st.sampled_from(StepStatus),
    agent=st.none() | st.sampled_from(["echo", "x", "' or 1=1 --"]),
)
def test_filters_give_the_rows_that_python_would(
    api: Caller,
    db: TenantStore,
    run: Run,
    low: int | None,
    high: int | None,
    after: int | None,
    since: int | None,
    status: StepStatus | None,
    agent: str | None,
) -> None:
    rows = [step("s1", n, status=list(StepStatus)[n % 4], agent_id="x" if n % 3 else "echo") for n in range(6)]
    if not api.get("/api/agent-steps")["items"]:
        _store(db, run, *rows)
    moment = None if since is None else START + timedelta(seconds=since)
    query: dict[str, Any] = {
        "min_iteration": low,
        "max_iteration": high,
        "after_iteration": after,
        "since": None if moment is None else moment.isoformat(),
        "status": None if status is None else status.value,
        "agent_id": agent,
    }
    found = api.get("/api/agent-steps", **{key: value for key, value in query.items() if value is not None})
    assert _iterations(found) == [
        row.iteration
        for row in rows
        if (low is None or row.iteration >= low)
        and (high is None or row.iteration <= high)
        and (after is None or row.iteration > after)
        and (moment is None or row.created_at >= moment)
        and (status is None or row.status is status)
        and (agent is None or row.agent_id == agent)
    ]


def test_the_latest_steps(api: Caller, db: TenantStore, run: Run) -> None:
    _store(db, run, *[step("s1", n) for n in range(3)], step("s2", 0, agent_id="x"))
    assert _iterations(api.get("/api/agent-steps/latest", session_id="s1", limit=2)) == [2, 1]
    assert len(api.get("/api/agent-steps/latest", agent_id="x")["items"]) == 1
    assert api.get("/api/agent-steps/latest", session_id="nope")["items"] == []
    api.get("/api/agent-steps/latest", 400)


@pytest.mark.parametrize(
    "since", ["2026-01-01T00:00:02Z", "2026-01-01T00:00:02", "2026-01-01T01:00:02+01:00", "2026-01-01T01:00:02 01:00"]
)
def test_since_is_a_time_in_any_zone(api: Caller, db: TenantStore, run: Run, since: str) -> None:
    _store(db, run, *[step("s1", n) for n in range(4)])
    assert _iterations(api.get("/api/agent-steps", since=since)) == [2, 3]


@pytest.mark.parametrize(
    "query",
    [
        {"min_iteration": "x"},
        {"min_iteration": "9" * 30},
        {"max_iteration": "1.0"},
        {"after_iteration": ""},
        {"since": "yesterday"},
        {"since": "1700000000"},
        {"since": "0001-01-01T00:00:00+23:00"},
        {"status": "pending"},
        {"order": "random()"},
        {"offset": "1"},
        {"cursor": "%%%"},
        {"session": "s1"},
    ],
)
def test_a_wrong_query_is_refused(api: Caller, query: dict[str, str]) -> None:
    api.get("/api/agent-steps", 400, **query)
