"""Traces as projections: what becomes of steps and records, what is left out, and that no content is in them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.agent_state import SessionStatus, upsert_agent_state
from store.agent_steps import StepStatus, journal_of
from store.database import Store, TenantStore
from store.errors import NotFoundError
from store.followers import read_place, save_place
from store.ids import SessionId, TenantId
from store.livetraces import get_traces
from store.records import append_record
from store.retention import RetentionRules, trim_traces
from store.spans import MAX_NAME_CHARS, facts_of, span_text
from store.testing import START, FrozenClock
from store.tracereads import StretchEnd, told_of_stretches
from store.traces import TraceFilter, find_traces, list_traces, save_traces
from store.tracing import MAX_SPANS, MAX_STEPS, End, Told, Trace, TraceKind, TraceStatus, trace_of
from tests.store.rows import a_record, a_state, a_step

S = SessionId("s")
SECRET = "swordfish"


def told(**other: Any) -> Told:
    return Told("t", TraceKind.OWN, S, None, **other)


def made(**other: Any) -> Trace:
    other.setdefault("end", End(TraceStatus.DONE, START + timedelta(hours=1)))
    return trace_of(told(**other), START + timedelta(hours=1), str)


def test_spans_follow_each_other_below_their_step() -> None:
    calls = [
        a_record(event_seq=2, key="look", kind="tool", latency_ms=4.0, created_at=START - timedelta(seconds=1)),
        a_record(event_seq=1, key="llm:1", kind="model", latency_ms=2.0, created_at=START - timedelta(seconds=2)),
        a_record(event_seq=3, key="x", kind="failed", result={"kind": "gate", "error": "OSError: no"}),
    ]
    trace = made(steps=[a_step(status=StepStatus.WAITING)], records=calls)
    assert [(span["kind"], span["parent"], span["status"]) for span in trace.spans] == [
        ("turn", None, "ok"),
        ("step", "turn", "ok"),
        ("model", "s0", "ok"),
        ("tool", "s0", "ok"),
        ("gate", "s0", "error"),
    ]
    # The step began with its first call, which an earlier try of it made.
    assert trace.started_at == START - timedelta(seconds=2, milliseconds=2)
    assert trace.spans[1]["ms"] == 2002.0
    assert trace.spans[3]["start_ms"] == 998.0


def test_calls_of_one_span_kind_are_told_apart_by_a_fact_and_embeddings_are_paid_for() -> None:
    used = {"model": "minor", "usage": {"input_tokens": 5}, "cost": "0.5"}
    calls = [
        a_record(event_seq=1, key="llm:1", kind="model", usage={"model": "gemma"}),
        a_record(event_seq=2, key="embed:1", kind="embed", usage=used),
        a_record(event_seq=3, key="embed:2", kind="failed", result={"kind": "embed", "error": "OSError: no"}),
        a_record(event_seq=4, key="memory:1", kind="remember"),
        a_record(event_seq=5, key="memory:2", kind="recall"),
    ]
    trace = made(steps=[a_step()], records=calls)
    assert [(span["kind"], span["facts"].get("kind")) for span in trace.spans[2:]] == [
        ("model", None),
        ("model", "embed"),
        ("model", "embed"),
        ("recall", "remember"),
        ("recall", None),
    ]
    assert (trace.calls, trace.input_tokens, trace.cost) == (2, 5, 0.5)


def test_what_was_used_is_summed_by_model() -> None:
    usage = {"model": "m", "usage": {"input_tokens": 5, "output_tokens": 2}, "cost": "0.10"}
    calls = [a_record(event_seq=n, seq=n, kind="model", usage=usage) for n in (1, 2)]
    trace = made(
        steps=[a_step()], records=[*calls, a_record(seq=9, event_seq=9, kind="model", usage={"model": "free"})]
    )
    assert (trace.calls, trace.input_tokens, trace.output_tokens, trace.cost) == (3, 10, 4, 0.2)
    assert trace.usage["m"]["cost"] == 0.2
    assert trace.usage["free"]["cost"] is None


def test_a_call_of_which_nobody_knows_the_end_is_cut_and_a_known_one_is_not_told_twice() -> None:
    intent = a_record(seq=1, event_seq=1, key="pay", kind="intent")
    (_, _, call) = made(steps=[a_step()], records=[intent]).spans
    assert (call["name"], call["status"]) == ("pay", "cut")
    paid = a_record(seq=2, event_seq=2, key="pay", kind="tool", created_at=START + timedelta(seconds=1))
    (_, _, call) = made(steps=[a_step()], records=[intent, paid]).spans
    assert (call["name"], call["status"]) == ("pay", "ok")


def test_a_question_lasts_until_it_is_answered() -> None:
    wait = {"kind": "approval", "items": [{"id": "s:0:0", "key": "ask:may-i", "kind": "plan", "question": SECRET}]}
    asks = a_step(status=StepStatus.WAITING, wait=wait, guidance={"again": True})
    answer = a_record(
        iteration=1,
        key="ask:may-i",
        kind="answer",
        created_at=START + timedelta(minutes=5),
        result={"decision": "approve", "feedback": SECRET},
    )
    trace = made(steps=[asks, a_step(iteration=1, created_at=START + timedelta(minutes=6))], records=[answer])
    question = trace.spans[2]
    assert (question["kind"], question["name"], question["ms"], question["status"]) == (
        "question",
        "plan",
        300_000.0,
        "ok",
    )
    assert question["facts"] == {"question": "plan", "decision": "approve"}
    assert SECRET not in str(trace)
    waiting = trace_of(told(steps=[asks]), START + timedelta(minutes=2), str)
    assert (waiting.status, waiting.spans[2]["status"], waiting.spans[2]["ms"]) == ("running", "open", 120_000.0)


@pytest.mark.parametrize("facts", [{"verdict": "block"}, {"outcome": "blocked"}, {"held_back": True}])
def test_a_turn_is_blocked_when_its_last_gate_held_the_text_back(facts: dict[str, Any]) -> None:
    blocks = a_record(seq=1, event_seq=1, kind="gate", usage=facts, created_at=START)
    passes = a_record(seq=2, event_seq=2, kind="gate", usage={"verdict": "allow"}, created_at=START)
    assert made(steps=[a_step()], records=[blocks]).status is TraceStatus.BLOCKED
    later = a_record(seq=2, event_seq=2, kind="gate", usage=facts, created_at=START + timedelta(seconds=1))
    assert made(steps=[a_step()], records=[passes, later]).status is TraceStatus.BLOCKED
    assert made(steps=[a_step()], records=[blocks, passes]).status is TraceStatus.DONE


def test_a_trace_is_bounded_and_counts_what_it_leaves_out() -> None:
    calls = [a_record(seq=n, event_seq=n, kind="model", usage={"model": "m"}) for n in range(MAX_SPANS + 10)]
    trace = made(steps=[a_step()], records=calls)
    assert len(trace.spans) == MAX_SPANS
    assert trace.calls == MAX_SPANS + 10
    assert trace.left_out == 12  # ten calls, and the places of the turn and the step


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=12) | st.sampled_from(["model", "text", "tool", "usage", "cost"]), json_values))
def test_facts_are_numbers_and_known_names(usage: dict[str, Any]) -> None:
    facts = facts_of(usage, str)
    for name, value in facts.items():
        assert isinstance(value, bool | int | float | str)
        if isinstance(value, str):
            assert name in {"model", "tool"}
            assert len(value) <= MAX_NAME_CHARS
            assert "\n" not in value


def test_text_reaches_a_span_only_through_the_one_that_takes_secrets_out() -> None:
    def redact(text: str) -> str:
        return text.replace(SECRET, "***")

    failed = a_record(kind="failed", key=f"get {SECRET}", result={"kind": "tool", "error": f"no {SECRET}"})
    usage = {"model": SECRET}
    steps = [a_step(step_token=SECRET, status=StepStatus.ERROR, error=SECRET)]
    end = End(TraceStatus.FAILED, START, SECRET)
    calls = [failed, a_record(seq=2, event_seq=2, kind="model", usage=usage)]
    trace = trace_of(told(steps=steps, records=calls, end=end), START, redact)
    assert SECRET not in str(trace)
    assert span_text("a\n b", redact) == "a b"


async def test_a_long_stretch_is_its_newest_steps(db: TenantStore) -> None:
    last = MAX_STEPS + 30
    await journal_of(db).append_all(
        [
            a_step(iteration=n, status=StepStatus.WAITING if n in (9, last) else StepStatus.RUNNING)
            for n in range(last + 1)
        ]
    )
    await append_record(db, a_record(iteration=last, key="late"))
    await append_record(db, a_record(seq=1, iteration=5, key="early"))
    (one,) = await told_of_stretches(db, [StretchEnd(S, last, End(TraceStatus.DONE, START))])
    trace = trace_of(one, START, str)
    assert (trace.trace_id, trace.kind) == ("s:10", TraceKind.OWN)
    assert (trace.steps, trace.left_out) == (last - 9, last - 9 - MAX_STEPS)
    assert [span["name"] for span in trace.spans if span["kind"] == "tool"] == ["late"]


async def test_a_row_is_replaced_by_a_later_one_but_not_by_that_of_a_stale_follower(db: TenantStore) -> None:
    trace = made(steps=[a_step()])
    await save_traces(db, [trace], epoch=2)
    await save_traces(db, [made(steps=[a_step(), a_step(iteration=1)])], epoch=2)
    await save_traces(db, [trace], epoch=1)
    (found,) = await find_traces(db, "t")
    assert found.steps == 2
    await save_place(db, "me", {"queue": 5}, epoch=2)
    await save_place(db, "me", {"queue": 3}, epoch=1)
    assert await read_place(db, "me") == {"queue": 5}


async def test_tenants_have_traces_and_places_of_their_own(store: Store) -> None:
    mine, other = store.tenant(), store.tenant(TenantId("other"))
    await save_traces(mine, [made(steps=[a_step()])], epoch=1)
    await save_place(mine, "me", {"queue": 5}, epoch=1)
    await upsert_agent_state(mine, [a_state(status=SessionStatus.WAITING)])
    assert (await list_traces(other, TraceFilter())).items == ()
    assert await find_traces(other, "t") == []
    assert await read_place(other, "me") == {}
    with pytest.raises(NotFoundError):
        await get_traces(other, "t", str)


async def test_old_traces_are_deleted(db: TenantStore, clock: FrozenClock) -> None:
    await save_traces(db, [made(steps=[a_step()])], epoch=1)
    rules = RetentionRules(traces_age=timedelta(days=30))
    assert [bite async for bite in trim_traces(db, rules)] == []
    clock.advance(31 * 86_400)
    assert sum([bite.rows async for bite in trim_traces(db, rules)]) == 1
    assert [bite async for bite in trim_traces(db, RetentionRules(traces_age=None))] == []
