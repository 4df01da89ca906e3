"""Whether the conditions of an agent hold on a board (spec 2 §7.3, §7.4, appendix C).

**Invariant: looking never raises.** Conditions come from JSON that people wrote and values from models: a comparison
that cannot be made does not hold, and whatever a value's own code raises is no more than that.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Rule = Mapping[str, Any]
#: a value and whether its key is there, whatever the value is
Found = tuple[Any, bool]

MAX_REMEMBERED_WARNINGS = 256
MAX_SHOWN_CHARS = 80

_NOWHERE: Found = (None, False)
_log = logging.getLogger(__name__)


class ConditionEvaluator:
    """Evaluates trigger conditions. Keeps no state but which warnings it has given."""

    def __init__(self) -> None:
        self._warned: OrderedDict[tuple[str, str], None] = OrderedDict()

    def evaluate(self, conditions: Any, blackboard: Any, meta: Any, agent_id: str = "") -> bool:
        """True when the agent may run: there are no conditions, or all (mode "all") or one (mode "any") of them hold.

        `meta` is what the engine knows of the turn (`turn_count`, `trigger_type`, ...); `agent_id` says whose memory
        `{"memory": "key"}` is. What is malformed or unknown does not hold, with one warning. Never raises.
        """
        try:
            return self._holds(conditions, blackboard, meta, agent_id)
        except Exception as error:  # a value's own code: its truth, its equality, its hash
            self._warn("conditions", type(error).__name__, "the conditions cannot be evaluated and count as not met")
            return False

    def evaluate_rule(self, rule: Any, blackboard: Any, meta: Any, agent_id: str = "") -> bool:
        """Whether one rule holds. Never raises."""
        try:
            return self._rule_holds(rule, blackboard, meta, agent_id)
        except Exception as error:
            # a comparison that cannot be made: of a text with a number, of what refuses to be compared
            _log.debug("a condition does not hold because comparing raised %s", type(error).__name__)
            return False

    def _holds(self, conditions: Any, blackboard: Any, meta: Any, agent_id: str) -> bool:
        if not conditions:
            return True
        if not isinstance(conditions, Mapping):
            return self._refuse("conditions", conditions, 'write {"mode": "all", "rules": [...]}')
        rules = conditions.get("rules")
        if rules is not None and not _is_list(rules):
            return self._refuse("rules", rules, "write a list of rules")
        mode = conditions.get("mode")
        if mode is not None and not _is_one_of(mode, ("all", "any")):
            return self._refuse("mode", mode, 'write "all" or "any"')
        if not rules:
            return True
        results = [self.evaluate_rule(rule, blackboard, meta, agent_id) for rule in rules]
        return any(results) if mode == "any" else all(results)

    def _rule_holds(self, rule: Any, blackboard: Any, meta: Any, agent_id: str) -> bool:
        if not isinstance(rule, Mapping):
            return self._refuse("rule", rule, 'write {"var": name, "op": "eq", "value": value}')
        source = next((name for name in SOURCES if name in rule), None)
        if source is None:
            return self._refuse("source", sorted(map(str, rule)), f"name one of {', '.join(SOURCES)}")
        op = rule.get("op", "eq")
        compare = OPERATORS.get(op) if isinstance(op, str) else None
        if compare is None:
            return self._refuse("operator", op, f"name one of {', '.join(OPERATORS)}")
        return bool(compare(*SOURCES[source](rule, blackboard, meta, agent_id), rule))

    def _refuse(self, what: str, value: Any, cure: str) -> bool:
        self._warn(what, _shown(value), cure)
        return False

    def _warn(self, what: str, value: str, cure: str) -> None:
        """Say it once; of very many different mistakes the oldest are forgotten and may be told again."""
        if (what, value) in self._warned:
            return
        self._warned[(what, value)] = None
        if len(self._warned) > MAX_REMEMBERED_WARNINGS:
            self._warned.popitem(last=False)
        _log.warning("a trigger condition has an unusable %s, %s, and counts as not met: %s", what, value, cure)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _is_one_of(value: Any, known: tuple[str, ...]) -> bool:
    return isinstance(value, str) and value in known


def _shown(value: Any) -> str:
    """A few characters of a value, whatever its own code does."""
    if isinstance(value, str | int | float | bool | list | dict | tuple | None):
        try:
            return repr(value)[:MAX_SHOWN_CHARS]
        except (RecursionError, ValueError):  # too deep, or a number with too many digits
            return f"a {type(value).__name__} that cannot be shown"
    return f"a {type(value).__name__}"


# --- where a value comes from ----------------------------------------------------------------------------------------


def _of_variable(rule: Rule, blackboard: Any, meta: Any, agent_id: str) -> Found:
    return _looked_up(blackboard.variables, rule["var"])


def _of_fact(rule: Rule, blackboard: Any, meta: Any, agent_id: str) -> Found:
    fact = blackboard.get_fact(rule["fact"], rule.get("key"))
    return _NOWHERE if fact is None else (fact.value, True)


def _of_queue(rule: Rule, blackboard: Any, meta: Any, agent_id: str) -> Found:
    found, there = _looked_up(blackboard.queues, rule["queue"])
    return (found, True) if there else ((), False)


def _of_memory(rule: Rule, blackboard: Any, meta: Any, agent_id: str) -> Found:
    """`key` of the agent's own memory; `agent.key` of another one's."""
    owner, dot, key = rule["memory"].partition(".")
    if not dot:
        owner, key = agent_id, owner
    memory, there = _looked_up(blackboard.memory, owner)
    return _looked_up(memory, key) if there else _NOWHERE


def _of_meta(rule: Rule, blackboard: Any, meta: Any, agent_id: str) -> Found:
    return _looked_up(meta, rule["meta"])


def _looked_up(container: Any, key: Any) -> Found:
    return (container[key], True) if key in container else _NOWHERE


#: in the order in which a rule that names several is read
SOURCES: Mapping[str, Callable[[Rule, Any, Any, str], Found]] = {
    "var": _of_variable,
    "fact": _of_fact,
    "queue": _of_queue,
    "memory": _of_memory,
    "meta": _of_meta,
}


# --- comparing -------------------------------------------------------------------------------------------------------

Compare = Callable[[Any, bool, Rule], Any]


def _contains(actual: Any, there: bool, rule: Rule) -> Any:
    """Membership in a list, a part of a text, a key of an object; of nothing, nothing."""
    return rule.get("value") in actual if actual else False


def _mod(actual: Any, there: bool, rule: Rule) -> Any:
    by = rule.get("value")
    # of numbers only: of a text, "%" fills in a form, as wide as the text asks
    if not isinstance(actual, int | float) or not isinstance(by, int | float):
        return False
    return actual % by == rule.get("result", 0)


OPERATORS: Mapping[str, Compare] = {
    "eq": lambda actual, there, rule: actual == rule.get("value"),
    "neq": lambda actual, there, rule: actual != rule.get("value"),
    "gt": lambda actual, there, rule: actual > rule.get("value"),
    "gte": lambda actual, there, rule: actual >= rule.get("value"),
    "lt": lambda actual, there, rule: actual < rule.get("value"),
    "lte": lambda actual, there, rule: actual <= rule.get("value"),
    "in": lambda actual, there, rule: actual in rule["value"],
    "not_in": lambda actual, there, rule: actual not in rule["value"],
    "contains": _contains,
    # of the value's truth: 0, "" and [] do not exist
    "exists": lambda actual, there, rule: bool(actual),
    # of the key alone: 0, "" and [] are present
    "present": lambda actual, there, rule: there,
    "not_exists": lambda actual, there, rule: not actual,
    "not_empty": lambda actual, there, rule: bool(actual),
    "empty": lambda actual, there, rule: not actual,
    "mod": _mod,
}
