"""Who is asked and why the others are not (spec 2 §7.1, §7.2, §8.2, §8.6; docs/copilot.md, "Rules")."""

from __future__ import annotations

from typing import Any

import pytest

from monikers.copilot import AgentConfigOverride, Blackboard, Event, RateLimit, TriggerType
from tests.monikers.copilot.agents import (
    Heard,
    Scripted,
    StillClock,
    context_of,
    emitting,
    engine_of,
    listener,
    segment,
)


async def asked(*agents: Scripted, trigger: TriggerType = TriggerType.TURN_BASED, **turn: Any) -> list[str]:
    """The agents that one turn asks."""
    board = turn.pop("board", None) or Blackboard()
    options = turn.pop("options", {})
    await engine_of(*agents, **options).process_turn(context_of(board), trigger_type=trigger, **turn)
    return [agent.config.id for agent in agents if agent.runs]


@pytest.mark.parametrize("trigger", [one for one in TriggerType if one not in (TriggerType.EVENT, TriggerType.FORCE)])
async def test_an_agent_is_asked_for_its_triggers_only(trigger: TriggerType) -> None:
    """§7.1"""
    agents = [Scripted(one.value, trigger_types=[one]) for one in TriggerType]
    assert await asked(*agents, trigger=trigger) == [trigger.value]


async def test_7_1_the_engine_does_not_look_for_keywords_itself() -> None:
    """Detection is the host's: it says `KEYWORD` and whom it allows, whatever the transcript says."""
    agents = [
        Scripted(word, trigger_types=[TriggerType.KEYWORD], trigger_keywords=[word]) for word in ("price", "date")
    ]
    engine, context = engine_of(*agents), context_of(recent_segments=[segment("What price?")])
    runs = []
    for trigger, allowed in (
        (TriggerType.TURN_BASED, None),
        (TriggerType.KEYWORD, None),
        (TriggerType.KEYWORD, ["date"]),
    ):
        await engine.process_turn(context, allowed, trigger)
        runs.append([agent.runs for agent in agents])
    assert runs == [[0, 0], [1, 1], [1, 2]]


async def test_7_1_intervals_are_counted_by_the_host() -> None:
    agent = Scripted("agent", trigger_types=[TriggerType.INTERVAL], trigger_interval=9_999)
    engine = engine_of(agent)
    for trigger in (TriggerType.TURN_BASED, TriggerType.INTERVAL, "interval"):
        await engine.process_turn(context_of(), trigger_type=trigger)  # type: ignore[arg-type]
    assert agent.runs == 2


@pytest.mark.parametrize(
    ("failing", "reason"),
    [
        ({"allowed", "trigger", "cooldown", "conditions"}, "not_allowed"),
        ({"trigger", "cooldown", "conditions"}, "trigger_type_mismatch"),
        ({"cooldown", "conditions"}, "cooldown"),
        ({"conditions"}, "conditions_not_met"),
        (set(), None),
    ],
)
async def test_8_2_8_6_the_gates_stand_in_this_order(failing: set[str], reason: str | None) -> None:
    heard, board = Heard(), Blackboard(variables={"open": 1})
    agent = Scripted("agent", cooldown=10, trigger_conditions={"rules": [{"var": "open", "op": "exists"}]})
    engine = engine_of(agent, callbacks=[heard])
    if "cooldown" in failing:
        await engine.process_turn(context_of(board))
    if "conditions" in failing:
        board.delete_var("open")
    trigger = TriggerType.SILENCE if "trigger" in failing else TriggerType.TURN_BASED
    await engine.process_turn(context_of(board), [] if "allowed" in failing else ["agent"], trigger)
    assert heard.of("on_agent_skipped") == ([] if reason is None else [("agent", reason)])


async def test_an_agent_may_answer_to_several_triggers() -> None:
    agent = Scripted("both", trigger_types=[TriggerType.SILENCE, TriggerType.KEYWORD])
    assert await asked(agent, trigger=TriggerType.KEYWORD) == ["both"]


@pytest.mark.parametrize(
    ("allowed", "names"), [(None, ["a", "b"]), ([], []), (["b"], ["b"]), (("a", "none"), ["a"]), ({"a"}, ["a"])]
)
@pytest.mark.parametrize("trigger", [TriggerType.TURN_BASED, TriggerType.FORCE])
async def test_the_allow_list_is_hard(allowed: Any, names: list[str], trigger: TriggerType) -> None:
    """§8.6; an empty list allows nobody, and FORCE does not go past it."""
    assert await asked(Scripted("a"), Scripted("b"), allowed_agent_ids=allowed, trigger=trigger) == names


