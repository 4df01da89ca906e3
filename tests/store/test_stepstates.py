from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from store.agent_steps import AgentStep
from store.stepstates import Place, is_changes, with_states
from tests.store.rows import a_step


class Journal:
    """Rows by place, and how often they were read."""

    def __init__(self, *rows: AgentStep) -> None:
        self.rows = {(row.session_id, row.iteration): row for row in rows}
        self.reads: list[Sequence[Place]] = []

    async def read(self, places: Sequence[Place]) -> Iterable[AgentStep]:
        self.reads.append(places)
        return [self.rows[place] for place in places if place in self.rows]

    def at(self, *iterations: int, session: str = "s") -> list[AgentStep]:
        return [row for row in self.rows.values() if row.session_id == session and row.iteration in iterations]


def chain(length: int, session: str = "s", base: int = 0) -> list[AgentStep]:
    """A snapshot and rows with changes behind it."""
    first = a_step(session, base, state={"items": [base]})
    more = [
        a_step(session, base + at, state=None, base=base, changes={"in": {"items": {"+": [base + at]}}})
        for at in range(1, length)
    ]
    return [first, *more]


async def test_one_read_makes_a_page_whole() -> None:
    journal = Journal(*chain(6), *chain(6, base=6), *chain(4, "other"))
    page = [*journal.at(4, 3, 8), *journal.at(2, session="other")]
    found = await with_states(page, journal.read)
    assert [step.state["items"] for step in found] == [[0, 1, 2, 3], [0, 1, 2, 3, 4], [6, 7, 8], [0, 1, 2]]
    assert [step.id for step in found] == [step.id for step in page]
    assert len(journal.reads) == 1


async def test_nothing_is_read_for_whole_states_nor_for_a_page_that_holds_its_chain() -> None:
    journal = Journal(*chain(6))
    await with_states(journal.at(0), journal.read)
    found = await with_states(list(reversed(journal.at(0, 1, 2, 3))), journal.read)
    assert [step.state["items"][-1] for step in found] == [3, 2, 1, 0]
    assert journal.reads == []


async def test_a_chain_without_its_beginning_or_with_a_gap_has_no_state() -> None:
    lost, gap, other = Journal(*chain(6)), Journal(*chain(6)), Journal(*chain(6))
    lost.rows.pop((lost.at(0)[0].session_id, 0))
    gap.rows.pop((gap.at(2)[0].session_id, 2))
    place = (other.at(2)[0].session_id, 2)
    other.rows[place] = dataclasses.replace(other.rows[place], base=1)
    for journal in (lost, gap, other):
        found = await with_states(journal.at(1, 5), journal.read)
        assert found[-1].state is None
        assert is_changes(found[-1])
    assert (await with_states(gap.at(1), gap.read))[0].state == {"items": [0, 1]}


async def test_changes_that_do_not_fit_give_no_state_from_there_on() -> None:
    journal = Journal(*chain(5))
    place = (journal.at(2)[0].session_id, 2)
    journal.rows[place] = dataclasses.replace(journal.rows[place], changes={"drop": ["gone"]})
    found = await with_states(journal.at(1, 2, 3), journal.read)
    assert [step.state for step in found] == [{"items": [0, 1]}, None, None]


async def test_a_row_that_was_read_with_few_columns_stays_as_it_is() -> None:
    step = a_step(state=None)
    assert await with_states([step], Journal().read) == [step]
