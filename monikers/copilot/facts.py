"""The facts of a board: kept by (type, key) with an index of types, so that adding one costs the same whatever is
there.

Which of two facts for one place stands is decided here (spec 2 §6.3, §6.5.4; docs/copilot.md, "Rules").
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

from monikers.copilot.containers import Shelf
from monikers.copilot.pictures import ABSENT, Picture, Pictures
from monikers.copilot.records import Fact


def replaces(fact: Fact, older: Fact) -> bool:
    """Whether a fact takes the place of an older one: it comes from the same agent, is as certain, or has priority."""
    return (
        fact.confidence >= older.confidence
        or fact.priority > older.priority
        or (fact.source_agent != "" and fact.source_agent == older.source_agent)
    )


class Facts(Sequence[Fact]):
    """All facts, in the order in which they took their places. Hosts may treat it as a list."""

    def __init__(self, facts: Iterable[Fact], pictures: Pictures) -> None:
        #: by (type, key), and by type and then by key
        self._places = Shelf({}, pictures)
        self._types = Shelf({}, pictures)
        for fact in facts:
            self.append(fact)

    def offer(self, fact: Fact) -> bool:
        """Add a fact unless one that stands in its place has to stay; whether it was added.

        `key` None takes the place of all facts of the type.
        """
        rivals = self._rivals(fact)
        is_taken = all(replaces(fact, rival) for rival in rivals)
        if is_taken:
            for rival in rivals:
                self._leave(rival)
            self._enter(fact.sealed())
        return is_taken

    def _rivals(self, fact: Fact) -> list[Fact]:
        if fact.key is None:
            return self.of_type(fact.type)
        there = self._places.get((fact.type, fact.key))
        return [] if there is None else [there]

    def _enter(self, fact: Fact) -> None:
        self._places[fact.type, fact.key] = fact
        if fact.type not in self._types:
            self._types[fact.type] = {}
        self._types[fact.type][fact.key] = fact

    def _leave(self, fact: Fact) -> None:
        del self._places[fact.type, fact.key]
        del self._types[fact.type][fact.key]
        if not self._types[fact.type]:
            del self._types[fact.type]

    def find(self, fact_type: str, key: str | None) -> Fact | None:
        """The fact of a type and key; without a key the first of the type."""
        there: Fact | None
        if key is not None:
            there = self._places.get((fact_type, key))
        else:
            there = next(iter(self._types.get(fact_type, {}).values()), None)
        return there

    def of_type(self, fact_type: str) -> list[Fact]:
        """All facts of a type, in their order."""
        return list(self._types.get(fact_type, {}).values())

    # --- as a picture shows them -------------------------------------------------------------------------------------

    def all_in(self, picture: Picture) -> list[Fact]:
        """All facts as they were."""
        return [picture.get(self._places, place) for place in picture.keys(self._places)]

    def found_in(self, picture: Picture, fact_type: str, key: str | None) -> Fact | None:
        """`find`, as it was."""
        if key is not None:
            there = picture.get(self._places, (fact_type, key))
            return None if there is ABSENT else there
        shelf = picture.get(self._types, fact_type)
        return None if shelf is ABSENT else picture.get(shelf, picture.first(shelf))

    def of_type_in(self, picture: Picture, fact_type: str) -> list[Fact]:
        """`of_type`, as it was."""
        shelf = picture.get(self._types, fact_type)
        return [] if shelf is ABSENT else [picture.get(shelf, key) for key in picture.keys(shelf)]

    # --- as a list ---------------------------------------------------------------------------------------------------

    def append(self, fact: Fact) -> None:
        """Put a fact at the end whatever stood in its place; `Blackboard.add_fact` asks first."""
        for rival in self._rivals(fact):
            self._leave(rival)
        self._enter(fact.sealed())

    def extend(self, facts: Iterable[Fact]) -> None:
        """`append` each."""
        for fact in list(facts):
            self.append(fact)

    def remove(self, fact: Fact) -> None:
        """Take a fact away; raises `ValueError` if it is not there."""
        there = self._places.get((fact.type, fact.key))
        if there is None or there != fact:
            raise ValueError(f"no such fact on the board: {fact!r}")
        self._leave(there)

    def clear(self) -> None:
        """Take all away."""
        self._places.clear()
        self._types.clear()

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Fact]:
        return iter(self._places.values())

    @overload
    def __getitem__(self, at: int) -> Fact: ...
    @overload
    def __getitem__(self, at: slice) -> list[Fact]: ...
    def __getitem__(self, at: int | slice) -> Fact | list[Fact]:
        if isinstance(at, int) and at >= 0:
            for fact in itertools.islice(self._places.values(), at, None):
                return fact  # type: ignore[no-any-return]
        return list(self._places.values())[at]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Facts | list) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: Any) -> list[Fact]:
        return [*self, *other]

    def __repr__(self) -> str:
        return repr(list(self))
