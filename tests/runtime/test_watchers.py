from __future__ import annotations

import asyncio
from functools import partial

from runtime.watchers import Watchers


async def test_a_condition_that_holds_is_not_waited_for() -> None:
    await Watchers().until(lambda: True)


async def test_only_those_go_whose_condition_holds() -> None:
    watchers, reached = Watchers(), set[str]()
    waits = {name: asyncio.create_task(watchers.until(partial(reached.__contains__, name))) for name in ("a", "b")}
    await asyncio.sleep(0)
    reached.add("a")
    watchers.look()
    await waits["a"]
    assert not waits["b"].done()
    watchers.release()
    await waits["b"]


async def test_who_has_given_up_is_no_harm() -> None:
    watchers = Watchers()
    gone = asyncio.create_task(watchers.until(lambda: False))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.wait([gone])
    watchers.look()
    watchers.release()
    assert gone.cancelled()
