"""Trigger conditions: every operator, every source, and that looking never raises (spec 2 §7.3, §7.4, C)."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monikers.copilot.conditions import MAX_REMEMBERED_WARNINGS, OPERATORS, SOURCES, ConditionEvaluator
from tests.support import examples

MISSING = object()


def board(**variables: Any) -> Any:
    """Anything with the containers of a board."""
    facts = {"budget": 50_000, "none": None}

    def get_fact(kind: str, key: str | None = None) -> Any:
        return SimpleNamespace(value=facts[kind]) if kind in facts and key in (None, "primary") else None

    return SimpleNamespace(
        variables=variables,
        queues={"pending": ["q"], "done": []},
        memory={"coach": {"seen": 3, "off": 0}, "other": {"mood": "good", "a.b": 1}},
        get_fact=get_fact,
    )


def holds(value: Any, op: str, expected: Any = None, **more: Any) -> bool:
    """Whether the variable `x` with this value fulfils a rule."""
    where = board() if value is MISSING else board(x=value)
    rule = {"var": "x", "op": op, "value": expected, **more}
    return ConditionEvaluator().evaluate({"rules": [rule]}, where, {}, "coach")


# --- §7.3, appendix C: the operators one by one ----------------------------------------------------------------------

FALSY: list[Any] = [None, "", [], {}, 0, False]
TABLE: list[tuple[Any, str, Any, bool]] = [
    ("negotiation", "eq", "negotiation", True),
    ("closing", "eq", "negotiation", False),
    (1, "eq", 1.0, True),
    ("1", "eq", 1, False),
    (MISSING, "eq", None, True),
    (MISSING, "neq", "closed", True),
    (MISSING, "gt", 5, False),
    (MISSING, "lte", 5, False),
    (MISSING, "in", ["a"], False),
    (MISSING, "in", [None], True),
    (MISSING, "not_in", ["a"], True),
    (MISSING, "contains", "a", False),
    (MISSING, "not_empty", None, False),
    (MISSING, "mod", 5, False),
    ("open", "neq", "closed", True),
    ("closed", "neq", "closed", False),
    (6, "gt", 5, True),
    (5, "gt", 5, False),
    (None, "gt", 5, False),
    ("6", "gt", 5, False),
    (5, "gte", 5, True),
    (4.9, "gte", 5, False),
    (2, "lt", 3, True),
    (3, "lt", 3, False),
    (MISSING, "lt", 3, False),
    (0.8, "lte", 0.8, True),
    (0.9, "lte", 0.8, False),
    (float("nan"), "gte", 0, False),
    ("closing", "in", ["negotiation", "closing"], True),
    ("lost", "in", ["negotiation", "closing"], False),
    ("x", "in", None, False),
    ("open", "not_in", ["closed", "lost"], True),
    ("lost", "not_in", ["closed", "lost"], False),
    ("x", "not_in", 5, False),
    (["pricing", "roi"], "contains", "pricing", True),
    (["pricing"], "contains", "price", False),
    (("a", "b"), "contains", "b", True),
    ({"a", "b"}, "contains", "b", True),
    ("the pricing page", "contains", "pricing", True),
    ({"pricing": 0}, "contains", "pricing", True),
    ({"a": "pricing"}, "contains", "pricing", False),
    (None, "contains", "pricing", False),
    (5, "contains", "pricing", False),
    ("", "contains", "", False),
    *((falsy, "exists", None, False) for falsy in [*FALSY, MISSING]),
    (1, "exists", None, True),
    *((falsy, "present", None, True) for falsy in FALSY),
    (MISSING, "present", None, False),
    *((falsy, "not_exists", None, True) for falsy in [*FALSY, MISSING]),
    ("x", "not_exists", None, False),
    (["q"], "not_empty", None, True),
    ([], "not_empty", None, False),
    ([], "empty", None, True),
    (["q"], "empty", None, False),
    (MISSING, "empty", None, True),
    (10, "mod", 5, True),
    (11, "mod", 5, False),
    (0, "mod", 5, True),
    (5, "mod", 0, False),
    (None, "mod", 5, False),
    ("%1000000000d", "mod", 5, False),
    (10**5_000, "mod", 7, False),
    (float("inf"), "mod", 5, False),
]


@pytest.mark.parametrize(
    ("value", "op", "expected", "held"), TABLE, ids=[f"{n}-{row[1]}" for n, row in enumerate(TABLE)]
)
def test_operator(value: Any, op: str, expected: Any, held: bool) -> None:
    assert holds(value, op, expected) is held


def test_every_operator_stands_in_the_table() -> None:
    assert {row[1] for row in TABLE} == set(OPERATORS)


def test_mod_compares_with_the_result_that_is_asked_for() -> None:
    assert holds(11, "mod", 5, result=1)
    assert not holds(10, "mod", 5, result=1)
    assert not holds("%d", "mod", 5, result="5")


def test_without_an_operator_a_rule_asks_for_equality() -> None:
    evaluate = ConditionEvaluator().evaluate
    assert evaluate({"rules": [{"var": "x", "value": 1}]}, board(x=1), {}, "coach")
    assert not evaluate({"rules": [{"var": "x", "value": 2}]}, board(x=1), {}, "coach")


# --- §7.3: the sources -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "held"),
    [
        ({"fact": "budget", "op": "gte", "value": 10_000}, True),
        ({"fact": "budget", "key": "primary", "op": "exists"}, True),
        ({"fact": "budget", "key": "other", "op": "exists"}, False),
        ({"fact": "none", "op": "present"}, True),
        ({"fact": "timeline", "op": "present"}, False),
        ({"queue": "pending", "op": "not_empty"}, True),
        ({"queue": "done", "op": "empty"}, True),
        ({"queue": "done", "op": "present"}, True),
        ({"queue": "nowhere", "op": "empty"}, True),
        ({"queue": "nowhere", "op": "present"}, False),
        ({"queue": "pending", "op": "contains", "value": "q"}, True),
        ({"memory": "seen", "op": "eq", "value": 3}, True),
        ({"memory": "off", "op": "present"}, True),
        ({"memory": "mood", "op": "present"}, False),
        ({"memory": "other.mood", "op": "eq", "value": "good"}, True),
        ({"memory": "other.a.b", "op": "eq", "value": 1}, True),
        ({"memory": "nobody.mood", "op": "present"}, False),
        ({"meta": "turn_count", "op": "mod", "value": 5, "result": 0}, True),
        ({"meta": "nothing", "op": "not_exists"}, True),
    ],
)
def test_source(rule: dict[str, Any], held: bool) -> None:
    evaluator = ConditionEvaluator()
    assert evaluator.evaluate({"rules": [rule]}, board(), {"turn_count": 10}, "coach") is held
    assert evaluator.evaluate_rule(rule, board(), {"turn_count": 10}, "coach") is held


def test_7_4_a_rule_that_names_several_sources_is_read_by_the_first() -> None:
    """In the order of §7.3: variable, fact, queue, memory, meta."""
    assert list(SOURCES) == ["var", "fact", "queue", "memory", "meta"]
    names = {"var": "x", "fact": "budget", "queue": "pending", "memory": "seen", "meta": "turn_count"}
    values = {"var": 1, "fact": 50_000, "queue": ["q"], "memory": 3, "meta": 10}
    for place, source in enumerate(SOURCES):
        rule = {**{name: names[name] for name in [*SOURCES][place:]}, "op": "eq", "value": values[source]}
        assert ConditionEvaluator().evaluate_rule(rule, board(x=1), {"turn_count": 10}, "coach"), source


def test_4_4_the_agent_need_not_be_named() -> None:
    rule = {"meta": "turn_count", "op": "eq", "value": 10}
    evaluator = ConditionEvaluator()
    assert evaluator.evaluate({"rules": [rule]}, board(), {"turn_count": 10})
    assert evaluator.evaluate_rule(rule, board(), {"turn_count": 10})
    assert not evaluator.evaluate_rule({"memory": "seen", "op": "exists"}, board(), {})


# --- §7.4: modes, and what is no condition ---------------------------------------------------------------------------

YES, NO = {"var": "x", "value": 1}, {"var": "x", "value": 2}


@pytest.mark.parametrize(
    ("conditions", "held"),
    [
        (None, True),
        ({}, True),
        ({"rules": []}, True),
        ({"mode": "any", "rules": []}, True),
        ({"rules": [YES, NO]}, False),
        ({"mode": "all", "rules": [YES, YES]}, True),
        ({"mode": "any", "rules": [NO, YES]}, True),
        ({"mode": "any", "rules": [NO]}, False),
        ({"mode": None, "rules": [YES]}, True),
    ],
)
def test_mode(conditions: Any, held: bool) -> None:
    assert ConditionEvaluator().evaluate(conditions, board(x=1), {}, "coach") is held


MALFORMED: list[Any] = [
    {"mode": "most", "rules": [YES]},
    {"mode": [], "rules": [YES]},
    {"mode": {}, "rules": [YES]},
    {"mode": "most"},
    {"rules": 5},
    {"rules": "var"},
    {"rules": {"var": "x"}},
    {"rules": [5]},
    {"rules": [None]},
    {"rules": [[YES]]},
    [YES],
    "all",
    5,
    {"rules": [{"vra": "x", "op": "neq", "value": "closed"}]},
    {"rules": [{"op": "not_exists"}]},
    {"rules": [{}]},
    {"rules": [{"var": "x", "op": "equals", "value": 1}]},
    {"rules": [{"var": "x", "op": ["eq"], "value": 1}]},
    {"rules": [{"var": "x", "op": None, "value": 1}]},
]


@pytest.mark.parametrize("conditions", MALFORMED, ids=str)
def test_what_is_malformed_or_unknown_does_not_hold_with_one_warning(
    conditions: Any, caplog: pytest.LogCaptureFixture
) -> None:
    evaluator = ConditionEvaluator()
    with caplog.at_level(logging.WARNING):
        assert [evaluator.evaluate(conditions, board(x=1), {}, "coach") for _ in range(3)] == [False] * 3
    assert len(caplog.records) == 1


@pytest.mark.parametrize("key", [["x"], {"a": 1}, 5, None])
@pytest.mark.parametrize("source", SOURCES)
def test_a_key_that_is_no_name_does_not_hold(source: str, key: Any) -> None:
    rule = {source: key, "op": "exists"}
    assert ConditionEvaluator().evaluate({"rules": [rule]}, board(x=1), {}, "coach") is False


def test_warnings_are_remembered_within_bounds(caplog: pytest.LogCaptureFixture) -> None:
    evaluator = ConditionEvaluator()
    for number in range(3 * MAX_REMEMBERED_WARNINGS):
        evaluator.evaluate({"rules": [{"var": "x", "op": f"op{number}"}]}, board(), {}, "coach")
    assert len(evaluator._warned) == MAX_REMEMBERED_WARNINGS


# --- it never raises -------------------------------------------------------------------------------------------------


class Hostile:
    """Raises whatever is asked of it."""

    def _raise(self, *args: Any) -> Any:
        raise RuntimeError("no")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _raise
    __bool__ = __hash__ = __contains__ = __len__ = __iter__ = __mod__ = __repr__ = _raise


def deep(levels: int = 100_000) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


ODD = [
    Hostile(),
    deep(),
    10**10_000,
    -(10**10_000),
    float("nan"),
    float("inf"),
    {},
    [],
    "",
    b"x",
    set(),
    0,
    -1,
    object(),
]


@pytest.mark.parametrize("op", OPERATORS)
def test_no_pair_of_odd_values_raises(op: str) -> None:
    for actual in ODD:
        for expected in ODD:
            assert holds(actual, op, expected) in (True, False)


def test_hostile_conditions_boards_and_metas_do_not_raise() -> None:
    evaluator = ConditionEvaluator()
    for odd in [*ODD, None]:
        for conditions in (
            odd,
            {"rules": odd},
            {"rules": [odd]},
            {"mode": odd, "rules": [YES]},
            {"rules": [{"var": odd}]},
        ):
            assert evaluator.evaluate(conditions, board(x=1), {}, "coach") in (True, False)
        assert evaluator.evaluate({"rules": [YES]}, odd, odd, "coach") is False
        assert evaluator.evaluate({"rules": [{"meta": "x", "op": "exists"}]}, board(), odd, "coach") is False


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
RULES = st.fixed_dictionaries(
    {},
    optional={**dict.fromkeys(SOURCES, JSON | st.just("x")), "op": st.sampled_from([*OPERATORS]) | JSON, "value": JSON},
)
CONDITIONS = JSON | st.fixed_dictionaries(
    {}, optional={"mode": st.sampled_from(["all", "any"]) | JSON, "rules": st.lists(RULES | JSON, max_size=4) | JSON}
)


@given(CONDITIONS, JSON)
@examples(200)
def test_whatever_json_comes_the_answer_is_yes_or_no(conditions: Any, value: Any) -> None:
    where = board(x=value)
    where.memory["coach"]["x"] = value
    assert ConditionEvaluator().evaluate(conditions, where, {"x": value}, "coach") in (True, False)
