from __future__ import annotations

import asyncio

import pytest

from runtime.agent_core import AgentBase, InterruptMixin, PauseMixin, StopMixin
from tests.support import eventually


class Agent(PauseMixin, InterruptMixin[str], StopMixin):
    """Waits for news again and again until it is stopped; a stubborn one only ends when it is cancelled."""

    def __init__(self, *, stubborn: bool = False) -> None:
        super().__init__(interrupts=[])
        self.rounds = 0
        self._stubborn = stubborn

    async def run(self) -> None:
        while self._stubborn or not self.stop_requested:
            self.rounds += 1
            await self._news.wait()
            self._news.clear()


def test_a_pause_is_asked_for_and_taken_back() -> None:
    agent = Agent()
    seen = [agent.pause_requested]
    agent.request_pause()
    seen.append(agent.pause_requested)
    agent.request_resume()
    assert [*seen, agent.pause_requested] == [False, True, False]


def test_interrupts_are_read_oldest_first_and_stay_until_a_step_is_stored() -> None:
    kept: list[str] = []
    agent: InterruptMixin[str] = InterruptMixin(interrupts=kept)
    assert agent.next_interrupt() is None
    agent.interrupt("one")
    agent.interrupt("two")
    assert [agent.next_interrupt(), agent.next_interrupt(), kept] == ["one", "one", ["one", "two"]]
    kept[:] = kept[1:]
    assert agent.next_interrupt() == "two"


@pytest.mark.parametrize("ask", ["request_pause", "request_resume", "request_stop", "nudge"])
async def test_whatever_is_asked_wakes_the_agent(ask: str) -> None:
    agent = Agent()
    agent.start()
    await asyncio.sleep(0)
    getattr(agent, ask)()
    await eventually(lambda: agent.rounds == 2 or agent.stop_requested)
    await agent.stop_within(10)


async def test_a_stop_waits_for_the_agent_to_end() -> None:
    agent = Agent()
    task = agent.start()
    await agent.stop_within(10)
    assert task.done()
    assert not task.cancelled()
    await agent.ended()


async def test_after_the_grace_what_it_awaits_is_cancelled() -> None:
    agent = Agent(stubborn=True)
    task = agent.start()
    await agent.stop_within(0.01)
    assert task.cancelled()


async def test_an_agent_that_never_began_is_stopped_at_once() -> None:
    agent = Agent()
    await agent.stop_within(10)
    await agent.ended()
    agent.cancel_step()
    assert agent.stop_requested


async def test_a_base_says_nothing_about_what_it_does() -> None:
    with pytest.raises(NotImplementedError):
        await AgentBase().run()
