from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime import dispatcher as module
from runtime.dispatcher import Dispatcher, dispatch_order
from runtime.errors import ParkedError, RefusedError
from runtime.ownership import SoleOwner
from runtime.retries import Retries, RetryPace, RetryPolicy
from runtime.testing import START, LeapClock
from store.actions import CREATING_KINDS, Action, ActionKind, ActionStatus, get_action
from store.database import TenantStore
from store.enqueueing import NewAction, enqueue
from store.errors import StoreUnavailableError
from store.ids import SessionId
from tests.runtime.kit import Gate, KeptLog, opened
from tests.support import eventually


class Handling:
    """Stands for the handlers: does what the test says, and keeps the order of things."""

    def __init__(self, do: Callable[[Action], Any] | None = None) -> None:
        self.begun: list[str] = []
        self.announced: list[str] = []
        self.ends: list[tuple[str, bool]] = []
        self._do = do

    def table(self) -> dict[ActionKind, Any]:
        return {kind: self.handle for kind in ActionKind if kind is not ActionKind.FORK}

    def announce(self, action: Action) -> None:
        self.announced.append(action.id)

    def ended(self, action: Action, *, stored: bool) -> None:
        self.ends.append((action.id, stored))

    async def handle(self, action: Action) -> None:
        self.begun.append(action.id)
        if self._do is not None and (result := self._do(action)) is not None:
            await result


class Highest:
    """Chance that always gives the most."""

    def uniform(self, low: float, high: float) -> float:
        return high


@asynccontextmanager
async def bench(
    folder: Path, do: Callable[[Action], Any] | None = None, *, max_attempts: int = 1
) -> AsyncIterator[tuple[TenantStore, Dispatcher, Handling]]:
    handling = Handling(do)
    async with opened(folder) as store:
        log = KeptLog()
        hands: Any = handling
        retries = Retries(RetryPolicy(Highest(), max_attempts), RetryPace(20))
        dispatcher = Dispatcher(store.tenant(), hands, SoleOwner("w", 1), claim_after_s=5, retries=retries, log=log)
        yield store.tenant(), dispatcher, handling


async def asked(db: TenantStore, kind: ActionKind = ActionKind.PAUSE, **fields: Any) -> Action:
    return await enqueue(db, NewAction(kind=kind, session_id=SessionId("s"), **fields))


def fail(error: Exception) -> Callable[[Action], None]:
    def do(action: Action) -> None:
        raise error

    return do


@pytest.mark.parametrize(
    ("error", "status", "stored"),
    [
        (None, ActionStatus.DONE, None),
        (RefusedError("cannot be"), ActionStatus.FAILED, "cannot be"),
        (KeyError("x"), ActionStatus.DEAD, "KeyError: 'x'"),
        (StoreUnavailableError("gone"), ActionStatus.DEAD, "StoreUnavailableError: gone"),
        (TimeoutError(), ActionStatus.DEAD, "TimeoutError: "),
    ],
)
async def test_every_end_of_a_handler_is_stored(
    tmp_path: Path, error: Exception | None, status: ActionStatus, stored: str | None
) -> None:
    async with bench(tmp_path, None if error is None else fail(error)) as (db, dispatcher, _):
        action = await asked(db)
        assert dispatcher.dispatch([action], dispatcher.ticket()) == 1
        assert list(dispatcher.IN_FLIGHT) == [action.id]
        await dispatcher.settled()
        found = await get_action(db, action.id)
        assert (found.status, found.error, found.processed, found.attempts, found.owner) == (
            status,
            stored,
            True,
            1,
            "w",
        )
        assert found.processed_at is not None
        assert dispatcher.IN_FLIGHT == {}


