"""Group commit: many callers share a commit, in order, and each learns what became of its own items."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import BadRowError, StoreUnavailableError
from store.groupcommit import GroupCommit
from tests.support import examples


class Log:
    """Commits into a list. While `gate` is closed a commit is under way; items in `bad` are refused."""

    def __init__(self, *bad: int, error: Exception | None = None) -> None:
        self.commits: list[list[int]] = []
        self.tried: list[list[int]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.error = error
        self._bad = set(bad)

    async def commit(self, items: Sequence[int]) -> int:
        self.tried.append(list(items))
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        if self._bad & set(items):
            raise BadRowError(f"among {items}")
        self.commits.append(list(items))
        return len(self.commits)

    @property
    def stored(self) -> list[int]:
        return [item for commit in self.commits for item in commit]


def group_of(log: Log, max_items: int = 100) -> GroupCommit[int]:
    return GroupCommit(log.commit, max_items=max_items)


async def test_a_caller_gets_the_version_that_holds_its_item() -> None:
    group = group_of(Log())

    assert [await group.submit(1), await group.submit(2)] == [1, 2]


async def test_many_callers_at_once_share_few_commits() -> None:
    log = Log()
    group = group_of(log, 1000)

    async def caller(number: int) -> int:
        return await group.submit(number)

    versions = await asyncio.gather(*[caller(number) for number in range(500)])

    assert len(log.commits) == 1
    assert set(versions) == {1}


async def test_whoever_is_ready_when_the_first_one_comes_shares_its_commit() -> None:
    log = Log()
    group = group_of(log)

    async def caller(number: int) -> int:
        return await group.submit(number)

    first = group.submit(0)
    others = [asyncio.create_task(caller(number)) for number in (1, 2)]

    assert await asyncio.gather(first, *others) == [1, 1, 1]
    assert log.commits == [[0, 1, 2]]


async def test_who_comes_while_a_commit_is_under_way_shares_the_next() -> None:
    log = Log()
    group = group_of(log)
    log.gate.clear()
    first = group.submit(0)
    while not log.tried:
        await asyncio.sleep(0)

    later = [group.submit(number) for number in (1, 2, 3)]
    log.gate.set()

    assert [await stored for stored in (first, *later)] == [1, 2, 2, 2]
    assert log.commits == [[0], [1, 2, 3]]


@examples(150)
@given(st.lists(st.lists(st.integers(), max_size=5).map(tuple), max_size=15), st.integers(1, 8))
async def test_order_is_kept_and_what_was_handed_over_together_stays_together(
    submits: list[tuple[int, ...]], max_items: int
) -> None:
    log = Log()
    group = group_of(log, max_items)

    versions = await asyncio.gather(*[group.submit(*items) for items in submits])

    assert log.stored == [item for items in submits for item in items]
    assert list(versions) == sorted(versions)
    for version, commit in enumerate(log.commits, start=1):
        mine = [items for items, at in zip(submits, versions, strict=True) if at == version]
        assert commit == [item for items in mine for item in items]
        assert len(commit) <= max_items or len(mine) == 1


async def test_a_bad_item_fails_alone() -> None:
    log = Log(2)
    group = group_of(log)

    answers = await asyncio.gather(*[group.submit(number) for number in range(5)], return_exceptions=True)

    assert [type(answer) for answer in answers] == [int, int, BadRowError, int, int]
    assert log.stored == [0, 1, 3, 4]


async def test_the_neighbours_of_a_bad_item_keep_together_and_in_order() -> None:
    log = Log(3)
    group = group_of(log)

    answers = await asyncio.gather(group.submit(1, 2), group.submit(3, 4), group.submit(5, 6), return_exceptions=True)

    assert isinstance(answers[1], BadRowError)
    assert log.commits == [[1, 2], [5, 6]]


async def test_the_queue_goes_on_after_a_bad_item() -> None:
    log = Log(1)
    group = group_of(log)
    with pytest.raises(BadRowError):
        await group.submit(1)

    assert await group.submit(2) == 1


async def test_when_the_store_is_away_every_caller_of_the_group_learns_it_once() -> None:
    log = Log(error=StoreUnavailableError("away"))
    group = group_of(log)

    answers = await asyncio.gather(*[group.submit(number) for number in range(3)], return_exceptions=True)
    assert [type(answer) for answer in answers] == [StoreUnavailableError] * 3
    assert log.tried == [[0, 1, 2]]  # not caller by caller: that would only wait three times as long

    log.error = None
    assert await group.submit(9) == 1


async def test_a_cancelled_caller_does_not_disturb_the_others() -> None:
    log = Log()
    group = group_of(log)
    log.gate.clear()

    async def caller(number: int) -> int:
        return await group.submit(number)

    callers = [asyncio.create_task(caller(number)) for number in range(3)]
    while not log.tried:
        await asyncio.sleep(0)
    callers[1].cancel()
    log.gate.set()
    answers = await asyncio.gather(*callers, return_exceptions=True)

    assert isinstance(answers[1], asyncio.CancelledError)
    assert [answers[0], answers[2]] == [1, 1]
    assert log.stored == [0, 1, 2]


async def test_a_cancelled_caller_of_a_failing_group_does_not_disturb_the_others() -> None:
    log = Log(0)
    group = group_of(log)
    doomed, good = group.submit(0), group.submit(1)

    doomed.cancel()

    assert await good == 1


async def test_on_commit_is_called_with_the_items_before_their_callers_go_on() -> None:
    log = Log()
    events: list[object] = []
    group = GroupCommit(
        log.commit, max_items=100, on_commit=lambda items, version: events.append((list(items), version))
    )

    async def caller(number: int) -> None:
        await group.submit(number)
        events.append(number)

    await asyncio.gather(caller(1), caller(2))

    assert events == [([1, 2], 1), 1, 2]


async def test_on_commit_is_not_called_for_what_was_refused() -> None:
    told: list[list[int]] = []
    group = GroupCommit(Log(1).commit, max_items=100, on_commit=lambda items, _: told.append(list(items)))

    await asyncio.gather(group.submit(1), group.submit(2), return_exceptions=True)

    assert told == [[2]]


async def test_callers_get_their_answer_even_if_on_commit_fails() -> None:
    log = Log()

    def fails(items: Sequence[int], version: int) -> None:
        raise KeyError("a hook with a mistake")

    group = GroupCommit(log.commit, max_items=1, on_commit=fails)
    stored = [group.submit(1), group.submit(2)]
    loop = asyncio.get_running_loop()
    reported: list[object] = []
    loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))

    assert await asyncio.gather(*stored) == [1, 2]
    assert log.stored == [1, 2]
    await group.drained()
    assert [type(error) for error in reported] == [KeyError, KeyError]


async def test_drained_returns_when_everything_is_stored_or_has_failed() -> None:
    log = Log(2)
    group = group_of(log, 1)
    answers = [group.submit(number) for number in (1, 2, 3)]

    await group.drained()

    assert all(answer.done() for answer in answers)
    assert isinstance(answers[1].exception(), BadRowError)
    await group.drained()
