"""Which of two facts stands (spec 2 §5.7, §6.3, §6.5.4; docs/copilot.md, "Rules")."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monikers.copilot import Blackboard, Fact
from monikers.copilot.merging import merge_facts
from tests.support import examples


def fact(value: Any = 1, key: str | None = "k", **fields: Any) -> Fact:
    return Fact(type="budget", key=key, value=value, **fields)


def values(board: Blackboard) -> list[Any]:
    return [one.value for one in board.facts]


@pytest.mark.parametrize(
    ("older", "newer", "stands"),
    [
        ({"confidence": 0.5}, {"confidence": 0.5}, "new"),
        ({"confidence": 0.5}, {"confidence": 0.6}, "new"),
        ({"confidence": 0.6}, {"confidence": 0.5}, "old"),
        ({"confidence": 0.6, "priority": 1}, {"confidence": 0.5, "priority": 2}, "new"),
        ({"confidence": 0.6, "priority": 2}, {"confidence": 0.5, "priority": 2}, "old"),
        ({"confidence": 0.6, "priority": 9}, {"confidence": 0.7, "priority": 0}, "new"),
        ({"confidence": 0.6, "source_agent": "a"}, {"confidence": 0.1, "source_agent": "a"}, "new"),
        ({"confidence": 0.6, "source_agent": "a"}, {"confidence": 0.1, "source_agent": "b"}, "old"),
        ({"confidence": 0.6, "source_agent": ""}, {"confidence": 0.1, "source_agent": ""}, "old"),
    ],
)
def test_a_fact_against_an_older_one(older: dict[str, Any], newer: dict[str, Any], stands: str) -> None:
    board = Blackboard(facts=[fact("old", **older)])
    board.add_fact(fact("new", **newer))
    assert values(board) == [stands]


def test_facts_of_different_keys_and_types_stand_side_by_side() -> None:
    board = Blackboard(facts=[fact(1, "a"), fact(2, "b"), Fact(type="date", value=3)])
    assert values(board) == [1, 2, 3]
    assert board.get_fact("budget") == fact(1, "a")
    assert board.get_fact("budget", "b") == fact(2, "b")
    assert board.get_fact("budget", "none") is None
    assert board.get_facts_by_type("budget") == [fact(1, "a"), fact(2, "b")]
    assert (board.has_fact("date"), board.has_fact("date", "x"), board.has_fact("none")) == (True, False, False)


def test_key_none_takes_the_place_of_all_facts_of_the_type() -> None:
    board = Blackboard(facts=[fact(1, "a"), fact(2, "b"), Fact(type="date", value=3)])
    board.add_fact(fact(4, None))
    assert values(board) == [3, 4]
    board.add_fact(fact(5, None))
    assert values(board) == [3, 5]


def test_key_none_leaves_all_as_they_are_when_one_of_them_has_to_stay() -> None:
    board = Blackboard(facts=[fact(1, "a", confidence=0.2), fact(2, "b", confidence=0.9)])
    board.add_fact(fact(3, None, confidence=0.5))
    assert values(board) == [1, 2]


def test_a_fact_that_is_replaced_moves_to_the_end() -> None:
    board = Blackboard(facts=[fact(1, "a"), fact(2, "b")])
    board.add_fact(fact(3, "a"))
    assert values(board) == [2, 3]


@pytest.mark.parametrize(
    ("found", "stand"),
    [
        ([("a", 0, 0.9), (None, 0, 0.5)], ["a 0.9"]),
        ([("a", 0, 0.5), (None, 0, 0.9)], ["None 0.9"]),
        ([("a", 0, 0.5), ("b", 0, 0.9), (None, 0, 0.7)], ["a 0.5", "b 0.9"]),
        ([(None, 0, 0.5), ("a", 0, 0.9)], ["None 0.5", "a 0.9"]),
        ([("a", 0, 0.9), (None, 1, 0.1)], ["None 0.1"]),
        ([("a", 0, 0.9), ("a", 0, 0.5), (None, 0, 0.7)], ["a 0.9"]),
        ([("a", 0, 0.5), (None, 0, 0.7), ("a", 0, 0.9)], ["None 0.7", "a 0.9"]),
    ],
)
def test_6_5_4_key_none_in_one_merge_with_others_of_its_type(
    found: list[tuple[str | None, int, float]], stand: list[str]
) -> None:
    """In the order of the merge; each from another agent."""
    board = Blackboard()
    facts = [
        fact(f"{key} {confidence}", key, priority=priority, confidence=confidence, source_agent=f"agent {number}")
        for number, (key, priority, confidence) in enumerate(found)
    ]
    merge_facts(facts, board)
    assert values(board) == stand


def test_6_5_4_only_the_best_of_a_merge_is_put_against_an_older_fact() -> None:
    """Not one of which the best itself would have won, where it loses against the older one."""
    board = Blackboard(facts=[fact("older", priority=1, confidence=0.8, source_agent="old")])
    weak = fact("sure", priority=0, confidence=0.9, source_agent="a")
    merge_facts([weak, fact("important", priority=1, confidence=0.1, source_agent="b")], board)
    assert values(board) == ["older"]
    merge_facts([weak], board)
    assert values(board) == ["sure"]


FACTS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0.1, 0.5, 0.9])), min_size=1, max_size=6)


@given(FACTS)
@examples(200)
def test_among_facts_of_one_merge_priority_decides_then_confidence_then_order(found: list[tuple[int, float]]) -> None:
    """Spec 2 §6.5.4. The agents stand in the order of the merge: ascending priority, then registration."""
    ordered = sorted(enumerate(found), key=lambda one: (one[1][0], one[0]))
    facts = [
        fact(number, priority=priority, confidence=confidence, source_agent=f"agent {number}")
        for number, (priority, confidence) in ordered
    ]
    board = Blackboard()
    merge_facts(facts, board)
    best = max(ordered, key=lambda one: (one[1][0], one[1][1], one[0]))
    assert values(board) == [best[0]]


@given(FACTS)
@examples(50)
def test_the_order_in_which_agents_of_different_weight_finish_makes_no_difference(
    found: list[tuple[int, float]],
) -> None:
    facts = [fact(one, priority=one[0], confidence=one[1]) for one in dict.fromkeys(found)]
    results = []
    for order in itertools.islice(itertools.permutations(facts), 24):
        board = Blackboard()
        merge_facts(order, board)
        results.append(values(board))
    assert all(result == results[0] for result in results)


def test_a_host_may_use_them_as_a_list() -> None:
    board = Blackboard()
    board.facts.append(fact(1, "a"))
    board.facts.extend([fact(2, "b"), fact(3, "c")])
    assert (len(board.facts), board.facts[0].value, board.facts[-1].value) == (3, 1, 3)
    assert [one.value for one in board.facts[1:]] == [2, 3]
    assert board.facts == [fact(1, "a"), fact(2, "b"), fact(3, "c")]
    board.facts.remove(fact(2, "b"))
    with pytest.raises(ValueError, match="no such fact"):
        board.facts.remove(fact(2, "b"))
    with pytest.raises(IndexError):
        board.facts[9]
    assert values(board) == [1, 3]
    board.facts = [fact(9, "z")]
    assert values(board) == [9]
    board.facts.clear()
    assert not board.facts


def test_the_value_is_copied() -> None:
    value = {"eur": [1]}
    board = Blackboard()
    board.add_fact(fact(value))
    value["eur"].append(2)
    assert board.facts[0].value == {"eur": [1]}
