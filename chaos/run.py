"""One run: processes, people, faults, the calm after them, and the verdict."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import aiohttp

from chaos.bombardment import Bombardment
from chaos.checker import Broken, Repeats, broken, expected_events, in_flight, recoveries
from chaos.client import Client
from chaos.disk import small_disk
from chaos.evidence import Evidence, gather
from chaos.fleet import WEB, fleet
from chaos.follower import Follower
from chaos.ledger import Ledger
from chaos.schedule import Kind, faults
from chaos.standin import HOST, StandIn, stand_in
from chaos.workload import Person, Plan, plan
from store.clock import SystemClock, SystemIds
from store.database import open_store
from store.options import StoreOptions

LEASE_S = 3.0
_HEARTBEAT_S = 0.5
_MAX_ROOMS = 80
_END_WITHIN_S = 45.0


@dataclass(frozen=True, slots=True)
class Orders:
    """What is to be done."""

    seed: int
    kills: int
    duration_s: float
    workers: int
    people: int
    #: whether new lives get crash points
    points: bool
    #: the share of requests to the model that fail
    model_faults: float
    #: seconds after the last fault in which everything has to be finished
    calm_s: float
    disk_mb: int
    without: tuple[Kind, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a run ended."""

    orders: Orders
    ledger: Ledger
    broken: tuple[Broken, ...]
    repeats: Repeats
    recoveries: tuple[float, ...]
    sessions: int
    steps: int
    lasted_s: float
    disk: bool


async def run(orders: Orders, folder: Path, tell: Callable[[str], None]) -> Verdict:
    """Do it in `folder`. Whatever happens, every process that was started has ended when this returns."""
    began, ledger, data = time.monotonic(), Ledger(), folder / "data"
    with small_disk(data, orders.disk_mb) if orders.disk_mb else contextlib.nullcontext(False) as disk:
        await _make_store(data)
        async with stand_in(ledger, seed=orders.seed, share=orders.model_faults) as outside:
            await _under_fire(orders, folder, ledger, outside, disk=disk, tell=tell)
        tell("reading the tables")
        evidence = await gather(data, ledger)
    return _verdict(orders, ledger, evidence, time.monotonic() - began, disk=disk)


async def _make_store(data: Path) -> None:
    store = await open_store(StoreOptions(str(data)), clock=SystemClock(), ids=SystemIds())
    await store.close()


async def _under_fire(
    orders: Orders, folder: Path, ledger: Ledger, outside: StandIn, *, disk: bool, tell: Callable[[str], None]
) -> None:
    port, data = _free_port(), folder / "data"
    url = f"http://{HOST}:{port}"
    without = orders.without if disk else (*orders.without, Kind.DISK)
    series = faults(orders.seed, lease_s=LEASE_S, workers=orders.workers, points=orders.points, without=without)
    async with fleet(folder, ledger, _settings(data, outside), port) as ships, _following(url, ledger) as follower:
        guns = Bombardment(ships, ledger, data, workers=orders.workers, lease_s=LEASE_S, tell=tell)
        for place in (WEB, *[f"worker-{number}" for number in range(orders.workers)]):
            ships.start(place)
        async with _people(orders, url, ledger, outside, follower) as people:
            await guns.until(orders.kills, orders.duration_s, series)
            tell("calm: everything is up again and has to be finished")
            await _calm(guns, people, orders.calm_s)
        await follower.caught_up(expected_events(await gather(data, ledger)), 15)
        await ships.stop_all(_END_WITHIN_S)


async def _calm(guns: Bombardment, people: _People, within_s: float) -> None:
    """Until the people have finished: whoever still dies at a crash point is started again, without another one."""
    people.enough.set()
    until = time.monotonic() + within_s
    while not people.everybody.done() and time.monotonic() < until:
        guns.revive()
        await asyncio.sleep(0.1)
    guns.revive()
    if people.everybody.done():
        people.everybody.result()


@dataclass(slots=True)
class _People:
    """Everybody who works with the system."""

    everybody: asyncio.Task[None]
    #: once set nobody begins anything new
    enough: asyncio.Event


@asynccontextmanager
async def _people(
    orders: Orders, url: str, ledger: Ledger, outside: StandIn, follower: Follower
) -> AsyncIterator[_People]:
    """People at work; nobody is left when the body ends."""
    chance, numbers, enough = random.Random(orders.seed), count(), asyncio.Event()

    async def watch(plan: Plan) -> None:
        if len(ledger.live) < _MAX_ROOMS:
            await follower.follow(f"session:{plan.session_id}", {"session_id": plan.session_id})
            if plan.conversation_id is not None:
                await follower.follow(f"conversation:{plan.conversation_id}", {"conversation_id": plan.conversation_id})

    async def live(client: Client) -> None:
        person = Person(client, ledger, tool_url=outside.tool_url, chance=chance, watch=watch)
        while not enough.is_set():
            await person.carry_out(plan(chance, next(numbers)), done_within_s=orders.calm_s)

    async def all_of_them(session: aiohttp.ClientSession) -> None:
        client = Client(session, url, patience_s=orders.calm_s)
        await asyncio.gather(*[live(client) for _ in range(orders.people)])

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        everybody = asyncio.create_task(all_of_them(session))
        try:
            yield _People(everybody, enough)
        finally:
            everybody.cancel()
            await asyncio.gather(everybody, return_exceptions=True)


@asynccontextmanager
async def _following(url: str, ledger: Ledger) -> AsyncIterator[Follower]:
    follower = Follower(url, ledger)
    running = asyncio.create_task(follower.run())
    try:
        yield follower
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def _settings(data: Path, outside: StandIn) -> dict[str, str]:
    return {
        "STEPWELL_DATA": str(data),
        "STEPWELL_FILES": str(data.parent),
        "STEPWELL_LEASE_S": str(LEASE_S),
        "STEPWELL_HEARTBEAT_S": str(_HEARTBEAT_S),
        "STEPWELL_DRAIN_S": "20",
        "OPENAI_BASE_URL": outside.model_url,
        "OPENAI_API_KEY": "none",
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _verdict(orders: Orders, ledger: Ledger, evidence: Evidence, lasted_s: float, *, disk: bool) -> Verdict:
    return Verdict(
        orders=orders,
        ledger=ledger,
        broken=tuple(broken(evidence)),
        repeats=in_flight(evidence),
        recoveries=tuple(recoveries(ledger)),
        sessions=len(evidence.states),
        steps=len(evidence.shown),
        lasted_s=lasted_s,
        disk=disk,
    )
