"""The nested trace and the hashes to replay by (spec 2 §11.0, §11.2, §11.3)."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from monikers.copilot import (
    AgentContext,
    AgentEngine,
    AgentResponse,
    Blackboard,
    DynamicAgent,
    Event,
    Fact,
    RateLimit,
    StructuredLogTracer,
)
from tests.monikers.copilot.agents import (
    Scripted,
    StillClock,
    answering,
    context_of,
    emitting,
    engine_of,
    listener,
    says,
    segment,
)


def extractor(agent: Any, context: Any) -> AgentResponse:
    return AgentResponse(
        events=[Event(name="question_detected", payload={"question": "What is pricing?"})],
        queue_pushes={"pending_questions": [{"text": "What is pricing?", "ts": 45.2}]},
        usage={"calls": 1},
    )


def spec_engine(tracer: StructuredLogTracer, clock: StillClock | None = None) -> AgentEngine:
    """The agents of the example in §11.2."""

    async def tracks(agent: Any, context: Any) -> AgentResponse:
        (clock or StillClock()).move(0.32)
        return AgentResponse(variable_updates={"sentiment": 0.65}, usage={"calls": 1})

    return engine_of(
        Scripted("question_extractor", extractor),
        Scripted("sentiment_tracker", tracks),
        Scripted("escalation_monitor", trigger_conditions={"rules": [{"var": "none", "op": "exists"}]}),
        listener("question_responder", "question_detected"),
        Scripted("silent", trigger_types=["silence"]),
        clock=clock,
        callbacks=[tracer],
    )


def spec_board() -> Blackboard:
    return Blackboard(
        variables={"phase": "negotiation", "sentiment": 0.7},
        queues={"pending_questions": []},
        facts=[Fact(type=f"t{number}", timestamp=float(number)) for number in range(3)],
    )


async def test_the_trace_is_nested_as_the_spec_has_it() -> None:
    """§11.2"""
    tracer, clock = StructuredLogTracer(), StillClock()
    context = context_of(
        spec_board(),
        "session_123",
        recent_segments=[segment("hi")] * 15,
        rag_docs=["a", "b"],
        user_context="Sales Director at Acme Corp",
        language_directive="Respond in English",
    )
    await spec_engine(tracer, clock).process_turn(context)
    (trace,) = tracer.traces
    replay, turn_id = trace.pop("replay"), trace.pop("turn_id")
    assert len(turn_id) == 36
    assert sorted(replay) == ["agent_configs_hash", "blackboard_snapshot_hash", "context_hash"]
    assert all(value.startswith("sha256:") and len(value) == 71 for value in replay.values())
    question = {"name": "question_detected", "payload": {"question": "What is pricing?"}}
    pushed = {"pending_questions": [{"text": "What is pricing?", "ts": 45.2}]}
    nothing: dict[str, Any] = {"insights": 0, "events_emitted": [], "variable_updates": {}}
    assert trace == {
        "timestamp": "2026-01-27T10:46:40Z",
        "session_id": "session_123",
        "context": {
            "user_context": "Sales Director at Acme Corp",
            "language_directive": "Respond in English",
            "transcript_segments": 15,
            "rag_docs_count": 2,
        },
        "trigger": {"type": "turn_based", "metadata": {}},
        "blackboard_initial": {
            "variables": {"phase": "negotiation", "sentiment": 0.7},
            "queues": {"pending_questions": []},
            "facts_count": 3,
            "events": [],
        },
        "phases": [
            {
                "phase": 1,
                "agents_eligible": ["question_extractor", "sentiment_tracker"],
                "agents_skipped": [{"agent": "escalation_monitor", "reason": "conditions_not_met"}],
                "agents_run": [
                    {
                        **nothing,
                        "agent": "question_extractor",
                        "duration_ms": 0,
                        "events_emitted": [question],
                        "queue_pushes": pushed,
                    },
                    {
                        **nothing,
                        "agent": "sentiment_tracker",
                        "duration_ms": 320,
                        "variable_updates": {"sentiment": 0.65},
                    },
                ],
                "events_collected": ["question_detected"],
            },
            {
                "phase": 2,
                "trigger_events": ["question_detected"],
                "agents_eligible": ["question_responder"],
                "agents_skipped": [],
                "agents_run": [{**nothing, "agent": "question_responder", "duration_ms": 0}],
                "events_collected": [],
            },
        ],
        "blackboard_final": {
            "variables": {"phase": "negotiation", "sentiment": 0.65},
            "queues": pushed,
            "facts_count": 3,
            "events": [],
        },
        "blackboard_delta": {
            "variables_changed": ["sentiment"],
            "queues_changed": ["pending_questions"],
            "facts_added": 0,
            "events_emitted": ["question_detected"],
        },
        "response": {
            "insights_count": 0,
            "variable_updates_count": 1,
            "queue_pushes_count": 1,
            "events_emitted_total": 1,
        },
        "performance": {
            "total_duration_ms": 320,
            "phase_1_duration_ms": 320,
            "phase_2_duration_ms": 0,
            "llm_calls": 2,
        },
        "agents_skipped_summary": {"cooldown": 0, "conditions_not_met": 1, "trigger_type_mismatch": 2},
    }


async def test_a_failed_agent_and_its_facts_are_in_the_trace() -> None:
    def fails(agent: Any, context: Any) -> None:
        raise ValueError("boom")

    tracer = StructuredLogTracer()
    finds = Scripted("finds", lambda a, c: says(a, facts=[Fact(type="new")]))
    await engine_of(Scripted("fails", fails), finds, callbacks=[tracer]).process_turn(context_of())
    failed, found = tracer.traces[0]["phases"][0]["agents_run"]
    assert "boom" in failed["error"]
    assert (found["facts"], tracer.traces[0]["blackboard_delta"]["facts_added"]) == (1, 1)


async def test_one_trace_a_turn_also_when_turns_overlap() -> None:
    tracer, waiting = StructuredLogTracer(), []

    async def waits(agent: Any, context: AgentContext) -> AgentResponse:
        waiting.append(passed := asyncio.Event())
        await passed.wait()
        return AgentResponse(variable_updates={f"turn{context.turn_count}": 1})

    engine, board = engine_of(Scripted("agent", waits), callbacks=[tracer]), Blackboard()
    turns = [asyncio.create_task(engine.process_turn(context_of(board, f"s{number}"))) for number in range(3)]
    while len(waiting) < 3:
        await asyncio.sleep(0)
    for number in (2, 0, 1):
        waiting[number].set()
        await turns[number]
    assert [trace["session_id"] for trace in tracer.traces] == ["s2", "s0", "s1"]
    assert [len(trace["phases"][0]["agents_run"]) for trace in tracer.traces] == [1, 1, 1]
    assert len({trace["turn_id"] for trace in tracer.traces}) == 3


async def hashes(**changes: Any) -> dict[str, str]:
    """The hashes of one turn, made anew, with something changed."""
    tracer = StructuredLogTracer()
    board = spec_board()
    board.set_var("x", changes.get("variable", 1))
    engine = spec_engine(tracer)
    engine.agents[0].config.cooldown = changes.get("cooldown", 0)
    engine.agents[0].config.rate_limit = RateLimit(changes.get("runs", 9))
    at = changes.get("at", 1.0)
    if "fact_at" in changes:
        board.add_fact(Fact(type="t0", timestamp=changes["fact_at"]))
    else:
        board.add_fact(Fact(type="t0", timestamp=5.0))
    context = context_of(
        board, recent_segments=[segment(changes.get("text", "hi"), at)], turn_count=changes.get("turn", 1)
    )
    await engine.process_turn(context, trigger_metadata=changes.get("metadata"))
    replay: dict[str, str] = tracer.traces[0]["replay"]
    return replay


@pytest.mark.parametrize(
    ("changes", "changed"),
    [
        ({}, []),
        ({"at": 99.0}, []),
        ({"fact_at": 99.0}, []),
        ({"text": "other"}, ["context_hash"]),
        ({"metadata": {"keyword": "x"}}, ["context_hash"]),
        ({"turn": 2}, ["context_hash", "blackboard_snapshot_hash"]),
        ({"variable": 2}, ["blackboard_snapshot_hash"]),
        ({"cooldown": 1}, ["agent_configs_hash"]),
        ({"runs": 8}, ["agent_configs_hash"]),
    ],
)
async def test_hashes_change_with_what_they_are_of_and_not_with_time(
    changes: dict[str, Any], changed: list[str]
) -> None:
    """§11.3"""
    before, after = await hashes(), await hashes(**changes)
    assert [name for name in before if before[name] != after[name]] == changed


async def test_the_prompt_of_an_agent_counts() -> None:
    found = []
    for text in ("Advise.", "Advise.", "Advise well."):
        tracer = StructuredLogTracer()
        agent = DynamicAgent({"id": "a", "name": "A", "text": text, "trigger_config": {"mode": "silence"}})
        await engine_of(agent, callbacks=[tracer]).process_turn(context_of())
        found.append(tracer.traces[0]["replay"]["agent_configs_hash"])
    assert (found[0] == found[1], found[0] == found[2]) == (True, False)


async def test_an_agent_that_cannot_be_described_is_traced_without() -> None:
    class Mute(Scripted):
        def description(self) -> dict[str, Any]:
            raise RuntimeError("no")

    tracer, board = StructuredLogTracer(), Blackboard(events=[Event(name="e")])
    await engine_of(agent := Mute("mute"), callbacks=[tracer]).process_turn(context_of(board))
    assert (agent.runs, len(tracer.traces), board.events) == (1, 1, [])


@pytest.mark.parametrize(("most", "left"), [(2, ["s1", "s2"]), (1, ["s2"]), (0, []), (9, ["s0", "s1", "s2"])])
async def test_old_traces_go(most: int, left: list[str]) -> None:
    tracer = StructuredLogTracer(max_traces=most)
    engine = engine_of(callbacks=[tracer])
    for number in range(3):
        await engine.process_turn(context_of(session_id=f"s{number}"))
    assert [trace["session_id"] for trace in tracer.traces] == left


async def test_prompts_are_traced_when_asked_for() -> None:
    """§11.3, privacy-sensitive"""
    messages = [{"role": "system", "content": "Listen."}, {"role": "user", "content": "Hi"}]
    told = Scripted("agent", answering(debug_info={"prompt_messages": messages, "llm_output": {"r": 1}}))
    silent = Scripted("silent", answering(debug_info={"other": 1}))
    tracers = [StructuredLogTracer(), StructuredLogTracer(include_prompts=True)]
    await engine_of(told, silent, callbacks=tracers).process_turn(context_of())
    assert not {"rendered_prompts", "llm_responses"} & set(tracers[0].traces[0])
    assert tracers[1].traces[0]["rendered_prompts"] == {"agent": "system:\nListen.\n\nuser:\nHi"}
    assert tracers[1].traces[0]["llm_responses"] == {"agent": '{"r": 1}'}


@pytest.mark.parametrize(
    ("told", "text"),
    [("as text", "as text"), (["a", 1], '["a", 1]'), ([{"role": "x"}], '[{"role": "x"}]'), (None, "null"), ({}, "{}")],
)
async def test_11_3_prompts_and_answers_are_texts(told: Any, text: str) -> None:
    agent = Scripted("agent", answering(debug_info={"prompt_messages": told, "llm_output": told}))
    tracer = StructuredLogTracer(include_prompts=True)
    await engine_of(agent, callbacks=[tracer]).process_turn(context_of())
    (trace,) = tracer.traces
    assert (trace["rendered_prompts"], trace["llm_responses"]) == ({"agent": text}, {"agent": text})


async def test_8_4_events_of_phase_2_are_in_the_trace_and_wake_nobody() -> None:
    tracer, board = StructuredLogTracer(), Blackboard()
    chain = [
        Scripted("a", emitting("one")),
        listener("b", "one", answer=emitting("two")),
        listener("c", "two"),
    ]
    await engine_of(*chain, callbacks=[tracer]).process_turn(context_of(board))
    (trace,) = tracer.traces
    assert [phase["events_collected"] for phase in trace["phases"]] == [["one"], ["two"]]
    assert trace["blackboard_delta"]["events_emitted"] == ["one", "two"]
    assert (trace["response"]["events_emitted_total"], trace["blackboard_final"]["events"]) == (2, [])
    assert chain[2].runs == 0


async def test_11_0_times_of_a_trace() -> None:
    """The wall's time as ISO 8601 in UTC; durations in whole milliseconds."""

    async def takes(agent: Any, context: AgentContext) -> AgentResponse:
        clock.move(0.0126)
        return AgentResponse()

    tracer, clock = StructuredLogTracer(), StillClock()
    await engine_of(Scripted("agent", takes), clock=clock, callbacks=[tracer]).process_turn(context_of())
    (trace,) = tracer.traces
    assert trace["timestamp"] == "2026-01-27T10:46:40Z"
    durations = [*trace["performance"].values(), trace["phases"][0]["agents_run"][0]["duration_ms"]]
    assert durations == [13, 13, 0, 0, 13]
    assert all(type(duration) is int for duration in durations)


