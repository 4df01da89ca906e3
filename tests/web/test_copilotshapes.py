"""A copilot's page, made from the rows of its session."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from store import Action, ActionKind, ActionStatus, StepStatus
from store.ids import ActionId, SessionId
from tests.web.copilotkit import insight, run_of, segment, turn_step
from tests.web.kit import START
from web.copilotshapes import ZONE_CARDS, board_of, insights_by_zone, said_in, sections_of, turns_in


def texts(rows: list[dict[str, Any]]) -> list[str]:
    return [row["text"] for row in rows]


def waiting(text: str, name: str = "a", **metadata: Any) -> Action:
    """An input that no step has read; `data` is its data."""
    payload = {"text": text, "data": metadata.pop("data", None)}
    return Action(
        id=ActionId(name),
        created_at=START + timedelta(seconds=99),
        not_before=None,
        kind=ActionKind.INPUT,
        urgency=0,
        agent_id=None,
        session_id=SessionId("s"),
        conversation_id=None,
        payload=payload,
        metadata=metadata,
        idempotency_key=None,
        status=ActionStatus.PENDING,
        attempts=0,
        processed=False,
        processed_at=None,
        error=None,
        owner=None,
    )


# --- what is said ----------------------------------------------------------------------------------------------------


def test_an_unfinished_segment_makes_way_for_what_its_speaker_says_next() -> None:
    steps = [
        turn_step("s", 0, said=segment("ANN", "I wo", is_final=False)),
        turn_step("s", 1, said=segment("BEN", "Yes?", is_final=True)),
        turn_step("s", 2, said=segment("ANN", "I would", is_final=False)),
        turn_step("s", 3, said=segment("ANN", "I would like two.")),
        turn_step("s", 4, said=segment("ANN", "And bread.")),
        turn_step("s", 5),
    ]
    assert texts(said_in(steps[:3])) == ["I would", "Yes?"]
    rows = said_in(steps)
    assert texts(rows) == ["I would like two.", "Yes?", "And bread."]
    assert [row["voice"] for row in rows] == [1, 2, 1]
    assert [row["iteration"] for row in rows] == [3, 1, 4]


def test_what_waits_to_be_heard_is_shown_and_is_the_same_as_its_step() -> None:
    told = waiting("Hello?", message_id="m7", sender="ann")
    spoken = waiting("Yes", "b", data={"segment": {"speaker": "BEN"}})
    empty = waiting("", "c", data={"trigger": "force"})
    command = waiting("Show the insight", "d", data={"decide": {"insight_id": "i", "agreed": True}})
    rows = said_in([], [told, spoken, empty, command])
    assert [(row["key"], row["speaker"], row["iteration"]) for row in rows] == [("m7", "ann", None), ("b", "BEN", None)]
    read = {"inputs": [{"text": "Hello?", "message_id": "m7"}]}
    heard = turn_step("s", 0, said=segment("ann", "Hello?"), guidance=read)
    assert [row["key"] for row in said_in([heard], [spoken])] == ["m7", "b"]


def test_a_long_conversation_begins_with_its_newest() -> None:
    steps = [turn_step("s", n, said=segment(f"S{n}", f"text {n}")) for n in range(130)]
    rows = said_in(steps)
    assert (rows[0]["text"], rows[-1]["text"], len(rows)) == ("text 30", "text 129", 100)
    assert {row["voice"] for row in rows} == {1, 2, 3, 4, 5, 6}


# --- insights --------------------------------------------------------------------------------------------------------


def test_insights_stand_by_zone_newest_first_and_each_once() -> None:
    first = insight("s", 0, "first", zone="A")
    held = insight("s", 1, "held", zone="A", status="held")
    steps = [
        turn_step("s", 0, insights=[first]),
        turn_step("s", 1, insights=[held, insight("s", 1, "soon", zone="b", number=2), {"content": "no id"}]),
        turn_step("s", 2, insights=[{**held, "status": "shown"}, insight("s", 2, "far", zone="?", expiry=60)]),
        turn_step("s", 3, insights=[insight("s", 3, "of a failed step", zone="A")], status=StepStatus.ERROR),
    ]
    zones = insights_by_zone(steps)
    assert {zone: [one["content"] for one in found] for zone, found in zones.items()} == {
        "A": ["held", "first"],
        "B": ["soon"],
        "C": ["far"],
    }
    assert [one["status"] for one in zones["A"]] == ["shown", "shown"]
    assert (zones["C"][0]["created_at"], zones["C"][0]["expires_at"]) == (
        "2026-01-01T00:00:02.000000Z",
        "2026-01-01T00:01:02.000000Z",
    )


def test_a_zone_begins_with_a_few_and_says_what_was_taken_back() -> None:
    steps = [turn_step("s", n, insights=[insight("s", n, f"no {n}")]) for n in range(40)]
    back = turn_step("s", 40, guidance={"rolled_back": [38, 39]})
    found = insights_by_zone([*steps, back])["C"]
    assert len(found) == ZONE_CARDS
    assert [(one["content"], one["taken_back"]) for one in found[:3]] == [
        ("no 39", True),
        ("no 38", True),
        ("no 37", False),
    ]


# --- the board -------------------------------------------------------------------------------------------------------


def entries(steps: list[Any]) -> dict[str, Any]:
    return {entry["name"]: entry for part in sections_of(board_of(steps)) for entry in part["entries"]}


def test_the_board_says_who_wrote_what_and_what_the_newest_turn_changed() -> None:
    board = {
        "variables": {"sys.turn": 2, "stage": "price", "given": None},
        "queues": {"questions": ["a"]},
        "facts": [{"type": "budget", "key": "year", "value": "10k", "confidence": 0.7}],
        "memory": {"coach": {"asked": 1}},
    }
    run = run_of("coach", variables={"stage": "price"}, memory={"asked": 1})
    old = run_of("facts", facts=board["facts"], queues={"questions": ["a"]}, variables={"stage": "intro"})
    steps = [turn_step("s", 0, ran=[old], board=board), turn_step("s", 1, ran=[run], board=board)]
    found = entries(steps)
    assert list(found) == ["stage", "given", "questions", "budget · year", "coach · asked", "sys.turn"]
    assert {name for name, entry in found.items() if entry["is_fresh"]} == {"stage", "coach · asked"}
    assert (found["stage"]["by"]["name"], found["stage"]["by"]["turn"]) == ("Coach", 2)
    assert (found["budget · year"]["value"], found["budget · year"]["by"]["agent_id"]) == ("10k", "facts")
    assert (found["sys.turn"]["is_engine"], found["given"]["by"]) == (True, None)


def test_a_session_without_a_turn_has_an_empty_board() -> None:
    assert board_of([])["turn"] is None
    assert [part["entries"] for part in sections_of(board_of([]))] == [[]] * 5


# --- the turns -------------------------------------------------------------------------------------------------------


def test_turns_are_told_newest_first_with_who_ran_and_who_did_not() -> None:
    phases = [
        {
            "phase": 1,
            "events": [],
            "ran": [run_of("listener", events=["asked"])],
            "skipped": [{"agent_id": "x", "reason": "cooldown"}],
        },
        {"phase": 2, "events": ["asked"], "ran": [run_of("answer", insights=["i"], failed=True)], "skipped": []},
    ]
    newest, oldest = turns_in([turn_step("s", 0), turn_step("s", 1, phases=phases, said=segment("A", "b"))])
    assert (newest["turn"], newest["ran"], newest["failed"], newest["insights"], newest["skipped"]) == (2, 2, 1, 1, 1)
    assert newest["key"] == "s-action-1"
    assert (oldest["turn"], oldest["key"]) == (1, "s:0")
    assert newest["usage"]["cost"] == "0.0021"


def test_rows_of_an_odd_shape_are_passed_over() -> None:
    odd: list[Any] = [
        None,
        [],
        "text",
        {"turn": 1, "turns": "none"},
        {"turn": 1, "turns": [{"phases": [3, {"ran": "x"}]}]},
    ]
    steps = [turn_step("s", n, data=data, state=None) for n, data in enumerate(odd)]
    assert [turn["ran"] for turn in turns_in(steps)] == [0, 0]
    assert (said_in(steps), board_of(steps)["board"]) == ([], {})
