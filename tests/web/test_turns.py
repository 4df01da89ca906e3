"""Requests with the same key take turns; others do not wait; nothing is left behind."""

from __future__ import annotations

import asyncio

import pytest

from web.turns import Turns


async def test_the_same_key_takes_turns() -> None:
    turns, inside, most = Turns(), 0, 0

    async def work() -> None:
        nonlocal inside, most
        async with turns.of(session="s"):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1

    await asyncio.gather(*[work() for _ in range(10)])
    assert most == 1
    assert not turns.busy


async def test_other_keys_and_no_key_do_not_wait() -> None:
    turns = Turns()
    async with turns.of(session="a", key=None), turns.of(session="b", key=None), turns.of(key="a"):
        assert turns.busy == 3
    assert not turns.busy


async def test_two_keys_in_another_order_are_no_deadlock() -> None:
    turns = Turns()

    async def work(**keys: str) -> None:
        async with turns.of(**keys):
            await asyncio.sleep(0)

    async with asyncio.timeout(30):
        await asyncio.gather(*[work(a="1", b="2") for _ in range(5)], *[work(b="2", a="1") for _ in range(5)])


async def test_a_failure_gives_the_turn_back() -> None:
    turns = Turns()
    with pytest.raises(ZeroDivisionError):
        async with turns.of(key="k"):
            raise ZeroDivisionError
    assert not turns.busy
