"""The ledger by itself: whatever sessions do, no call goes out once a budget is known to be spent."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from runtime.budgets.ledger import Ledger
from runtime.session import Identity, LiveSession
from runtime.spec import SessionSpec
from store.budgets import TOTAL, Budget, Scope, scopes_of
from store.ids import AgentId, SessionId
from store.limits import Limits, is_spent
from store.spending import NOTHING_SPENT, Limit, Spent, spent_of
from store.spendingsums import SpendingSums
from store.testing import START
from tests.support import examples

AGENTS = ("x", "x", "y")
SCOPES = (TOTAL, Scope("agent:x"), Scope("agent:y"), Scope("session:s0"), Scope("session:s2"))


def change(scope: Scope, limits: Limits | None) -> Budget:
    return Budget("b", scope, None if limits is None else limits.row(), START, None)


def session(number: int) -> LiveSession:
    spec = SessionSpec(moniker="m")
    identity = Identity(AgentId(AGENTS[number]), SessionId(f"s{number}"), None, spec, START)
    return LiveSession(identity, "1", "w", 1, START)


@dataclass
class World:
    """Sessions, what they have really spent, and a worker's ledger that comes and goes."""

    sessions: list[LiveSession] = field(default_factory=lambda: [session(number) for number in range(3)])
    limits: dict[Scope, Limits] = field(default_factory=dict)
    in_flight: dict[int, Spent] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """A worker starts: it knows the stored budgets, the rows, and the records of the steps in the making."""
        sums = SpendingSums()
        for one in self.sessions:
            identity = one.identity
            sums.note(identity.session_id, identity.agent_id, identity.conversation_id, one.spent)
        self.ledger = Ledger(sums, touch=lambda _: None)
        self.ledger.take([change(scope, limits) for scope, limits in self.limits.items()])
        self.in_flight = {}

    def put(self, scope: Scope, limits: Limits) -> None:
        self.limits[scope] = limits
        self.ledger.take([change(scope, limits)])
        for one in self.sessions:
            self.ledger.know(one)

    def spent(self, scope: Scope) -> Spent:
        """What the sessions of a scope have really spent."""
        total = NOTHING_SPENT
        for one in self.sessions:
            identity = one.identity
            if scope in scopes_of(identity.session_id, identity.agent_id, identity.conversation_id):
                total = total.plus(one.spent)
        return total

    async def call(self, number: int, used: Spent) -> None:
        """A session makes a model call, if it may; it comes back with `land`."""
        one = self.sessions[number]
        if number in self.in_flight:
            return
        asking = asyncio.ensure_future(self.ledger.admit(one))
        await asyncio.sleep(0)
        if not asking.done():  # near a limit: it waits for the others
            assert self.in_flight
            asking.cancel()
            return
        identity = one.identity
        applying = [
            (scope, limits)
            for scope in scopes_of(identity.session_id, identity.agent_id, identity.conversation_id)
            if (limits := self.limits.get(scope)) is not None
        ]
        over = [scope for scope, limits in applying if limits.first_spent(self.spent(scope)) is not None]
        if (refused := asking.result()) is None:
            assert not over
            for scope, limits in applying:
                flying = sum(self._is_of(other, scope) for other in self.in_flight)
                calls = limits.allows(Limit.CALLS)
                assert calls is None or self.spent(scope).calls + flying < calls
            self.in_flight[number] = used
        else:
            assert refused.scope == over[0]

    def _is_of(self, number: int, scope: Scope) -> bool:
        identity = self.sessions[number].identity
        return scope in scopes_of(identity.session_id, identity.agent_id, identity.conversation_id)

    def land(self, number: int) -> None:
        used = self.in_flight.pop(number, None)
        if used is not None:
            self.sessions[number].open = self.sessions[number].open.plus(used)
            self.ledger.landed(self.sessions[number], used)

    def commit(self, number: int) -> None:
        """The session's step is stored."""
        if number in self.in_flight:
            return
        one = self.sessions[number]
        spent = one.spent
        one.usage = {**spent.row(), "steps": spent.steps + 1}
        one.open = NOTHING_SPENT
        assert one.spent == spent.plus(Spent(steps=1))


