"""What a snapshot shows never changes (docs/copilot.md, "One mechanism"): boards and their views against plain copies,
over any sequence of operations; and what a write costs."""

from __future__ import annotations

import gc
import json
import sys
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from monikers.copilot import Blackboard, Event, Fact
from monikers.copilot.board import Board
from monikers.copilot.views import BlackboardView

NAMES = st.sampled_from(["a", "b", "c", "d"])
SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["x", "y", ""])
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3))
PLACES = st.integers(-3, 3)
CONFIDENCES = st.sampled_from([0.1, 0.5, 0.9])

Plain = dict[str, Any]


def text_of(value: Any) -> str:
    """Everything about a board that can be seen, with its order."""
    return json.dumps(value)


def containers_in(value: Any) -> list[Any]:
    """A list or dict and all those inside it, in a fixed order."""
    inner = list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list) else None
    return [] if inner is None else [value, *(found for item in inner for found in containers_in(item))]


class BoardMachine(RuleBasedStateMachine):
    """One board, changed in every way there is, beside a plain model of it; and any number of views beside copies."""

    def __init__(self) -> None:
        super().__init__()
        self.board = Blackboard()
        self.model: Plain = {"events": [], "variables": {}, "queues": {}, "facts": [], "memory": {}}
        self.views: list[tuple[BlackboardView, str]] = []

    # --- views --------------------------------------------------------------------------------------------------------

    @rule()
    def snapshot(self) -> None:
        self.views.append((self.board.snapshot(), text_of(self.model)))

    @precondition(lambda self: self.views)
    @rule(at=st.integers(0, 20))
    def drop_a_view(self, at: int) -> None:
        del self.views[at % len(self.views)]

    @precondition(lambda self: self.views)
    @rule(at=st.integers(0, 20))
    def read_a_view(self, at: int) -> None:
        """What is read is kept for later reads, so most views are left unread until the end."""
        check_view(*self.views[at % len(self.views)])

    @invariant()
    def the_board_is_as_its_model(self) -> None:
        assert text_of(self.board.to_dict()) == text_of(self.model)
        assert text_of(self.board.variables) == text_of(self.model["variables"])
        assert self.board.queues == self.model["queues"]

    def teardown(self) -> None:
        for view, shown in self.views:
            check_view(view, shown)

    # --- variables ----------------------------------------------------------------------------------------------------

    @rule(name=NAMES, value=VALUES)
    def set_var(self, name: str, value: Any) -> None:
        self.board.set_var(name, value)
        self.model["variables"][name] = deepcopy(value)

    @rule(name=NAMES)
    def delete_var(self, name: str) -> None:
        self.board.delete_var(name)
        self.model["variables"].pop(name, None)

    @rule(entries=st.dictionaries(NAMES, VALUES, max_size=3))
    def update_variables(self, entries: Plain) -> None:
        self.board.variables.update(entries)
        self.model["variables"].update(deepcopy(entries))

    @rule(entries=st.dictionaries(NAMES, VALUES, max_size=3))
    def assign_variables(self, entries: Plain) -> None:
        self.board.variables = entries
        self.model["variables"] = deepcopy(entries)

    @rule()
    def clear_variables(self) -> None:
        self.board.variables.clear()
        self.model["variables"].clear()

    @precondition(lambda self: self.model["variables"])
    @rule()
    def popitem(self) -> None:
        assert self.board.variables.popitem()[0] == self.model["variables"].popitem()[0]

    @rule(name=NAMES, value=VALUES)
    def setdefault(self, name: str, value: Any) -> None:
        assert self.board.variables.setdefault(name, value) == self.model["variables"].setdefault(name, deepcopy(value))

    # --- anything inside ----------------------------------------------------------------------------------------------

    @rule(where=st.sampled_from(["variables", "queues", "memory"]), at=st.integers(0, 30), value=VALUES, place=PLACES)
    def change_inside(self, where: str, at: int, value: Any, place: int) -> None:
        live, model = containers_in(getattr(self.board, where))[1:], containers_in(self.model[where])[1:]
        if live:
            change(live[at % len(live)], value, place)
            change(model[at % len(model)], deepcopy(value), place)

    @rule(name=NAMES, value=VALUES)
    def change_what_left_the_board(self, name: str, value: Any) -> None:
        """Somebody still holds a list that is not on the board any more."""
        held = self.board.variables.get(name)
        self.delete_var(name)
        if isinstance(held, list):
            held.append(value)
            held.reverse()

    # --- queues -------------------------------------------------------------------------------------------------------

    @rule(name=NAMES, items=st.lists(VALUES, max_size=3))
    def push(self, name: str, items: list[Any]) -> None:
        self.board.push_queue_items(name, items)
        self.model["queues"].setdefault(name, []).extend(deepcopy(items))

    @rule(name=NAMES)
    def pop(self, name: str) -> None:
        queue = self.model["queues"].get(name)
        assert self.board.pop_queue(name) == (queue.pop(0) if queue else None)

    @rule(name=NAMES)
    def clear_queue(self, name: str) -> None:
        self.board.clear_queue(name)
        self.model["queues"][name] = []

    # --- memory -------------------------------------------------------------------------------------------------------

    @rule(name=NAMES, data=st.dictionaries(NAMES, VALUES, max_size=3))
    def set_memory(self, name: str, data: Plain) -> None:
        self.board.set_memory(name, data)
        self.model["memory"][name] = deepcopy(data)

    @rule(name=NAMES, data=st.dictionaries(NAMES, VALUES, max_size=3))
    def update_memory(self, name: str, data: Plain) -> None:
        self.board.update_memory(name, data)
        self.model["memory"].setdefault(name, {}).update(deepcopy(data))

    # --- facts and events ---------------------------------------------------------------------------------------------

    @rule(
        kind=NAMES,
        key=st.none() | NAMES,
        value=VALUES,
        confidence=CONFIDENCES,
        priority=st.integers(0, 1),
        source=st.sampled_from(["", "p", "q"]),
    )
    def add_fact(self, kind: str, key: str | None, value: Any, confidence: float, priority: int, source: str) -> None:
        fact = Fact(type=kind, key=key, value=value, confidence=confidence, priority=priority, source_agent=source)
        self.board.add_fact(fact)
        added = fact.model_dump()
        rivals = [old for old in self.model["facts"] if old["type"] == kind and key in (None, old["key"])]
        if all(gives_way(old, added) for old in rivals):
            self.model["facts"] = [old for old in self.model["facts"] if old not in rivals] + [added]

    @precondition(lambda self: self.model["facts"])
    @rule(at=st.integers(0, 20))
    def remove_fact(self, at: int) -> None:
        place = at % len(self.model["facts"])
        self.board.facts.remove(self.board.facts[place])
        del self.model["facts"][place]

    @rule(name=NAMES, payload=st.dictionaries(NAMES, VALUES, max_size=2))
    def emit(self, name: str, payload: Plain) -> None:
        self.board.emit_event(Event(name=name, payload=payload))
        self.model["events"].append(Event(name=name, payload=deepcopy(payload)).model_dump())

    @rule()
    def clear_events(self) -> None:
        self.board.clear_events()
        self.model["events"] = []


