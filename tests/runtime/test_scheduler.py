from __future__ import annotations

from pathlib import Path

from runtime.contract import WaitForInput
from runtime.scheduler import Scheduler
from store.actions import ActionFilter, ActionKind, ActionStatus, list_actions
from store.agent_state import SessionStatus, list_sessions_for_agent
from store.ids import AgentId, ScheduleId, SessionId
from store.schedules import add_schedule, get_schedule, schedules_of
from store.timetable import Rule
from tests.runtime.kit import KeptLog, Workshop, moniker, opened, out, workshop
from tests.support import eventually

DAILY = Rule(every_s=86_400)


def listener() -> object:
    async def step(ctx: object, frame: object) -> object:
        return out(frame, text=" ".join(said.text for said in frame.inputs), wait=WaitForInput())  # type: ignore[attr-defined, arg-type]

    return step


async def schedule_input(shop: Workshop, **given: object) -> ScheduleId:
    made = await add_schedule(
        shop.db,
        rule=DAILY,
        kind=ActionKind.INPUT,
        payload={"text": "tick"},
        session_id=SessionId("s"),
        **given,  # type: ignore[arg-type]
    )
    return made.schedule_id


async def ticks(shop: Workshop) -> int:
    return (await shop.texts()).count("tick")


async def test_a_worker_fires_schedules_also_those_that_are_added_later(tmp_path: Path) -> None:
    async with workshop(tmp_path, moniker("m", listener())) as shop:  # type: ignore[arg-type]
        await shop.done(await shop.create("m"))
        await schedule_input(shop)
        for count in (1, 2, 3):
            await shop.until(SessionStatus.WAITING)
            shop.clock.leap(86_400)

            async def ticked(count: int = count) -> bool:
                return await ticks(shop) >= count

            await eventually(ticked)
        assert await ticks(shop) == 3


async def test_what_was_missed_while_no_worker_ran_is_made_up_for_once(tmp_path: Path) -> None:
    async with workshop(tmp_path, moniker("m", listener())) as shop:  # type: ignore[arg-type]
        await shop.done(await shop.create("m"))
        await schedule_input(shop)
        await shop.stop()
        shop.clock.leap(10 * 86_400)
        await shop.start()

        async def ticked() -> bool:
            return await ticks(shop) >= 1

        await eventually(ticked)
        await shop.queue_read()
        assert await ticks(shop) == 1


async def test_a_scheduled_create_is_a_new_session_each_time(tmp_path: Path) -> None:
    async with workshop(tmp_path, moniker("m", listener())) as shop:  # type: ignore[arg-type]
        await add_schedule(shop.db, rule=DAILY, kind=ActionKind.CREATE, payload={"moniker": "m"}, agent_id=AgentId("a"))
        for count in (1, 2):
            shop.clock.leap(86_400)

            async def there(count: int = count) -> bool:
                return len((await list_sessions_for_agent(shop.db, AgentId("a"))).items) == count

            await eventually(there)


async def test_several_schedulers_and_one_that_may_not_run(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        db = store.tenant()
        made = await add_schedule(db, rule=DAILY, kind=ActionKind.CREATE, payload={"moniker": "m"})
        bad = await add_schedule(db, rule=DAILY, kind=ActionKind.CREATE, payload={"moniker": "m"})
        await schedules_of(db).change((bad.schedule_id,), rule={"moon": "full"})
        db.clock.leap(86_401)  # type: ignore[attr-defined]
        log = KeptLog()
        resting = Scheduler(db, log, may_run=lambda: False)
        assert await resting._look() > 0
        assert not (await list_actions(db, ActionFilter())).items
        for _ in range(2):
            for scheduler in [Scheduler(db, log), Scheduler(db, log)]:
                await scheduler._look()
        rows = (await list_actions(db, ActionFilter(status=ActionStatus.PENDING))).items
        assert len(rows) == 1
        assert (await get_schedule(db, made.schedule_id)).last_action_id == rows[0].id
        assert {fields["schedule_id"] for _, fields in log.of("error")} == {bad.schedule_id}
