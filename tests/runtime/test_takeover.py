"""Two workers on one store: lanes are taken, given and lost, and a worker that stood still shows nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from runtime import leasing, takeover
from runtime.contract import StepFrame, StepOut, WaitForInput, WaitUntil
from store.actions import ActionKind, ActionStatus
from store.agent_state import SessionStatus
from store.agent_steps import raise_fences
from store.database import TenantStore
from store.errors import StoreUnavailableError
from store.ids import AgentId, WorkerId
from store.lanes import LaneId, general_lane, lane_of, moniker_of
from store.leases import LeaseStatus, claim_leases, list_leases
from store.workers import Worker, WorkerStatus, list_workers
from tests.runtime.kit import Gate, Workshop, moniker, out, workshop
from tests.support import eventually

FAST: dict[str, Any] = {"lease_s": 1.0, "heartbeat_s": 0.1}


async def owners(shop: Workshop, name: str) -> dict[LaneId, WorkerId | None]:
    """Who runs each lane of a moniker; None where nobody does yet."""
    leases = [lease for lease in (await list_leases(shop.db)).values() if moniker_of(lease.lane) == name]
    return {lease.lane: lease.owner if lease.status is LeaseStatus.ACTIVE else None for lease in leases}


async def shared_by(shop: Workshop, number: int, name: str = "work") -> Collection[WorkerId | None]:
    """The workers that run a moniker, once there are so many with equal shares."""

    async def so() -> bool:
        running = list((await owners(shop, name)).values())
        shares = {worker: running.count(worker) for worker in running}
        return None not in shares and len(shares) == number and max(shares.values()) - min(shares.values()) <= 1

    await eventually(so, 20)
    return set((await owners(shop, name)).values())


async def newest_worker(shop: Workshop) -> WorkerId:
    return (await list_workers(shop.db))[0].worker_id


async def key_of(shop: Workshop, worker: WorkerId, place: Callable[[str], LaneId]) -> str:
    """An id whose lane a worker owns."""
    leases = await list_leases(shop.db)
    return next(key for key in map("s{}".format, count()) if leases[place(key)].owner == worker)


def of_work(key: str) -> LaneId:
    return lane_of("work", key)


def stall(shop: Workshop) -> Callable[[], None]:
    """No helper of a worker goes on after its next sleep, until what this returns is called."""
    go_on, sleep = asyncio.Event(), shop.clock.sleep

    async def held(seconds: float) -> None:
        await sleep(seconds)
        await go_on.wait()

    shop.clock.sleep = held  # type: ignore[method-assign]

    def wake() -> None:
        shop.clock.sleep = sleep  # type: ignore[method-assign]
        go_on.set()

    return wake


def answering(said: str, gate: Gate | None = None) -> Any:
    """A moniker `work` whose steps say `said` and then wait for input."""

    async def step(ctx: Any, frame: StepFrame) -> StepOut:
        if gate is not None:
            await gate.passing()
        return out(frame, text=said, state={"by": said}, wait=WaitForInput())

    return moniker("work", step)


async def test_nothing_of_a_worker_that_stood_still_is_shown(tmp_path: Path) -> None:
    gate = Gate()
    async with (
        workshop(tmp_path, answering("one", gate), **FAST) as one,
        workshop(tmp_path, answering("two"), **FAST) as two,
    ):
        await shared_by(two, 2)
        first, second = (await list_workers(two.db))[1].worker_id, await newest_worker(two)
        session = await key_of(two, first, of_work)
        thread = await two.thread("t")
        gate.open()
        await two.create("work", session=session, conversation=thread)
        await two.until(SessionStatus.WAITING, session)
        gate.close()
        said = await two.say("hello", session)
        await gate.reached.wait()
        wake = stall(one)
        assert await shared_by(two, 1) == {second}
        await two.done(said)
        gate.open()
        await eventually(lambda: any("taken over by another" in event for event, _ in one.log.of("warning")))
        wake()
        await shared_by(two, 2)
        for shop in (one, two):
            assert [(step.iteration, step.text) for step in await shop.steps(session)] == [(0, "one"), (1, "two")]
            assert [message.text for message in await shop.messages(thread)] == ["one", "two"]
            row = await shop.state(session)
            assert (row.iteration, row.context) == (1, {"by": "two"})
            assert (await shop.action(said)).owner == second
        assert (await two.raw_step_ids()).count(f"{session}:1") == 2  # the late row is there, and hidden
        again = await two.say("again", session)
        await two.done(again)
        assert len(await two.steps(session)) == 3


async def test_an_action_that_names_its_agent_reaches_whoever_runs_its_latest_session(tmp_path: Path) -> None:
    async with (
        workshop(tmp_path, answering("one"), **FAST) as one,
        workshop(tmp_path, answering("two"), **FAST),
    ):
        first, second = await _both(one)
        for here, there in ((first, second), (second, first)):
            agent = await key_of(one, here, general_lane)
            for _ in range(2):  # the second create replaces the first as the agent's latest
                session = f"{await key_of(one, there, of_work)}"
                while await _exists(one, session):
                    session = await _another(one, session, there)
                # Not waited for: the input may come before the session's row is stored.
                created = await one.create("work", session=session, agent=agent)
                said = await one.ask(ActionKind.INPUT, None, agent_id=AgentId(agent), payload={"text": "hi"})
                await one.done(created, said)
                assert (await one.action(said)).session_id == session


async def _both(shop: Workshop) -> tuple[WorkerId, WorkerId]:
    await shared_by(shop, 2)
    await shared_by(shop, 2, "*")
    second, first = (await list_workers(shop.db))[:2]
    return first.worker_id, second.worker_id


async def _exists(shop: Workshop, session: str) -> bool:
    return bool(await shop.steps(session))


async def _another(shop: Workshop, session: str, worker: WorkerId) -> str:
    leases = await list_leases(shop.db)
    start = int(session[1:]) + 1
    return next(key for key in map("s{}".format, count(start)) if leases[of_work(key)].owner == worker)


async def test_a_take_that_the_store_failed_is_made_again(tmp_path: Path) -> None:
    for point in ("leases.claimed", "leases.fenced", "leases.folded"):
        folder = tmp_path / point
        gate = Gate()
        async with workshop(folder, answering("one", gate), **{**FAST, "drain_s": 0.2}) as one:
            await one.create("work")
            await gate.reached.wait()
            await one.until(SessionStatus.RUNNING)
            failures = iter([StoreUnavailableError("away")])

            def fail(visited: str, at: str = point, left: Any = failures) -> None:
                if visited == at and (error := next(left, None)) is not None:
                    raise error

            async with workshop(folder, answering("two"), **FAST) as two:
                await shared_by(two, 2)
                two.crash_point = fail
                wake = stall(one)
                assert await shared_by(two, 1) == {await newest_worker(two)}
                assert next(failures, None) is None, "it did not fail"
                await two.until(SessionStatus.WAITING)
                assert await two.texts() == ["two"]
                gate.open()
                wake()


async def test_an_owner_that_was_held_to_be_lost_and_lives_is_not_fenced_out_before_it_notices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The judge stood still between its look and its claim."""
    async with workshop(tmp_path, answering("one"), **FAST) as one:
        first = await newest_worker(one)
        async with workshop(tmp_path, answering("two"), start=False, **FAST) as two:
            claimed_at: list[float] = []
            fenced_at: list[float] = []

            def note(point: str) -> None:
                {"leases.claimed": claimed_at, "leases.fenced": fenced_at}.get(point, []).append(two.clock.monotonic())

            two.crash_point = note
            claim = claim_leases

            async def late_claim(db: TenantStore, seen: Any, owner: WorkerId, epoch: int) -> Any:
                beats = (await _worker(one, first)).beats
                await eventually(lambda: _has_beaten(one, first, beats))
                return await claim(db, seen, owner, epoch)

            monkeypatch.setattr(takeover, "claim_leases", late_claim)
            judged = patched_living(monkeypatch, first)
            await two.start()
            judged.append(first)  # from here on the judge is right again
            assert fenced_at[0] - claimed_at[0] >= FAST["lease_s"]
            assert any("held to be lost and lives" in event for event, _ in two.log.of("warning"))