async def test_a_parked_action_stays_open_and_can_be_taken_up_again(tmp_path: Path) -> None:
    async with bench(tmp_path, fail(ParkedError("later"))) as (db, dispatcher, handling):
        action = await asked(db)
        dispatcher.dispatch([action], dispatcher.ticket())
        await dispatcher.settled()
        assert (await get_action(db, action.id)).status is ActionStatus.PENDING
        assert dispatcher.dispatch([action], dispatcher.ticket()) == 1
        await dispatcher.settled()
        assert len(handling.begun) == 2


async def test_a_kind_without_a_handler_is_refused(tmp_path: Path) -> None:
    async with bench(tmp_path) as (db, dispatcher, _):
        action = await asked(db, ActionKind.FORK)
        dispatcher.dispatch([action], dispatcher.ticket())
        await dispatcher.settled()
        assert (await get_action(db, action.id)).error == "this worker has no handler for 'agent_fork' actions"


async def test_an_action_in_flight_is_not_taken_up_again(tmp_path: Path) -> None:
    gate = Gate()
    async with bench(tmp_path, lambda _: gate.passing()) as (db, dispatcher, handling):
        action = await asked(db)
        taken = [dispatcher.dispatch([action, action], dispatcher.ticket()) for _ in range(2)]
        assert taken == [1, 0]
        gate.open()
        await dispatcher.settled()
        assert handling.begun == handling.announced == [action.id]


async def test_what_an_old_read_shows_as_open_is_not_taken_up_again(tmp_path: Path) -> None:
    async with bench(tmp_path) as (db, dispatcher, handling):
        action = await asked(db)
        before = dispatcher.ticket()
        dispatcher.dispatch([action], before)
        await dispatcher.settled()
        assert dispatcher.dispatch([action], before) == 0
        assert dispatcher.dispatch([action], dispatcher.ticket()) == 1
        await dispatcher.settled()
        assert len(handling.begun) == 2


async def test_only_so_many_ends_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_REMEMBERED", 3)
    async with bench(tmp_path) as (db, dispatcher, _):
        dispatcher.dispatch([await asked(db) for _ in range(10)], dispatcher.ticket())
        await dispatcher.settled()
        assert len(dispatcher._tickets.ended) == 3


async def test_creates_come_first_then_control_then_turns_each_by_urgency_and_age(tmp_path: Path) -> None:
    async with bench(tmp_path) as (db, dispatcher, handling):
        kinds = [ActionKind.INPUT, ActionKind.PAUSE, ActionKind.CREATE, ActionKind.INTERRUPT, ActionKind.DESTROY]
        actions = [await asked(db, kind) for kind in kinds]
        urgent = await asked(db, ActionKind.INPUT, urgency=5)
        dispatcher.dispatch([urgent, *reversed(actions)], dispatcher.ticket())
        await dispatcher.settled()
        by_kind = {action.kind: action.id for action in actions}
        wanted = [ActionKind.CREATE, ActionKind.PAUSE, ActionKind.INTERRUPT, ActionKind.DESTROY]
        assert handling.begun == [*[by_kind[kind] for kind in wanted], urgent.id, by_kind[ActionKind.INPUT]]
        assert dispatch_order(actions[2]) < dispatch_order(actions[1])


async def test_so_many_handlers_run_at_a_time_and_turns_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_BUSY", 2)
    gate = Gate()
    async with bench(tmp_path, lambda _: gate.passing()) as (db, dispatcher, handling):
        turns = [await asked(db, ActionKind.INPUT) for _ in range(5)]
        dispatcher.dispatch(turns, dispatcher.ticket())
        creates = [await asked(db, ActionKind.CREATE) for _ in range(5)]
        dispatcher.dispatch(creates, dispatcher.ticket())
        await eventually(lambda: len(handling.begun) == 7)
        assert len(dispatcher.IN_FLIGHT) == 10
        gate.open()
        await dispatcher.settled()
        assert sorted(handling.begun) == sorted(action.id for action in [*turns, *creates])