USED = st.builds(
    lambda tokens, cents, priced: Spent(
        input_tokens=tokens, calls=1, money=Decimal(cents) / 100 * priced, unpriced_calls=1 - priced
    ),
    st.integers(0, 400),
    st.integers(0, 60),
    st.sampled_from([1, 1, 1, 0]),
)
LIMITS = st.builds(
    Limits,
    tokens=st.none() | st.integers(0, 2_000),
    money=st.none() | st.integers(0, 300).map(lambda cents: Decimal(cents) / 100),
    calls=st.none() | st.integers(0, 12),
).filter(lambda limits: limits != Limits())


@examples(150)
@given(st.data())
async def test_no_call_goes_out_once_a_budget_is_spent(data: DataObject) -> None:
    world = World()
    number = st.integers(0, 2)
    for _ in range(data.draw(st.integers(5, 40))):
        match data.draw(st.sampled_from(["call", "call", "call", "land", "land", "commit", "put", "crash"])):
            case "call":
                await world.call(data.draw(number), data.draw(USED))
            case "land":
                world.land(data.draw(number))
            case "commit":
                world.commit(data.draw(number))
            case "put":
                world.put(data.draw(st.sampled_from(SCOPES)), data.draw(LIMITS))
            case _:  # a crash
                world.begin()
    # Nobody passes a limit by more than what was in flight, and what is known is what is true.
    for one in range(3):
        world.land(one)
        spent = world.ledger.hindrance(world.sessions[one])
        if spent is not None:
            assert spent.spent == world.spent(spent.scope).of(spent.limit)
            assert is_spent(spent.limit, spent.spent, spent.allowed)


@examples(60)
@given(st.lists(st.tuples(st.integers(1, 50), st.sampled_from("xyz")), min_size=1, max_size=12), st.randoms())
def test_sums_are_the_same_in_whatever_order_and_however_often_rows_are_read(
    steps: list[tuple[int, str]], chance: object
) -> None:
    sums, used = SpendingSums(), dict.fromkeys("xyz", NOTHING_SPENT)
    rows = []
    for tokens, name in steps:
        used[name] = used[name].plus(Spent(input_tokens=tokens, calls=1))
        rows.append((name, used[name]))
    read = [*rows, *rows[::2]]
    chance.shuffle(read)  # type: ignore[attr-defined]
    for name, spent in read:
        sums.note(SessionId(name), AgentId("a"), None, spent)
    assert sums.of(TOTAL).tokens == sums.of(Scope("agent:a")).tokens == sum(tokens for tokens, _ in steps)
    assert sums.of(TOTAL).calls == len(steps)


async def test_near_a_limit_calls_wait_for_those_in_flight_and_far_from_it_they_do_not() -> None:
    world = World()
    world.put(TOTAL, Limits(tokens=1_000))
    call = Spent(input_tokens=100, calls=1)
    await world.call(0, call)
    await world.call(1, call)  # how large a call is nobody knows yet: one goes first
    assert list(world.in_flight) == [0]
    world.land(0)
    for number in range(3):
        await world.call(number, call)
    assert len(world.in_flight) == 3  # 100 + 3 x 100 of 1,000
    for number in range(3):
        world.land(number)
    for _ in range(4):
        await world.call(0, call)
        world.land(0)
    for number in range(3):
        await world.call(number, call)
    assert len(world.in_flight) == 2  # 800 + 100 is below 1,000, 800 + 2 x 100 is not
    waiting = asyncio.ensure_future(world.ledger.admit(world.sessions[2]))
    await asyncio.sleep(0)
    assert not waiting.done()
    world.land(0)
    world.land(1)
    refused = await waiting
    assert refused is not None
    assert refused.words == "budget spent: 1,000 of 1,000 tokens of all sessions"


def test_a_session_without_budgets_is_asked_nothing() -> None:
    world = World()
    one = world.sessions[0]
    assert world.ledger.hindrance(one) is None
    assert world.ledger.left(one) is None
    world.put(Scope("agent:y"), Limits(calls=0))
    assert world.ledger.hindrance(one) is None
    assert world.ledger.hindrance(world.sessions[2]) is not None
    world.ledger.take([change(Scope("agent:y"), None)])
    assert world.ledger.hindrance(world.sessions[2]) is None


@pytest.mark.parametrize("usage", [None, [], "x", {"cost": "much"}, {"input_tokens": "7", "open": 5}, {"calls": -3}])
def test_a_usage_that_makes_no_sense_is_read_as_far_as_it_does(usage: object) -> None:
    spent = spent_of(usage)
    assert (spent.tokens, spent.calls, spent.money) == (0, 0, Decimal(0))
    assert spent.unpriced_calls == (1 if usage == {"cost": "much"} else 0)