async def test_the_allow_list_holds_in_phase_2() -> None:
    """§8.6"""
    agents = [Scripted("emits", emitting("e")), listener("woken", "e"), listener("not allowed", "e")]
    assert await asked(*agents, allowed_agent_ids=["emits", "woken"]) == ["emits", "woken"]


@pytest.mark.parametrize(
    ("metadata", "names"),
    [
        ({"silence_duration": 4.9}, ["always"]),
        ({"silence_duration": 5}, ["always", "five"]),
        ({"silence_duration": 60}, ["always", "five"]),
        ({}, ["always", "five"]),
    ],
)
async def test_silence_thresholds_are_enforced(metadata: dict[str, Any], names: list[str]) -> None:
    """§7.1; without a duration none is asked for."""
    silence = [TriggerType.SILENCE]
    agents = [Scripted("always", trigger_types=silence), Scripted("five", trigger_types=silence, silence_threshold=5)]
    assert await asked(*agents, trigger=TriggerType.SILENCE, trigger_metadata=metadata) == names


async def test_event_as_the_trigger_asks_subscribers_of_what_is_on_the_board() -> None:
    """§7.2"""
    board = Blackboard(events=[Event(name="e")])
    agents = [listener("e", "e"), listener("other", "x"), Scripted("turn", subscribed_events=["e"])]
    assert await asked(*agents, board=board, trigger=TriggerType.EVENT) == ["e"]
    assert agents[0].seen.phase == 1


async def test_events_of_the_host_wake_subscribers_in_phase_2() -> None:
    """§7.2"""
    board = Blackboard(events=[Event(name="e", payload={"from": "host"})])
    agents = [Scripted("turn"), listener("woken", "e"), listener("other", "x")]
    assert await asked(*agents, board=board) == ["turn", "woken"]
    woken = agents[1].seen
    assert (woken.phase, woken.trigger_type) == (2, TriggerType.EVENT)
    assert board.events == []


async def test_force_goes_past_trigger_cooldown_and_conditions() -> None:
    clock = StillClock()
    never = {"rules": [{"var": "none", "op": "exists"}]}
    agent = Scripted("agent", trigger_types=[TriggerType.KEYWORD], cooldown=9_999, trigger_conditions=never)
    engine = engine_of(agent, clock=clock)
    for _ in range(2):
        await engine.process_turn(context_of(), trigger_type=TriggerType.FORCE)
    assert agent.runs == 2


async def test_a_cooldown_counts_from_the_start() -> None:
    """§8.2"""
    clock = StillClock()
    agent = Scripted("agent", cooldown=10)
    engine = engine_of(agent, clock=clock)
    runs = []
    for seconds in (0, 9.9, 0.1, 10):
        clock.move(seconds)
        await engine.process_turn(context_of())
        runs.append(agent.runs)
    assert runs == [1, 1, 2, 3]


async def test_a_failed_run_counts_for_the_cooldown() -> None:
    def boom(agent: Any, context: Any) -> None:
        raise ValueError

    agent = Scripted("agent", boom, cooldown=10)
    engine = engine_of(agent)
    for _ in range(2):
        await engine.process_turn(context_of())
    assert agent.runs == 1


@pytest.mark.parametrize(
    ("cooldown", "modifier", "seconds"),
    [(10, 5, 15), (10, -3, 7), (10, -9, 5), (10, None, 10), (10, 0, 10), (3, -1, 3), (0, 2, 2), (0, -1, 0)],
)
async def test_an_override_changes_the_cooldown(cooldown: float, modifier: float | None, seconds: float) -> None:
    agent = Scripted("agent", cooldown=cooldown)
    context = context_of(agent_config_overrides={"agent": AgentConfigOverride(cooldown_modifier=modifier)})
    assert agent.config.cooldown_in(context) == seconds
    clock = StillClock()
    engine = engine_of(agent, clock=clock)
    await engine.process_turn(context)
    clock.move(seconds)
    await engine.process_turn(context)
    assert agent.runs == 2