async def test_a_kind_of_a_newer_version_stays_open_for_it(tmp_path: Path) -> None:
    async with bench(tmp_path) as (db, dispatcher, handling):
        action = await asked(db, ActionKind.UNKNOWN)
        dispatcher.dispatch([action], dispatcher.ticket())
        await dispatcher.settled()
        assert (handling.begun, (await get_action(db, action.id)).processed) == ([], False)


async def test_once_closed_it_starts_nothing_and_leaves_what_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_BUSY", 1)
    gate = Gate()
    async with bench(tmp_path, lambda _: gate.passing()) as (db, dispatcher, handling):
        actions = [await asked(db, ActionKind.CREATE) for _ in range(3)]
        dispatcher.dispatch(actions, dispatcher.ticket())
        await gate.reached.wait()
        dispatcher.close()
        assert dispatcher.dispatch([await asked(db)], dispatcher.ticket()) == 0
        gate.open()
        await dispatcher.settled()
        assert handling.begun == [actions[0].id]
        assert [(await get_action(db, action.id)).processed for action in actions] == [True, False, False]


async def test_what_takes_long_is_shown_as_claimed_and_ends_as_it_ends(tmp_path: Path) -> None:
    gate = Gate()
    async with bench(tmp_path, lambda _: gate.passing()) as (db, dispatcher, _):
        action = await asked(db)
        dispatcher.dispatch([action], dispatcher.ticket())
        await gate.reached.wait()
        await dispatcher.claim_slow()
        assert (await get_action(db, action.id)).status is ActionStatus.PENDING
        clock = db.clock
        assert isinstance(clock, LeapClock)
        clock.leap(6)
        await dispatcher.claim_slow()
        claimed = await get_action(db, action.id)
        assert (claimed.status, claimed.processed, claimed.owner) == (ActionStatus.CLAIMED, False, "w")
        gate.open()
        await dispatcher.settled()
        assert (await get_action(db, action.id)).status is ActionStatus.DONE


async def test_a_claim_is_never_written_over_an_end(tmp_path: Path) -> None:
    async with bench(tmp_path) as (db, dispatcher, handling):
        action = await asked(db)
        async with db.store.tables["queue"]._locks.commit.held():
            dispatcher.dispatch([action], dispatcher.ticket())
            await eventually(lambda: bool(handling.begun))
            clock = db.clock
            assert isinstance(clock, LeapClock)
            clock.leap(6)
            claiming = asyncio.create_task(dispatcher.claim_slow())
            await asyncio.sleep(0)
        await asyncio.gather(claiming, dispatcher.settled())
        assert (await get_action(db, action.id)).status is ActionStatus.DONE


async def test_a_claim_is_not_written_over_an_end_of_the_same_turn_of_the_loop(tmp_path: Path) -> None:
    """Many handlers end together when a commit is answered, and that may be just when they are to be claimed."""
    gate = asyncio.Event()
    async with bench(tmp_path, lambda _: gate.wait()) as (db, dispatcher, handling):
        actions = [await asked(db) for _ in range(3)]
        dispatcher.dispatch(actions, dispatcher.ticket())
        await eventually(lambda: len(handling.begun) == len(actions))
        clock = db.clock
        assert isinstance(clock, LeapClock)
        clock.leap(6)
        claiming = asyncio.create_task(dispatcher.claim_slow())
        gate.set()
        await asyncio.gather(claiming, dispatcher.settled())
        assert {(await get_action(db, action.id)).status for action in actions} == {ActionStatus.DONE}


