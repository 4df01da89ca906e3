from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runtime.contract import StepFrame, StepOut, WaitForInput
from runtime.slots import Asker, Slots
from store.actions import ActionKind
from store.agent_state import SessionStatus
from store.ids import AgentId, SessionId
from tests.runtime.kit import Gate, Workshop, moniker, out, workshop
from tests.support import eventually


def asker(name: str, *, limit: int | None = 1, urgency: int = 0, woken: list[str] | None = None) -> Asker:
    kept = [] if woken is None else woken
    return Asker(SessionId(name), AgentId("x"), limit, urgency, lambda: kept.append(name))


def test_a_slot_goes_to_the_most_urgent_then_to_the_first(tmp_path: Path) -> None:
    slots, woken = Slots(), list[str]()
    assert slots.take(asker("a", woken=woken)) is None
    for name, urgency in [("b", 0), ("c", 0), ("d", 7), ("b", 0)]:
        assert slots.take(asker(name, urgency=urgency, woken=woken)) == "waiting for a slot: agent 'x' runs 1 of 1"
    for name in ["a", "d", "b", "c"]:
        assert slots.take(asker(name, woken=woken)) is None
        slots.leave(SessionId(name), AgentId("x"))
    assert woken == ["d", "b", "c"]
    assert not slots._agents


def test_who_leaves_the_line_is_passed_over(tmp_path: Path) -> None:
    slots, woken = Slots(), list[str]()
    for name in ["a", "b", "c"]:
        slots.take(asker(name, woken=woken))
    slots.leave(SessionId("b"), AgentId("x"))
    slots.leave(SessionId("a"), AgentId("x"))
    assert woken == ["c"]


def test_a_workers_slot_is_for_one_step(tmp_path: Path) -> None:
    slots, woken = Slots(1), list[str]()
    assert slots.take(asker("a", limit=None)) is None
    assert slots.take(asker("b", limit=None, woken=woken)) == "waiting for a slot: this worker runs 1 of 1 steps"
    slots.step_ended(SessionId("a"))
    assert woken == ["b"]
    assert slots.take(asker("a", limit=None)) is not None


def test_without_a_limit_nobody_waits() -> None:
    slots = Slots()
    assert [slots.take(asker(str(number), limit=None)) for number in range(1000)] == [None] * 1000
    assert not slots._agents


@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans(), st.integers(-2, 2)), max_size=60), st.integers(1, 3)
)
def test_never_more_than_the_limit_and_none_is_forgotten(moves: list[tuple[str, bool, int]], limit: int) -> None:
    slots, holders, wanting = Slots(), set[str](), set[str]()

    def give(name: str) -> None:
        holders.add(name)
        wanting.discard(name)

    for name, asks, urgency in moves:
        if asks:
            one = Asker(SessionId(name), AgentId("x"), limit, urgency, lambda name=name: give(name))  # type: ignore[misc]
            if slots.take(one) is None:
                give(name)
            else:
                wanting.add(name)
        else:
            holders.discard(name)
            wanting.discard(name)
            slots.leave(SessionId(name), AgentId("x"))
        assert len(holders) <= limit
        assert not wanting or len(holders) == limit


# --- sessions --------------------------------------------------------------------------------------------------------


class Rooms:
    """A moniker that counts who is inside a step or between two steps of one turn."""

    def __init__(self, steps: int = 1) -> None:
        self.gates: dict[str, Gate] = {}
        self.order: list[str] = []
        self._steps = steps
        self._left: Counter[str] = Counter()

    async def __call__(self, ctx: Any, frame: StepFrame) -> StepOut:
        name = str(ctx._session.session_id)
        self.order.append(name)
        await self.gates.setdefault(name, Gate()).passing()
        self._left[name] += 1
        return out(frame, **({"wait": WaitForInput()} if self._left[name] % self._steps == 0 else {}))

    def open(self, name: str) -> None:
        self.gates.setdefault(name, Gate()).open()


async def begun(rooms: Rooms, *names: str) -> None:
    await eventually(lambda: set(names) <= set(rooms.order))


async def slot_wait(shop: Workshop, name: str, reason: str) -> None:
    async def so() -> bool:
        return (await shop.state(name)).reason == reason

    await eventually(so)


