"""Runs a pattern over a text in time linear in the text, whatever both are.

A pattern becomes a nondeterministic automaton (Thompson's construction). All its states are followed at once, so there
is nothing to go back to. Python's own `re` goes back, holds the interpreter's lock while it does, and cannot be
stopped: one bad pattern would stall every session of the worker.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import assert_never

from runtime.guard.errors import PatternError
from runtime.guard.patternsyntax import At, Char, Choice, Edge, Node, Repeat, Sequence, is_word, parse

MAX_STATES = 1_000
#: states looked at between two chances for others to run, about 10 ms on a slow machine
PIECE_WORK = 20_000
_MAX_KEPT_STEPS = 20_000

Ranges = list[tuple[int, int]]
_Edges = frozenset[Edge]
_NO_EDGES: _Edges = frozenset()
_EDGES: dict[tuple[bool, bool, bool], _Edges] = {
    (word, start, end): frozenset(
        {Edge.WORD if word else Edge.NO_WORD, *[Edge.LINE_START] * start, *[Edge.LINE_END] * end}
    )
    for word in (False, True)
    for start in (False, True)
    for end in (False, True)
}


@dataclass(slots=True)
class _State:
    """Takes a character (`char`), stands at an edge (`edge`), or neither; then goes on to all of `then`."""

    char: Char | None = None
    edge: Edge | None = None
    then: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Row:
    """A set of states that were once active together, and what follows it by character (and edges)."""

    states: frozenset[int]
    at_end: bool
    steps: dict[str | tuple[str, _Edges], _Row] = field(default_factory=dict)


class Automaton:
    """A compiled pattern. Not changed by a run but for a cache of bounded size; not to be shared between threads."""

    def __init__(self, pattern: str, *, ignore_case: bool = False) -> None:
        """Raises `PatternError` for what cannot be run (see patternsyntax), is too large, or matches the empty text."""
        self._ignore_case = ignore_case
        self._states: list[_State] = [_State()]  # the first one is the end
        self._start = self._built(parse(pattern), 0)
        self._has_edges = any(state.edge for state in self._states)
        self._rows: dict[frozenset[int], _Row] = {}
        self._kept_steps = 0
        if 0 in self._reach({self._start: 0}, frozenset(Edge)):
            raise PatternError("the pattern matches the empty text, so it would match everywhere: make a part needed")

    def pieces(self, text: str) -> Generator[None, None, Ranges]:
        """Return what of `text` belongs to any match, as merged ranges; yields after every `PIECE_WORK` states."""
        if not (yield from self._occurs(text)):
            return []
        return (yield from self._covered(text))

    def ranges(self, text: str) -> Ranges:
        """What `pieces` returns, in one go."""
        run = self.pieces(text)
        while True:
            try:
                next(run)
            except StopIteration as end:
                found: Ranges = end.value
                return found

    # --- building ----------------------------------------------------------------------------------------------------

    def _built(self, node: Node, then: int) -> int:
        """The state from which `node` is read and after which `then` follows."""
        match node:
            case Char():
                return self._new(_State(char=node, then=[then]))
            case At(edge):
                return self._new(_State(edge=edge, then=[then]))
            case Sequence(parts):
                for part in reversed(parts):
                    then = self._built(part, then)
                return then
            case Choice(parts):
                return self._new(_State(then=[self._built(part, then) for part in parts]))
            case Repeat(part, low, high):
                return self._repeated(part, low, high, then)
            case _:
                assert_never(node)

    def _repeated(self, part: Node, low: int, high: int | None, then: int) -> int:
        if high is None:
            loop = self._new(_State(then=[then]))
            self._states[loop].then.append(self._built(part, loop))
            entry = loop
        else:
            entry = then
            for _ in range(high - low):
                entry = self._new(_State(then=[then, self._built(part, entry)]))
        for _ in range(low):
            entry = self._built(part, entry)
        return entry

    def _new(self, state: _State) -> int:
        if len(self._states) >= MAX_STATES:
            raise PatternError(f"the pattern needs over {MAX_STATES} states: lower the counts in {{}} or split it")
        self._states.append(state)
        return len(self._states) - 1

    # --- running -----------------------------------------------------------------------------------------------------

    def _occurs(self, text: str) -> Generator[None, None, bool]:
        """Whether there is any match. Each distinct step is computed once and then looked up."""
        row = self._row(frozenset({self._start}))
        work = 0
        for at, char in enumerate(text):
            key = (char, self._edges(text, at)) if self._has_edges else char
            step = row.steps.get(key)
            if step is None:
                step = self._step(row, char, self._edges(text, at))
                row.steps[key] = step
                work += len(self._states)
            if step.at_end:
                return True
            row = step
            work += 1
            if work >= PIECE_WORK:
                work = 0
                yield
        return 0 in self._reach(dict.fromkeys(row.states, 0), self._edges(text, len(text)))

    def _step(self, row: _Row, char: str, edges: _Edges) -> _Row:
        """The states after `char`, the start among them; the end is too if a match ends before or with `char`."""
        reached = self._reach(dict.fromkeys(row.states, 0), edges)
        self._kept_steps += 1
        if self._kept_steps > _MAX_KEPT_STEPS:
            self._rows.clear()
            self._kept_steps = 0
        return self._row(frozenset({self._start, *self._advance(reached, char), *({0} & reached.keys())}))

    def _row(self, states: frozenset[int]) -> _Row:
        return self._rows.setdefault(states, _Row(states, at_end=0 in states))

    def _covered(self, text: str) -> Generator[None, None, Ranges]:
        """Merged ranges of all matches. Every state carries the earliest start of the ways into it: of the matches
        with the same end, the one that began first covers the others."""
        found: Ranges = []
        active: dict[int, int] = {}
        work = 0
        for at in range(len(text) + 1):
            active.setdefault(self._start, at)
            reached = self._reach(active, self._edges(text, at))
            if 0 in reached:
                _add(found, reached[0], at)
            active = self._advance(reached, text[at]) if at < len(text) else {}
            work += len(reached)
            if work >= PIECE_WORK:
                work = 0
                yield
        return found

    def _reach(self, active: dict[int, int], edges: _Edges) -> dict[int, int]:
        """The states that can be reached without a character, each with its earliest start."""
        reached: dict[int, int] = {}
        for origin, start in sorted(active.items(), key=lambda item: item[1]):
            open_states = [origin]
            while open_states:
                at = open_states.pop()
                if at in reached:
                    continue
                reached[at] = start
                state = self._states[at]
                if state.char is None and (state.edge is None or state.edge in edges):
                    open_states += state.then
        return reached

    def _advance(self, reached: dict[int, int], char: str) -> dict[int, int]:
        """The states after `char`, each with its earliest start."""
        after: dict[int, int] = {}
        for at, start in reached.items():
            state = self._states[at]
            if state.char is not None and self._takes(state.char, char):
                for target in state.then:
                    after[target] = min(start, after.get(target, start))
        return after

    def _takes(self, wanted: Char, char: str) -> bool:
        forms = [char]
        if self._ignore_case:
            forms += [form for form in (char.lower(), char.upper()) if len(form) == 1]
        return any(test(form) for form in forms for test in wanted.tests) != wanted.negated

    def _edges(self, text: str, at: int) -> _Edges:
        return _edges(text, at) if self._has_edges else _NO_EDGES


def _edges(text: str, at: int) -> _Edges:
    """Which edges there are between the characters `at - 1` and `at`."""
    before, after = text[at - 1 : at] if at else "", text[at : at + 1]
    return _EDGES[is_word(before) != is_word(after), before in {"", "\n"}, after in {"", "\n"}]


def _add(ranges: Ranges, start: int, end: int) -> None:
    """Add a range whose end is after all others', merging it with those it touches."""
    while ranges and ranges[-1][1] > start:
        start = min(start, ranges.pop()[0])
    ranges.append((start, end))