def gives_way(old: Plain, new: Plain) -> bool:
    """The rule of docs/copilot.md for a fact against an older one, in other words than the code's."""
    same_agent = new["source_agent"] and new["source_agent"] == old["source_agent"]
    return bool(same_agent) or not (new["confidence"] < old["confidence"] and new["priority"] <= old["priority"])


def change(container: Any, value: Any, place: int) -> None:
    """Change a list or a dict in place, the same way for the same arguments."""
    if isinstance(container, dict):
        if place < 0:
            container.pop(next(iter(container), None), None)
        else:
            container["abcd"[place]] = value
    elif place < -1:
        container.insert(place, value)
    elif place == -1:
        del container[:1]
    elif place == 0:
        container[:] = container[::-1]
    elif place == 1 and container:
        container[0] = value
    else:
        container.append(value)


def check_view(view: BlackboardView, shown: str) -> None:
    """A view shows what was there when it was taken."""
    assert text_of(view.to_dict()) == shown
    assert_reads_alike(view, json.loads(shown))


def assert_reads_alike(view: BlackboardView, shown: Plain) -> None:
    """Every way of reading a view says the same."""
    again = Blackboard.from_dict(shown)
    for name in "abcd":
        assert view.get_var(name, "none") == again.get_var(name, "none")
        assert view.has_var(name) == (name in view.variables) == again.has_var(name)
        assert view.peek_queue(name) == again.peek_queue(name)
        assert view.queue_length(name) == again.queue_length(name)
        assert view.get_fact(name) == again.get_fact(name)
        assert view.get_facts_by_type(name) == again.get_facts_by_type(name)
        assert view.get_memory(name) == again.get_memory(name)
        assert view.count_events(name) == again.count_events(name)
    assert len(view.variables) == len(shown["variables"])
    assert list(view.variables) == list(shown["variables"])