async def test_at_most_so_many_sessions_of_an_agent_take_a_turn_urgent_ones_first(tmp_path: Path) -> None:
    rooms = Rooms(steps=2)
    async with workshop(tmp_path, moniker("m", rooms)) as shop:
        for name in ["a", "b"]:
            await shop.create("m", name, agent="x", max_concurrent=2)
        await begun(rooms, "a", "b")
        for name, urgency in [("c", 0), ("d", 0), ("e", 9)]:
            await shop.done(await shop.create("m", name, agent="x", max_concurrent=2, urgency=urgency))
        other = await shop.create("m", "free", agent="y")
        await shop.done(other)
        await begun(rooms, "free")
        state = await shop.state("c")
        assert (state.status, state.iteration) == (SessionStatus.RUNNING, -1)
        await slot_wait(shop, "c", "waiting for a slot: agent 'x' runs 2 of 2")
        assert set(rooms.order) == {"a", "b", "free"}
        rooms.open("b")
        await begun(rooms, "e")
        assert rooms.order.count("b") == 2  # it kept its slot for the whole turn
        for name in "eacd":
            rooms.open(name)
        await begun(rooms, "c", "d")
        for name in "abcde":
            await shop.until(SessionStatus.WAITING, name)
        firsts = list(dict.fromkeys(rooms.order))
        assert firsts.index("e") < firsts.index("c") < firsts.index("d")
        rooms.open("free")


async def test_who_waits_for_a_slot_can_be_paused_resumed_and_ended(tmp_path: Path) -> None:
    rooms = Rooms()
    async with workshop(tmp_path, moniker("m", rooms)) as shop:
        await shop.create("m", "a", agent="x", max_concurrent=1)
        await begun(rooms, "a")
        for name in "bcd":
            await shop.done(await shop.create("m", name, agent="x", max_concurrent=1))
        await shop.done(await shop.pause("b"), await shop.destroy("c"))
        assert (await shop.state("b")).status is SessionStatus.PAUSED
        assert (await shop.state("c")).status is SessionStatus.STOPPED
        rooms.open("a")
        await begun(rooms, "d")  # the first in line is paused: the next one gets the slot
        await shop.done(await shop.resume("b"))
        await slot_wait(shop, "b", "waiting for a slot: agent 'x' runs 1 of 1")
        rooms.open("d")
        await begun(rooms, "b")
        rooms.open("b")
        await shop.until(SessionStatus.WAITING, "b")
        assert rooms.order == ["a", "d", "b"]


async def test_waiting_for_a_slot_is_no_runtime(tmp_path: Path) -> None:
    rooms = Rooms()
    async with workshop(tmp_path, moniker("m", rooms)) as shop:
        await shop.create("m", "a", agent="x", max_concurrent=1)
        await begun(rooms, "a")
        await shop.done(await shop.create("m", "b", agent="x", max_concurrent=1, max_runtime_s=60))
        await slot_wait(shop, "b", "waiting for a slot: agent 'x' runs 1 of 1")
        shop.clock.leap(3600)
        rooms.open("a")
        await begun(rooms, "b")
        rooms.open("b")
        await shop.until(SessionStatus.WAITING, "b")
        assert (await shop.state("b")).usage["runtime_s"] < 60


async def test_a_worker_runs_at_most_so_many_steps_and_lets_endless_sessions_take_turns(tmp_path: Path) -> None:
    inside, most = Counter[str](), [0]

    async def endless(ctx: Any, frame: StepFrame) -> StepOut:
        inside["now"] += 1
        most[0] = max(most[0], inside["now"])
        await asyncio.sleep(0)
        inside["now"] -= 1
        return out(frame)

    async with workshop(tmp_path, moniker("m", endless), max_running=2) as shop:
        names = [f"s{number}" for number in range(6)]
        for name in names:
            await shop.create("m", name, max_steps=20)
        for name in names:
            assert (await shop.until(SessionStatus.STOPPED, name)).iteration == 19
        assert 1 <= most[0] <= 2


async def test_a_restart_asks_for_slots_again(tmp_path: Path) -> None:
    rooms = Rooms()
    async with workshop(tmp_path, moniker("m", rooms)) as shop:
        for name in "ab":
            await shop.done(await shop.create("m", name, agent="x", max_concurrent=1))
        await begun(rooms, "a")
        await shop.restart()
        await eventually(lambda: len(rooms.order) >= 2)
        for name in "ab":
            rooms.open(name)
        for name in "ab":
            await shop.until(SessionStatus.WAITING, name)


async def test_waiting_inputs_are_read_urgent_first_then_as_they_came(tmp_path: Path) -> None:
    gate, heard = Gate(), list[str]()

    async def listens(ctx: Any, frame: StepFrame) -> StepOut:
        heard.extend(said.text for said in frame.inputs)
        await gate.passing()
        return out(frame, wait=WaitForInput())

    async with workshop(tmp_path, moniker("m", listens)) as shop:
        await shop.done(await shop.create("m"))
        await gate.reached.wait()
        said = [await shop.say(text, urgency=urgency) for text, urgency in [("1", 0), ("2", -5), ("3", 0), ("4", 50)]]
        await shop.done(await shop.ask(ActionKind.INTERRUPT, payload={"guidance": "g"}))
        gate.open()
        await shop.done(*said)
        assert heard == ["4", "1", "3", "2"]
