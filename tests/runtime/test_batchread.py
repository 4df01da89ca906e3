from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from runtime.batchread import BatchRead
from tests.runtime.kit import Gate


class Shelf:
    """Doubles numbers; odd ones are not there."""

    def __init__(self, gate: Gate | None = None) -> None:
        self.asked: list[list[int]] = []
        self._gate = gate

    async def read(self, keys: Sequence[int]) -> dict[int, int]:
        self.asked.append(list(keys))
        if self._gate is not None:
            await self._gate.passing()
        if -1 in keys:
            raise ConnectionError("gone")
        return {key: 2 * key for key in keys if key % 2 == 0}


async def test_those_who_ask_together_share_a_read() -> None:
    shelf = Shelf()
    batch = BatchRead(shelf.read)
    assert await asyncio.gather(*[batch.get(key) for key in (2, 4, 5, 2)]) == [4, 8, None, 4]
    assert shelf.asked == [[2, 4, 5]]


async def test_who_asks_during_a_read_is_answered_by_the_next_one() -> None:
    gate = Gate()
    shelf = Shelf(gate)
    batch = BatchRead(shelf.read)
    first = asyncio.create_task(batch.get(2))
    await gate.reached.wait()
    later = [asyncio.create_task(batch.get(key)) for key in (2, 6)]
    await asyncio.sleep(0)
    gate.open()
    assert await asyncio.gather(first, *later) == [4, 4, 12]
    assert shelf.asked == [[2], [2, 6]]


async def test_an_error_reaches_everybody_who_asked_and_nobody_after() -> None:
    batch = BatchRead(Shelf().read)
    failed = await asyncio.gather(batch.get(-1), batch.get(2), return_exceptions=True)
    assert [type(error) for error in failed] == [ConnectionError, ConnectionError]
    assert await batch.get(2) == 4


async def test_one_who_gives_up_does_not_take_the_others_along() -> None:
    gate = Gate()
    batch = BatchRead(Shelf(gate).read)
    impatient, patient = asyncio.create_task(batch.get(2)), asyncio.create_task(batch.get(2))
    await gate.reached.wait()
    impatient.cancel()
    gate.open()
    assert await patient == 4
    with pytest.raises(asyncio.CancelledError):
        await impatient
