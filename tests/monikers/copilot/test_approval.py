"""Insights that wait for a person, by id (docs/copilot.md): oldest first, within bounds."""

from __future__ import annotations

from monikers.copilot import AgentInsight, HeldInsight, InsightType
from monikers.copilot.approval import Holding


def held(number: int, session_id: str = "s") -> HeldInsight:
    insight = AgentInsight(agent_id="a", agent_name="A", type=InsightType.FACT, content=f"number {number}")
    return HeldInsight(f"id{number}", session_id, insight)


def test_the_oldest_is_forgotten_beyond_the_bound() -> None:
    holding = Holding(most=2)
    for number in range(3):
        holding.hold(held(number))
    assert [one.held_id for one in holding.of("s")] == ["id1", "id2"]
    assert holding.take("id0") is None


def test_what_one_session_holds_costs_no_other_one_its_own() -> None:
    holding = Holding(most=2)
    holding.hold(held(99, "t"))
    for number in range(5):
        holding.hold(held(number))
    assert (len(holding.of("s")), holding.of("t")) == (2, [held(99, "t")])


def test_each_session_has_its_own_and_each_is_taken_once() -> None:
    holding = Holding()
    for number, session_id in enumerate("sts"):
        holding.hold(held(number, session_id))
    assert [one.held_id for one in holding.of("s")] == ["id0", "id2"]
    assert holding.take("id0") == held(0)
    assert holding.take("id0") is None
    holding.forget("s")
    assert (holding.of("s"), holding.of("t")) == ([], [held(1, "t")])


def test_what_waited_before_a_restart_takes_the_place_of_what_waits() -> None:
    holding = Holding()
    holding.hold(held(0))
    holding.hold(held(1, "t"))
    holding.take_up("s", [held(2), held(1)])
    assert holding.of("s") == [held(2)]
    assert holding.of("t") == [held(1, "t")]