async def test_what_breaks_is_put_back_with_its_count_and_a_moment_until_its_tries_are_used_up(tmp_path: Path) -> None:
    again: list[tuple[str, Any]] = []
    async with bench(tmp_path, fail(KeyError("x")), max_attempts=3) as (db, dispatcher, handling):
        dispatcher.on_retry(lambda action_id, moment: again.append((action_id, moment)))
        action = await asked(db)
        for tries in (1, 2):
            dispatcher.dispatch([await get_action(db, action.id)], dispatcher.ticket())
            await dispatcher.settled()
            found = await get_action(db, action.id)
            assert (found.status, found.attempts, found.error) == (ActionStatus.PENDING, tries, "KeyError: 'x'")
            assert found.not_before is not None
            assert found.not_before > db.clock.now()
            assert again[-1] == (action.id, found.not_before)
        dispatcher.dispatch([await get_action(db, action.id)], dispatcher.ticket())
        await dispatcher.settled()
        assert (await get_action(db, action.id)).status is ActionStatus.DEAD
        assert (len(again), [stored for _, stored in handling.ends]) == (2, [False, False, True])


async def test_a_claim_is_no_try(tmp_path: Path) -> None:
    gate = Gate()
    async with bench(tmp_path, lambda _: gate.passing()) as (db, dispatcher, _):
        action = await asked(db)
        dispatcher.dispatch([action], dispatcher.ticket())
        await gate.reached.wait()
        assert isinstance(db.clock, LeapClock)
        db.clock.leap(6)
        await dispatcher.claim_slow()
        assert (await get_action(db, action.id)).attempts == 0
        gate.open()
        await dispatcher.settled()


async def test_an_end_that_could_not_be_stored_comes_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost(*_: Any, **__: Any) -> None:
        raise StoreUnavailableError("gone")

    again: list[str] = []
    async with bench(tmp_path) as (db, dispatcher, handling):
        dispatcher.on_retry(lambda action_id, _: again.append(action_id))
        action = await asked(db)
        monkeypatch.setattr(module, "mark_action_processed_async", lost)
        dispatcher.dispatch([action], dispatcher.ticket())
        await dispatcher.settled()
        assert (again, handling.ends) == ([action.id], [(action.id, False)])


async def test_what_waits_can_be_withdrawn_and_what_is_handled_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_BUSY", 1)
    gate = Gate()
    async with bench(tmp_path, lambda _: gate.passing()) as (db, dispatcher, handling):
        first, second, third = [await asked(db, ActionKind.CREATE) for _ in range(3)]
        before = dispatcher.ticket()
        dispatcher.dispatch([first, second, third], before)
        await gate.reached.wait()
        assert [dispatcher.withdraw(action.id) for action in (first, second)] == [False, True]
        assert dispatcher.dispatch([second], before) == 0  # an older read still shows it
        gate.open()
        await dispatcher.settled()
        assert handling.begun == [first.id, third.id]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([kind for kind in ActionKind if kind is not ActionKind.UNKNOWN]),
            st.integers(-100, 100),
            st.integers(-3600, 3600),
        ),
        max_size=30,
    )
)
def test_the_order_is_rank_then_urgency_then_age_whatever_the_clocks_say(
    rows: list[tuple[ActionKind, int, int]],
) -> None:
    control = {ActionKind.PAUSE, ActionKind.RESUME, ActionKind.DESTROY, ActionKind.CANCEL, ActionKind.INTERRUPT}
    actions = [
        action_row(f"{number:06d}", kind, urgency, START + timedelta(seconds=skew))
        for number, (kind, urgency, skew) in enumerate(rows)
    ]
    actions.reverse()
    found = sorted(actions, key=dispatch_order)
    for one, other in itertools.pairwise(found):
        ranks = [0 if a.kind in CREATING_KINDS else 1 if a.kind in control else 2 for a in (one, other)]
        assert ranks[0] <= ranks[1]
        if ranks[0] == ranks[1]:
            assert (-one.urgency, one.id) < (-other.urgency, other.id)


def action_row(action_id: str, kind: ActionKind, urgency: int, created_at: Any) -> Action:
    known = {"id": action_id, "kind": kind, "urgency": urgency, "created_at": created_at}
    return Action(**{**{item.name: None for item in dataclasses.fields(Action)}, **known})