TestBoards = BoardMachine.TestCase
TestBoards.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


# --- what it costs ----------------------------------------------------------------------------------------------------


def operations(board: Board, act: Any) -> int:
    """How many Python calls an operation makes: the same on every machine."""
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        act(board)
    finally:
        sys.setprofile(None)
    return calls


def filled(size: int) -> Blackboard:
    """A board with so many of everything."""
    return Blackboard(
        variables={f"name{number}": number for number in range(size)},
        queues={"queue": list(range(size))},
        facts=[Fact(type="kind", key=f"key{number}", value=number) for number in range(size)],
        memory={"agent": {f"name{number}": number for number in range(size)}},
    )


@pytest.mark.parametrize(
    "act",
    [
        lambda board: board.snapshot(),
        lambda board: board.set_var("name3", "new"),
        lambda board: board.set_var("new", "new"),
        lambda board: board.push_queue("queue", "new"),
        lambda board: board.update_memory("agent", {"name3": "new"}),
        lambda board: board.add_fact(Fact(type="kind", key="key3", value="new")),
        lambda board: board.add_fact(Fact(type="kind", key="new", value="new")),
        lambda board: board.get_fact("kind"),
        lambda board: board.delete_var("name3"),
    ],
)
@pytest.mark.parametrize("views", [0, 1, 3])
def test_the_cost_does_not_depend_on_what_the_board_holds(act: Any, views: int) -> None:
    costs = []
    for size in (10, 1_000):
        board = filled(size)
        # the ranks of keys are counted once in a board's life, when a key first leaves under a view
        first = board.snapshot()
        for shelf in (board.variables, *board.memory.values()):
            shelf["gone"] = 1
            del shelf["gone"]
        board.add_fact(Fact(type="kind", key="key5"))
        held = [first]
        for number in range(views):
            board.set_var("between", number)
            held.append(board.snapshot())
        if not views:
            del first, held
            gc.collect()
        costs.append(operations(board, act))
    assert costs[0] == costs[1]


def test_a_view_that_nobody_holds_costs_nothing() -> None:
    board = filled(10)
    alone = operations(board, lambda board: board.set_var("name3", 1))
    views = [board.snapshot()]
    assert operations(board, lambda board: board.set_var("name4", 1)) > alone
    views.clear()
    assert operations(board, lambda board: board.set_var("name5", 1)) == alone


def test_between_two_writes_all_snapshots_are_one_picture() -> None:
    board = filled(3)
    views = [board.snapshot() for _ in range(100)]
    assert len(board._pictures.alive) == 1
    board.set_var("name1", "new")
    assert [view.get_var("name1") for view in views] == [1] * 100
