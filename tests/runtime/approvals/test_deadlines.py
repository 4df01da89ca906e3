"""Questions with a time: the default is taken when it is over, once, and a person's answer before that counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from store.agent_state import SessionStatus
from store.approvals import Approval
from tests.runtime.approvals.asker import FORM, PLAN, Asker, Waiter, answer, asked
from tests.runtime.approvals.test_in_step import answers_stored, asking
from tests.runtime.kit import Workshop, moniker, workshop
from tests.support import eventually

HOUR = 3600.0
TIMED = {**PLAN, "timeout_s": HOUR, "default": "approve"}


def when(one: Approval) -> float:
    """How many seconds a question is open."""
    assert one.expires_at is not None
    return (one.expires_at - one.asked_at).total_seconds()


async def decided(shop: Workshop, asker: Asker) -> list[tuple[str, bool]]:
    """What the moniker was told, once it was, and whether nobody had said it."""
    await eventually(lambda: bool(asker.got))
    return [(one.decision.value, one.timed_out) for answers, _ in asker.got for one in answers.values()]


@pytest.mark.parametrize("meanwhile", ["works", "is restarted", "is away"])
async def test_the_default_is_taken_when_the_time_is_over(tmp_path: Path, meanwhile: str) -> None:
    asker = Asker(matter=TIMED)
    async with workshop(tmp_path, moniker("m", asker)) as shop:
        said, (one,) = await asking(shop)
        assert (when(one), one.default) == (HOUR, "approve")
        row = await shop.state()
        assert row.wake_at == one.expires_at
        if meanwhile == "is restarted":
            shop.clock.leap(HOUR / 2)
            await shop.restart()
            assert await asked(shop) == [one], "its time does not begin anew"
        if meanwhile == "is away":
            await shop.stop()
        shop.clock.leap(HOUR)
        if meanwhile == "is away":
            await shop.start()
        assert await decided(shop, asker) == [("approve", True)]
        await shop.done(said)
        assert asker.lookups == 1
        assert "too late" not in await shop.error_of(await answer(shop, one, "reject"))
        (record,) = await answers_stored(shop)
        assert record.usage == {"question": "plan", "decision": "approve", "timed_out": True, "action_id": None}


async def test_an_answer_in_time_counts_and_the_moment_passes_unnoticed(tmp_path: Path) -> None:
    asker = Asker(matter=TIMED)
    async with workshop(tmp_path, moniker("m", asker)) as shop:
        said, (one,) = await asking(shop)
        await shop.done(await answer(shop, one, "reject"), said)
        shop.clock.leap(2 * HOUR)
        await shop.queue_read()
        assert asker.decisions == [{"matter": "reject"}]
        assert len(await answers_stored(shop)) == 1


@pytest.mark.parametrize(("seconds", "counts"), [(HOUR - 1, ("reject", False)), (HOUR + 1, ("approve", True))])
async def test_what_was_said_while_nobody_worked_counts_by_when_it_was_said(
    tmp_path: Path, seconds: float, counts: Any
) -> None:
    asker = Asker(matter=TIMED)
    async with workshop(tmp_path, moniker("m", asker)) as shop:
        _, (one,) = await asking(shop)
        await shop.stop()
        shop.clock.leap(seconds)
        accepted = await answer(shop, one, "reject")
        shop.clock.leap(HOUR)
        await shop.start()
        assert await decided(shop, asker) == [counts]
        (ended,) = await shop.ended(accepted)
        assert (ended.error is None) is (counts == ("reject", False))
        assert len(await answers_stored(shop)) == 1


async def test_an_answer_at_the_very_moment_is_one_answer(tmp_path: Path) -> None:
    """Both are ready and neither is stored: whichever is first, there is one, and who came second is told."""
    asker = Asker(matter=TIMED)
    async with workshop(tmp_path, moniker("m", asker)) as shop:
        said, (one,) = await asking(shop)
        async with shop.writes_held("records"):
            given = await answer(shop, one, "reject")
            shop.clock.leap(HOUR)
            await shop.queue_read()
        await shop.done(given, said)
        assert await decided(shop, asker) == [("reject", False)]
        assert len(await answers_stored(shop)) == 1


async def test_a_crash_around_the_default_and_it_counts_once(tmp_path: Path) -> None:
    asker = Asker(matter=TIMED)
    async with workshop(tmp_path, moniker("m", asker)) as shop:
        said, (one,) = await asking(shop)
        async with shop.writes_held("agent_steps"), shop.writes_held("agent_state"):
            shop.clock.leap(HOUR)

            async def stored() -> bool:
                return len(await answers_stored(shop)) == 1

            await eventually(stored)
            await shop.crash(writing=False)
        await shop.open()
        late = await answer(shop, one, "reject")
        await shop.start()
        await shop.done(said)
        assert "by the time" in await shop.error_of(late)
        assert set(await decided(shop, asker)) == {("approve", True)}
        assert len(await answers_stored(shop)) == 1


async def test_a_paused_session_takes_the_default_when_it_is_resumed(tmp_path: Path) -> None:
    asker = Asker(matter=TIMED)
    async with workshop(tmp_path, moniker("m", asker)) as shop:
        said, (one,) = await asking(shop)
        await shop.done(await shop.pause())
        shop.clock.leap(2 * HOUR)
        assert "too late" in await shop.error_of(await answer(shop, one, "reject"))
        await shop.queue_read()
        assert ((await shop.state()).status, asker.got) == (SessionStatus.PAUSED, [])
        await shop.done(await shop.resume(), said)
        assert await decided(shop, asker) == [("approve", True)]


async def test_of_several_questions_between_steps_each_has_its_own_time(tmp_path: Path) -> None:
    waiter = Waiter(
        {**PLAN, "key": "soon", "timeout_s": HOUR},
        {**FORM, "key": "later", "timeout_s": 3 * HOUR},
        {**PLAN, "key": "never"},
    )
    async with workshop(tmp_path, moniker("m", waiter)) as shop:
        await shop.create("m")
        _, _, never = await asked(shop, 3)
        shop.clock.leap(HOUR)
        assert [one.key for one in await asked(shop, 2)] == ["later", "never"]
        await shop.done(await answer(shop, never, "approve"))
        await shop.restart()
        shop.clock.leap(2 * HOUR)
        await eventually(lambda: bool(waiter.read))
        ((answers, _),) = waiter.read
        assert {key: (one.decision.value, one.timed_out) for key, one in answers.items()} == {
            "soon": ("reject", True),
            "later": ("reject", True),
            "never": ("approve", False),
        }
