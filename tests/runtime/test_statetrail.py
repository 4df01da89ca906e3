from __future__ import annotations

import base64
import dataclasses
import hashlib
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contract import StepFrame, StepOut
from runtime.statetrail import MAX_CHANGES, SMALL, StateTrail, state_after, trail_of_row
from store.agent_state import SessionStatus
from store.agent_steps import AgentStep, as_stored, journal_of, state_at
from store.database import TenantStore
from store.ids import SessionId
from store.jsontext import json_dumps, safe_json_loads
from store.upkeep import Upkeep, UpkeepRules
from tests.runtime.kit import KeptLog, moniker, out, workshop
from tests.store.rows import a_step
from tests.support import examples

KB = "x" * 990


class Session:
    """A session's states as they go to the journal, and as they come back from it."""

    def __init__(self) -> None:
        self.trail = StateTrail()
        self.state: dict[str, Any] = {}
        self.rows: list[AgentStep] = []

    def step(self, state: dict[str, Any]) -> AgentStep:
        stored = self.trail.stored(self.state, state)
        step = a_step(iteration=len(self.rows), state=stored.state, changes=stored.changes, base=stored.base)
        self.state = state_after(self.state, step)
        self.trail.follow(step)
        self.rows.append(stored_row(step))
        return step

    def reopen(self) -> None:
        """What a restart does: the row and the trail go through JSON."""
        self.trail = trail_of_row(safe_json_loads(json_dumps(self.trail.row())), len(self.rows) - 1)
        self.state = safe_json_loads(json_dumps(self.state))


def stored_row(step: AgentStep) -> AgentStep:
    """A step as it comes back from the store."""
    row = as_stored(step)
    state, changes = safe_json_loads(json_dumps(row.state)), safe_json_loads(json_dumps(row.changes))
    return dataclasses.replace(row, state=state, changes=changes)


def test_a_small_state_is_stored_whole() -> None:
    session = Session()
    for number in range(5):
        assert session.step({"n": number}).base is None
    assert session.trail.row() is None


def test_a_growing_state_is_a_snapshot_and_changes() -> None:
    session = Session()
    for number in range(5):
        session.step({"n": number, "items": [KB] * (number + 4)})
    assert [row.base for row in session.rows] == [None, 0, 0, 0, 0]
    assert session.rows[1].state is None
    assert session.rows[1].changes == {"set": {"n": 1}, "in": {"items": {"+": [KB]}}}


def test_a_new_snapshot_comes_before_the_changes_are_longer_than_the_state() -> None:
    session = Session()
    for number in range(60):
        session.step({"n": number, "text": f"{number:03}" * 400})
    sizes: dict[int, int] = {}
    for row in session.rows:
        if row.base is not None:
            sizes[row.base] = sizes.get(row.base, 0) + len(json_dumps(row.changes))
    assert all(size <= 1_300 for size in sizes.values())


def test_a_new_snapshot_comes_after_so_many_changes() -> None:
    session = Session()
    for number in range(2 * MAX_CHANGES + 3):
        session.step({"n": number, "kept": KB * 50})
    assert [row.iteration for row in session.rows if row.base is None] == [0, MAX_CHANGES + 1, 2 * MAX_CHANGES + 2]


def test_what_the_moniker_keeps_of_a_large_state_changes_nothing() -> None:
    session, held = Session(), [KB, KB]
    session.step({"items": held})
    held.append("later")
    assert session.state == {"items": [KB, KB]}


def test_a_chain_never_begins_at_what_json_cannot_hold() -> None:
    session = Session()
    pad = "x" * 900
    session.step({1: ("a",), "n": float("nan"), "pad": pad})  # type: ignore[dict-item]
    session.step({"1": ["a"], "n": None, "pad": pad, "more": pad[:200]})
    assert session.rows[1].changes == {"set": {"more": pad[:200]}}
    assert whole(session.rows)[1] == {"1": ["a"], "n": None, "pad": pad, "more": pad[:200]}


EDITS = st.lists(st.tuples(st.sampled_from("asgrcx"), st.integers(0, 3)), min_size=1, max_size=25)


@given(edits=EDITS)
@examples(150)
def test_every_state_is_rebuilt_exactly_whatever_happens_in_between(edits: list[tuple[str, int]]) -> None:
    session, state = Session(), dict[str, Any]()
    shown = []
    for number, (what, size) in enumerate(edits):
        state = {"n": number, **{key: value for key, value in state.items() if key != "n"}}
        match what:
            case "a":
                state["items"] = [*state.get("items", []), KB * size]
            case "s":
                state["text"] = state.get("text", "") + KB * size
            case "g":
                state["flag"] = [1, 1.0, True, None][size]
            case "c":
                state = {"n": number}
            case "r":
                session.reopen()
            case _:
                state["items"] = state.get("items", [])[size:]
        session.step(state)
        shown.append(json_dumps(state))
    assert [json_dumps(found) for found in whole(session.rows)] == shown


def whole(rows: list[AgentStep]) -> list[Any]:
    states: list[Any] = []
    for row in rows:
        states.append(state_after(states[-1] if states else {}, row))
    return [safe_json_loads(json_dumps(state)) for state in states]


def kilobyte(number: int) -> str:
    """A text that cannot be made smaller by much."""
    digests = [hashlib.sha512(f"{number}/{part}".encode()).digest() for part in range(13)]
    return base64.b85encode(b"".join(digests))[:1000].decode()


TEXTS = [kilobyte(number) for number in range(500)]


def grown(shape: str, number: int) -> dict[str, Any]:
    """A state that grows by 1 KB a step, with a counter at its front."""
    texts = TEXTS[: number + 1]
    return {"n": number, "items": texts} if shape == "list" else {"n": number, "text": "".join(texts)}


@pytest.mark.parametrize("shape", ["list", "text"])
async def test_500_steps_of_1_kb_stay_under_5_mb(tmp_path: Path, shape: str) -> None:
    async def grow(_: Any, frame: StepFrame) -> StepOut:
        number = int(frame.step)
        return out(frame, state=grown(shape, number), done=number == 499)

    async with workshop(tmp_path, moniker("grow", grow, first_step="0")) as shop:
        await shop.create("grow")
        await shop.until(SessionStatus.DONE, deadline_s=60)
        await shop.stop()
        await upkeep(shop.db)
        assert folder_bytes(tmp_path) < 5_000_000
        for iteration in (0, 1, 250, 498, 499):
            assert await state_at(shop.db, SessionId("s"), iteration) == grown(shape, iteration)
        assert (await shop.state()).context == grown(shape, 499)


async def upkeep(db: TenantStore) -> None:
    await Upkeep(db.store, UpkeepRules(keep=timedelta(milliseconds=1)), KeptLog()).once(force=True)


def folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


async def test_a_restart_goes_on_with_the_chain(tmp_path: Path) -> None:
    async def grow(_: Any, frame: StepFrame) -> StepOut:
        items = [*frame.state.get("items", []), f"{frame.step}{KB}"]
        return out(frame, state={"n": int(frame.step), "items": items}, wait={"kind": "input"})

    async with workshop(tmp_path, moniker("grow", grow)) as shop:
        await shop.create("grow")
        await shop.until_steps(1)
        for number in range(2, 16):
            await shop.done(await shop.say("more"))
            if number % 4 == 0:
                await shop.restart()
        steps = await shop.steps()
        assert [len(step.state["items"]) for step in steps] == list(range(1, 16))
        raw = [row for row in await journal_of(shop.db).find() if row.iteration >= 0]
        assert sum(row.base is None for row in raw) <= 4
        assert len(json_dumps(steps[-1].state)) > SMALL
