"""Budgets across crashes and workers: what was spent is known again, whoever asks."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runtime.calls import RecordKind
from runtime.contract import StepFrame, StepOut, WaitForInput
from store import filters
from store.agent_state import SessionStatus
from store.budgets import TOTAL, Scope, put_budget
from store.limits import Limits
from store.records import records_of
from store.spending import spent_of
from tests.runtime.budgets.test_pausing import Priced, asking
from tests.runtime.kit import Gate, Workshop, moniker, out, workshop
from tests.runtime.test_takeover import FAST, key_of, of_work, shared_by
from tests.support import eventually, examples

SESSIONS = ("one", "two")


async def recorded(shop: Workshop) -> int:
    """How many model calls are stored."""
    return len(await records_of(shop.db).find(filters.equals("kind", RecordKind.MODEL)))


def _called(model: Priced, times: int) -> bool:
    return model.calls >= times


async def spent_by_all(shop: Workshop) -> int:
    """The calls of all sessions, as their rows tell them."""
    return sum([spent_of((await shop.state(name)).usage).calls for name in SESSIONS])


@examples(3)
@given(
    limit=st.integers(1, 14),
    calls=st.integers(1, 6),
    crashes=st.lists(st.integers(1, 5), max_size=2),
    more=st.integers(1, 8),
)
async def test_crashes_and_raises_let_nobody_pass_a_limit(
    tmp_path_factory: Any, limit: int, calls: int, crashes: list[int], more: int
) -> None:
    """At most one call over a session, and that one only where a crash lost what was paid."""
    model = Priced()

    async def step(ctx: Any, frame: StepFrame) -> StepOut:
        for number in range(calls):
            await ctx.llm.chat(asking(number))
        return out(frame)

    async with workshop(tmp_path_factory.mktemp("budget"), moniker("m", step), model=model) as shop:
        await put_budget(shop.db, TOTAL, Limits(tokens=limit * 10))
        for name in SESSIONS:
            await shop.create("m", name)
        for after in crashes:
            await eventually(partial(_called, model, min(limit, model.calls + after)))
            await shop.restart()
        for name in SESSIONS:
            await shop.until(SessionStatus.PAUSED, name)
        found = await recorded(shop), await spent_by_all(shop)
        assert found == (limit, limit)
        assert limit <= model.calls <= limit + len(SESSIONS) * len(crashes)
        before = model.calls
        await shop.restart()
        for name in SESSIONS:
            await shop.done(await shop.resume(name))
        assert model.calls == before
        await put_budget(shop.db, TOTAL, Limits(tokens=(limit + more) * 10))

        async def spent_again() -> bool:
            return await spent_by_all(shop) >= limit + more

        await eventually(spent_again)
        for name in SESSIONS:
            await shop.until(SessionStatus.PAUSED, name)
        assert (await recorded(shop), await spent_by_all(shop)) == (limit + more, limit + more)
        assert model.calls == before + more


async def test_what_an_unfinished_step_used_counts_for_others_before_it_goes_on(tmp_path: Path) -> None:
    """A crash in the middle of a step whose row knows nothing of it; the first to ask afterwards is another session."""
    model, begin, gate = Priced(), Gate(), Gate()

    async def step(ctx: Any, frame: StepFrame) -> StepOut:
        if ctx.session_id == "long":
            await begin.passing()
            for number in range(5):
                await ctx.llm.chat(asking(number))
            await gate.passing()
        await ctx.llm.chat(asking(9))
        return out(frame, wait=WaitForInput())

    async with workshop(tmp_path, moniker("m", step), model=model) as shop:
        await put_budget(shop.db, TOTAL, Limits(calls=5))
        await shop.create("m", "long")
        await shop.until(SessionStatus.RUNNING, "long")
        async with shop.writes_held("agent_state"):
            begin.open()
            await gate.reached.wait()
            await shop.crash(writing=False)
        await shop.open()
        assert spent_of((await shop.state("long")).usage).calls == 0
        other = await shop.create("m", "other")
        await shop.start()
        await shop.ended(other)
        row = await shop.until(SessionStatus.PAUSED, "other")
        assert "5 of 5 model calls of all sessions" in (row.reason or "")
        assert model.calls == 5
        # Paused before it looked at its records, it is known to have used them by the next worker, too.
        assert spent_of((await shop.until(SessionStatus.PAUSED, "long")).usage).calls == 5
        await shop.restart()
        await shop.done(await shop.resume("other"))
        assert model.calls == 5
        gate.open()


async def test_two_workers_share_a_budget(tmp_path: Path) -> None:
    models = Priced(), Priced()

    async def step(ctx: Any, frame: StepFrame) -> StepOut:
        await ctx.llm.chat(asking(0))
        return out(frame, wait=WaitForInput())

    work = moniker("work", step)
    async with (
        workshop(tmp_path, work, model=models[0], **FAST) as one,
        workshop(tmp_path, work, model=models[1], **FAST) as two,
    ):
        first, second = await shared_by(two, 2)
        names = [await key_of(two, worker, of_work) for worker in (first, second) if worker is not None]
        for name in names:
            await one.create("work", session=name, agent="x")
            await one.until(SessionStatus.WAITING, name)
        assert (models[0].calls, models[1].calls) == (1, 1)
        await put_budget(two.db, Scope("agent:x"), Limits(calls=3))
        await one.done(await one.say("spend the last one", names[0]))
        said = await two.say("nothing is left", names[1])
        row = await two.until(SessionStatus.PAUSED, names[1])
        assert row.reason == "budget spent: 3 of 3 model calls of agent 'x'"
        assert models[0].calls + models[1].calls == 3
        await put_budget(one.db, Scope("agent:x"), Limits(calls=10))
        await two.done(said)
        assert models[0].calls + models[1].calls == 4
