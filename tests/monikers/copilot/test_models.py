"""What a host, the engine and agents hand to each other: fields, defaults, bounds (spec 2 §5.1 to §5.6, appendix D)."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from monikers.copilot import (
    AgentConfigOverride,
    AgentContext,
    AgentInsight,
    AgentResponse,
    Blackboard,
    InsightType,
    TranscriptSegment,
    TriggerType,
)

SEGMENT = {"speaker": "A", "text": "hi", "timestamp": 1.5}
INSIGHT = {"agent_id": "a", "agent_name": "A", "type": "fact", "content": "ok"}

#: the fields of each class of the spec, with what they are when they are left out
FIELDS: list[tuple[str, type[BaseModel], dict[str, Any], dict[str, Any]]] = [
    ("5.1", TranscriptSegment, SEGMENT, {"is_final": True}),
    (
        "5.2",
        AgentContext,
        {"session_id": "s", "recent_segments": []},
        {
            "shared_state": {},
            "blackboard": None,
            "trigger_type": "turn_based",
            "trigger_metadata": {},
            "rag_docs": [],
            "user_context": None,
            "language_directive": None,
            "turn_count": 0,
            "phase": 1,
        },
    ),
    (
        "5.3",
        AgentResponse,
        {},
        {
            **{key: [] for key in ("insights", "events", "facts")},
            **{key: {} for key in ("variable_updates", "queue_pushes", "memory_updates", "state_updates")},
            **{key: {} for key in ("data", "debug_info")},
        },
    ),
    ("5.4", AgentInsight, INSIGHT, {"confidence": 1.0, "expiry": 15, "action_label": None, "metadata": {}}),
]


@pytest.mark.parametrize(("section", "kind", "given", "left_out"), FIELDS, ids=[row[0] for row in FIELDS])
def test_5_fields_and_their_defaults(
    section: str, kind: type[BaseModel], given: dict[str, Any], left_out: dict[str, Any]
) -> None:
    made = kind(**given)
    assert {name: getattr(made, name) for name in [*given, *left_out]} == {**given, **left_out}
    other = kind(**given)
    for name, value in left_out.items():
        assert value is None or not isinstance(value, dict | list) or getattr(made, name) is not getattr(other, name)


@pytest.mark.parametrize(
    ("kind", "given", "required"),
    [
        (TranscriptSegment, SEGMENT, ["speaker", "text", "timestamp"]),
        (AgentContext, {"session_id": "s"}, ["session_id"]),
        (AgentInsight, INSIGHT, ["agent_id", "agent_name", "type", "content"]),
    ],
)
def test_5_what_has_to_be_given(kind: type[BaseModel], given: dict[str, Any], required: list[str]) -> None:
    for name in required:
        with pytest.raises(ValidationError, match=name):
            kind(**{key: value for key, value in given.items() if key != name})


@pytest.mark.parametrize(
    ("field", "value"),
    [("content", ""), ("content", "x"), ("confidence", -0.01), ("confidence", 1.01), ("type", "advice")],
)
def test_5_4_bounds_of_an_insight(field: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=field):
        AgentInsight(**{**INSIGHT, field: value})


@pytest.mark.parametrize("confidence", [0, 0.0, 1.0, 1])
def test_5_4_a_confidence_at_its_bounds(confidence: float) -> None:
    assert AgentInsight(**INSIGHT, confidence=confidence).confidence == confidence


def test_5_5_the_types_of_insights() -> None:
    assert [one.value for one in InsightType] == ["suggestion", "warning", "opportunity", "fact", "praise", "error"]
    assert all(isinstance(one, str) for one in InsightType)


def test_5_6_the_triggers_and_force_which_is_ours() -> None:
    assert [one.value for one in TriggerType] == ["turn_based", "keyword", "silence", "interval", "event", "force"]
    assert all(isinstance(one, str) for one in TriggerType)


@pytest.mark.parametrize("speaker", ["USER", "Ana María", "", "0", "Speaker 1", "客户", "a\nb"])
def test_5_1_12_3_any_text_names_a_speaker(speaker: str) -> None:
    assert TranscriptSegment(speaker=speaker, text="", timestamp=0).speaker == speaker


def test_5_1_a_segment_never_changes() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        TranscriptSegment(**SEGMENT).text = "other"  # type: ignore[misc]


def test_5_2_a_context_takes_a_live_board_a_view_or_none() -> None:
    board = Blackboard()
    for one in (board, board.snapshot(), None):
        assert AgentContext(session_id="s", blackboard=one).blackboard is one


def test_d_2_metadata_takes_what_a_domain_needs() -> None:
    """D.3: the fields that are recommended, and any other."""
    metadata = {
        "category": "objection",
        "subcategory": "price_objection",
        "severity": "high",
        "zone": "A",
        "color": "red",
        "action_type": "call",
        "suggested_response": "…",
        "related_fact": "budget.primary",
        "expires_at": 12.5,
        "own": {"deep": [1]},
    }
    assert AgentInsight(**INSIGHT, metadata=metadata).metadata == metadata


def test_an_override_refuses_what_it_does_not_know() -> None:
    assert AgentConfigOverride().model_dump() == dict.fromkeys(
        ["cooldown_modifier", "context_turns_modifier", "instructions_append"]
    )
    with pytest.raises(ValidationError, match="cooldown"):
        AgentConfigOverride(cooldown=5)  # type: ignore[call-arg]