async def test_a_lane_that_another_worker_claims_during_a_take_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two workers stood still together, and each holds the other to be lost."""
    robbed: list[LaneId] = []

    async def late(db: TenantStore, lanes: Collection[LaneId], epoch: int) -> None:
        if not robbed:
            robbed.append(sorted(lanes)[0])
            seen = (await list_leases(db))[robbed[0]]
            await claim_leases(db, [seen], WorkerId("faster"), epoch + 1)
        await raise_fences(db, lanes, epoch)

    monkeypatch.setattr(takeover, "raise_fences", late)
    async with workshop(tmp_path, answering("one"), **FAST) as shop:
        taken = [facts for event, facts in shop.log.of("info") if event == "lanes taken"]
        assert taken[0]["lanes"] == len(await list_leases(shop.db)) - 1
        assert any("claimed by another worker meanwhile" in event for event, _ in shop.log.of("warning"))
        assert await shared_by(shop, 1) == {await newest_worker(shop)}  # the faster one does not live
        await shop.create("work")
        await shop.until(SessionStatus.WAITING)


def patched_living(monkeypatch: pytest.MonkeyPatch, dead: WorkerId) -> list[WorkerId]:
    """Have every judge hold a worker to be dead, until the list that is returned names it."""
    spared: list[WorkerId] = []
    living = leasing.Judge.living

    def wrong(judge: leasing.Judge, workers: Any, *, asked_at: float) -> Any:
        found = living(judge, workers, asked_at=asked_at)
        return [one for one in found if one.worker_id != dead or judge.me == dead or one.worker_id in spared]

    monkeypatch.setattr(leasing.Judge, "living", wrong)
    return spared


async def _worker(shop: Workshop, worker: WorkerId) -> Worker:
    return next(row for row in await list_workers(shop.db) if row.worker_id == worker)


async def _has_beaten(shop: Workshop, worker: WorkerId, beats: int) -> bool:
    return (await _worker(shop, worker)).beats > beats


async def test_a_step_that_ends_its_workers_rests_in_error_and_can_be_resumed(tmp_path: Path) -> None:
    gate = Gate()
    async with workshop(tmp_path, answering("one", gate), quiet=False, **FAST, max_losses=2) as shop:
        await shop.create("work")
        for _ in range(3):
            await gate.reached.wait()
            await shop.until(SessionStatus.RUNNING)
            gate.close()
            await shop.restart()
        row = await shop.until(SessionStatus.ERROR)
        assert row.last_error == "3 workers were lost while this step ran; resume to try it again"
        gate.open()
        await shop.done(await shop.resume())
        await shop.until(SessionStatus.WAITING)
        assert await shop.texts() == ["one"]


async def test_a_worker_that_does_not_know_a_moniker_leaves_its_sessions_to_one_that_does(tmp_path: Path) -> None:
    async with workshop(tmp_path, **FAST) as stranger:
        created = await stranger.create("work")
        async with workshop(tmp_path, answering("one"), **FAST) as one:
            await one.until(SessionStatus.WAITING)
            await shared_by(one, 2, "echo")
            assert set((await owners(one, "work")).values()) == {await newest_worker(one)}
            await one.done(created)
        said = await stranger.say("hi")
        await stranger.queue_read()
        assert (await stranger.action(said)).status is ActionStatus.PENDING
        async with workshop(tmp_path, answering("two"), **FAST) as two:
            await two.done(said)
            assert await two.texts() == ["one", "two"]


async def test_sessions_in_every_state_go_on_where_their_lanes_go(tmp_path: Path) -> None:
    gates = {shop: Gate() for shop in ("one", "two")}

    def kinds(shop: str) -> list[Any]:
        async def busy(ctx: Any, frame: StepFrame) -> StepOut:
            if int(frame.step) == 2:
                await gates[shop].passing()
            return out(frame, text=shop, done=int(frame.step) == 3)

        async def sleeps(ctx: Any, frame: StepFrame) -> StepOut:
            until = ctx.clock.now() + timedelta(days=1)
            return out(frame, text=shop, done=int(frame.step) == 2, wait=WaitUntil(time=until))

        async def paused(ctx: Any, frame: StepFrame) -> StepOut:
            return out(frame, text=shop, wait=WaitUntil(time=ctx.clock.now() + timedelta(seconds=5)))

        return [moniker("busy", busy), moniker("sleeps", sleeps), moniker("paused", paused), answering(shop)]

    gates["two"].open()
    async with workshop(tmp_path, *kinds("one"), **FAST) as one:
        for name in ("busy", "sleeps", "paused", "work"):
            await one.create(name, session=name)
        await gates["one"].reached.wait()
        await one.until(SessionStatus.WAITING, "sleeps")
        await one.until(SessionStatus.WAITING, "work")
        await one.done(await one.pause("paused"))
        async with workshop(tmp_path, *kinds("two"), **FAST) as two:
            for name in ("busy", "sleeps", "paused", "work"):
                await shared_by(two, 2, name) if name != "busy" else None
            leaving = asyncio.create_task(one.stop())
            await eventually(lambda: _drains(two))
            gates["one"].open()
            await leaving
            await shared_by(two, 1)
            assert [step.text for step in await two.until_steps(3, "busy")] == ["one", "one", "two"]
            await two.until(SessionStatus.DONE, "busy")
            await two.done(await two.say("hi", "work"))
            assert await two.texts("work") == ["one", "two"]
            assert (await two.state("paused")).status is SessionStatus.PAUSED
            await two.done(await two.resume("paused"))
            two.clock.leap(90_000)
            await two.until(SessionStatus.DONE, "sleeps")
            assert await two.texts("sleeps") == ["one", "two"]
            assert (await two.until_steps(2, "paused"))[1].text == "two"
            await two.destroy("paused")


async def _drains(shop: Workshop) -> bool:
    return any(worker.status is WorkerStatus.DRAINING for worker in await list_workers(shop.db))