async def test_conditions_gate_and_meta_is_what_the_engine_knows() -> None:
    """§7.3"""
    meta = {"meta": "turn_count", "op": "mod", "value": 2, "result": 0}
    agents = [
        Scripted("even", trigger_conditions={"rules": [meta]}),
        Scripted("phase", trigger_conditions={"rules": [{"meta": "phase", "op": "eq", "value": 1}]}),
        Scripted("word", trigger_conditions={"rules": [{"meta": "keyword", "op": "eq", "value": "price"}]}),
        Scripted("own", trigger_conditions={"rules": [{"memory": "seen", "op": "exists"}]}),
    ]
    engine, board = engine_of(*agents), Blackboard(memory={"own": {"seen": 1}})
    for _ in range(2):
        await engine.process_turn(context_of(board, trigger_metadata={"keyword": "price"}))
    assert [agent.runs for agent in agents] == [1, 2, 2, 2]


async def test_conditions_of_phase_2_see_what_phase_1_merged() -> None:
    answer = emitting("e", queue_pushes={"pending": ["q"]})
    woken = listener("woken", "e", trigger_conditions={"rules": [{"queue": "pending", "op": "not_empty"}]})
    assert await asked(Scripted("emits", answer), woken) == ["emits", "woken"]


NONSENSE: list[tuple[str, Any]] = [
    ("cooldown", "soon"),
    ("trigger_types", None),
    ("priority", None),
    ("priority", float("nan")),
    ("timeout", "soon"),
    ("timeout", float("nan")),
    ("name", None),
    ("rate_limit", 5),
]


@pytest.mark.parametrize(("field", "value"), NONSENSE)
async def test_8_5_a_configuration_that_makes_no_sense_costs_only_its_agent(
    field: str, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    heard, odd, good = Heard(), Scripted("odd"), Scripted("good")
    engine = engine_of(odd, good, callbacks=[heard])
    setattr(odd.config, field, value)
    await engine.process_turn(context_of())
    assert (odd.runs, good.runs) == (0, 1)
    assert [reason for _, reason in heard.of("on_agent_skipped")] == ["misconfigured"]
    assert "'odd' cannot be asked: correct its configuration" in caplog.text


class Broken:
    """Conditions that break their promise."""

    def evaluate(self, *args: Any) -> bool:
        raise ValueError("boom")


async def test_conditions_that_raise_count_as_not_met() -> None:
    agents = [Scripted("some", trigger_conditions={"rules": [1]}), Scripted("none")]
    assert await asked(*agents, options={"conditions": Broken()}) == ["none"]


async def test_a_rate_limit_counts_starts_within_its_window() -> None:
    clock = StillClock()
    agent = Scripted("agent", rate_limit=RateLimit(2, per_s=60))
    engine = engine_of(agent, clock=clock)
    runs = []
    for seconds in (0, 1, 1, 57.9, 0.1, 1):
        clock.move(seconds)
        await engine.process_turn(context_of())
        runs.append(agent.runs)
    assert runs == [1, 2, 2, 2, 3, 4]


async def test_everybody_who_is_not_asked_is_told_with_the_first_reason() -> None:
    """§11.1, in phase 1 and in phase 2."""
    clock, heard = StillClock(), Heard()
    no = {"rules": [{"var": "none", "op": "exists"}]}
    agents = [
        Scripted("emits", emitting("e")),
        Scripted("not_allowed"),
        Scripted("mismatch", trigger_types=[TriggerType.KEYWORD]),
        Scripted("cooling", cooldown=10),
        Scripted("limited", rate_limit=RateLimit(1)),
        Scripted("unmet", trigger_conditions=no),
        listener("woken", "e", cooldown=10),
        listener("unmet_too", "e", trigger_conditions=no),
        Scripted("off", groups=["night"]),
    ]
    engine = engine_of(*agents, clock=clock, callbacks=[heard])
    engine.groups.switch("night", on=False)
    allowed = [agent.config.id for agent in agents if agent.config.id != "not_allowed"]
    await engine.process_turn(context_of(), allowed)
    heard.calls.clear()
    await engine.process_turn(context_of(), allowed)
    assert heard.of("on_agent_skipped") == [
        ("not_allowed", "not_allowed"),
        ("mismatch", "trigger_type_mismatch"),
        ("cooling", "cooldown"),
        ("limited", "rate_limit"),
        ("unmet", "conditions_not_met"),
        ("woken", "trigger_type_mismatch"),
        ("unmet_too", "trigger_type_mismatch"),
        ("off", "group_off"),
        ("woken", "cooldown"),
        ("unmet_too", "conditions_not_met"),
    ]


def test_a_rate_limit_that_lets_nobody_run_is_refused() -> None:
    with pytest.raises(ValueError, match="lets nobody run"):
        RateLimit(0)
