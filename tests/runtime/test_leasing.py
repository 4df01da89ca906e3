"""Shares: from any state they become fair and stay so; who lives is judged without mistaking one's own pause."""

from __future__ import annotations

import dataclasses
import random
import socket
from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from runtime.leasing import Judge, Plan, plan
from store.ids import WorkerId
from store.lanes import SHARDS, LaneId, lanes_of
from store.leases import Lease, LeaseStatus
from store.lock import ProcessRole
from store.testing import START
from tests.runtime.kit import opened
from tests.store.rows import a_worker
from tests.support import examples

A, B, C = WorkerId("a"), WorkerId("b"), WorkerId("c")
ROUNDS = 12

names = st.sampled_from([WorkerId(f"w{number}") for number in range(9)])
Leases = dict[LaneId, Lease]


def leased(owners: dict[LaneId, WorkerId | None]) -> Leases:
    return {lane: Lease(lane, owner, 1, LeaseStatus.ACTIVE, 0, START) for lane, owner in owners.items()}


def carried_out(leases: Leases, me: WorkerId, todo: Plan) -> None:
    """What the plan does to the table."""
    for lease in todo.claim:
        leases[lease.lane] = dataclasses.replace(lease, owner=me, epoch=lease.epoch + 1)
    for lane in todo.release:
        assert leases[lane].owner == me
        leases[lane] = dataclasses.replace(leases[lane], owner=None)


@examples(60)
@given(
    owners=st.lists(st.none() | names, min_size=SHARDS, max_size=SHARDS),
    living=st.sets(names, min_size=1),
    order=st.randoms(use_true_random=False),
)
def test_fair_shares_are_reached_from_any_state_and_then_nothing_moves(
    owners: list[WorkerId | None], living: set[WorkerId], order: random.Random
) -> None:
    leases = leased(dict(zip(lanes_of("echo"), owners, strict=True)))
    taking = dict.fromkeys(living, ("echo",))
    for _ in range(ROUNDS):
        turns = sorted(living)
        order.shuffle(turns)
        for worker in turns:
            carried_out(leases, worker, plan(leases, worker, taking, living))
    counts = Counter(lease.owner for lease in leases.values())
    assert set(counts) <= living
    shares = [counts[worker] for worker in living]
    assert max(shares) - min(shares) <= 1
    assert all(plan(leases, worker, taking, living) == Plan() for worker in living)


@given(
    owners=st.lists(st.none() | names, min_size=SHARDS, max_size=SHARDS),
    living=st.sets(names, min_size=1),
    draining=st.sets(names),
)
def test_nothing_is_claimed_from_a_living_owner_and_only_ones_own_is_given(
    owners: list[WorkerId | None], living: set[WorkerId], draining: set[WorkerId]
) -> None:
    leases = leased(dict(zip(lanes_of("echo"), owners, strict=True)))
    taking = dict.fromkeys(living - draining, ("echo",)) or {A: ("echo",)}
    alive = living | draining | set(taking)
    plans = {worker: plan(leases, worker, taking, alive) for worker in taking}
    claimed = [lease for todo in plans.values() for lease in todo.claim]
    assert all(lease.owner is None or lease.owner not in alive for lease in claimed)
    assert len({lease.lane for lease in claimed}) == len(claimed)  # of those with one view nobody claims another's
    assert all(leases[lane].owner == worker for worker, todo in plans.items() for lane in todo.release)


def test_a_worker_that_joins_many_gets_a_share_also_when_nobody_has_more_than_the_rest() -> None:
    """Four workers with four lanes each: the fifth must not be left without any."""
    four = [WorkerId(f"w{number}") for number in range(4)]
    leases = leased({lane: four[number % 4] for number, lane in enumerate(lanes_of("echo"))})
    workers = [*four, WorkerId("w4")]
    taking = dict.fromkeys(workers, ("echo",))
    assert sum(len(plan(leases, worker, taking, workers).release) for worker in four) == 3


def test_a_worker_that_does_not_know_a_moniker_claims_none_of_it() -> None:
    leases = leased(dict.fromkeys([*lanes_of("echo"), *lanes_of("joke")], None))
    taking = {A: ("echo",), B: ("echo", "joke")}
    assert {lease.lane for lease in plan(leases, A, taking, [A, B]).claim} < set(lanes_of("echo"))
    of_joke = {lease.lane for lease in plan(leases, B, taking, [A, B]).claim if lease.lane.startswith("joke/")}
    assert of_joke == set(lanes_of("joke"))


def test_one_that_drains_keeps_what_it_has_until_it_lets_go() -> None:
    leases = leased(dict.fromkeys(lanes_of("echo"), B))
    assert plan(leases, A, {A: ("echo",)}, [A, B]) == Plan()
    assert len(plan(leases, A, {A: ("echo",)}, [A]).claim) == SHARDS


async def test_a_worker_is_lost_when_its_counter_stood_still_for_its_own_lease_time(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        db = store.tenant()
        judge, clock = Judge(db, A, 8.0), db.clock
        other = a_worker("b", host="elsewhere", beats=1, lease_s=20.0)
        began = clock.monotonic()
        assert judge.living([other], asked_at=began) == [other]
        assert judge.living([other], asked_at=clock.monotonic() + 19) == [other]
        assert judge.living([other], asked_at=clock.monotonic() + 21) == []
        again = dataclasses.replace(other, beats=2)
        assert judge.living([again], asked_at=clock.monotonic() + 100) == [again]


async def test_a_judge_that_stood_still_after_it_asked_holds_nobody_to_be_lost(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        db = store.tenant()
        judge = Judge(db, A, 8.0)
        other = a_worker("b", host="elsewhere", beats=1, lease_s=8.0)
        judge.living([other], asked_at=db.clock.monotonic())
        asked_at = db.clock.monotonic()
        db.clock.leap(60)  # type: ignore[attr-defined]
        assert judge.living([other], asked_at=asked_at) == [other]


async def test_a_process_of_this_machine_is_judged_by_its_lock(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        judge = Judge(store.tenant(), A, 8.0)
        folder = store.options.folder
        assert folder is not None
        here = a_worker("b", host=socket.gethostname(), beats=1)
        assert judge.has_died(here)
        role = ProcessRole(ProcessRole.of_worker(folder, B))
        assert role.try_take()
        assert not judge.has_died(here)
        role.close()
        assert judge.living([here], asked_at=0.0) == []
        assert not judge.has_died(dataclasses.replace(here, host="elsewhere"))