async def test_the_log_line_is_json_whatever_is_on_the_board(caplog: pytest.LogCaptureFixture) -> None:
    odd = {"thing": object(), "set": {1}, 3: "number", "inf": float("inf"), "huge": 10**5_000, "half": "\ud800"}
    board, tracer = Blackboard(variables=odd), StructuredLogTracer()  # type: ignore[arg-type]
    agent = Scripted("agent", answering(variable_updates={"thing": b"x"}, queue_pushes={"q": [object()]}))
    with caplog.at_level(logging.INFO, "AgentTracer"):
        await engine_of(agent, callbacks=[tracer]).process_turn(context_of(board, trigger_metadata={"by": object()}))
    (line,) = [record.getMessage() for record in caplog.records if record.name == "AgentTracer"]
    (trace,) = tracer.traces
    assert json.loads(line.removeprefix("TURN_TRACE: ")) == json.loads(json.dumps(trace, allow_nan=False)) == trace
    shown = {"thing": "<object>", "set": [1], "3": "number", "inf": "<float>", "huge": "<int>", "half": "?"}
    assert trace["blackboard_initial"]["variables"] == shown
    assert trace["blackboard_delta"]["variables_changed"] == ["thing"]
    assert trace["trigger"]["metadata"] == {"by": "<object>"}
