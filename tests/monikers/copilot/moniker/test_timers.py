"""Silences and intervals come from the session's clock, and end when nobody speaks any more."""

from __future__ import annotations

from typing import Any

import pytest

from monikers.copilot.moniker.timers import DEFAULT_INTERVAL_S, DEFAULT_SILENCE_S
from tests.monikers.copilot.moniker.kit import Talk, agent, ran


def silent(agent_id: str, threshold: float | None = 5, **trigger: Any) -> dict[str, Any]:
    """An agent that waits for a silence."""
    return agent(agent_id, "silence", trigger_config={"silence_threshold": threshold, **trigger})


def regular(agent_id: str, interval: float | None = 20) -> dict[str, Any]:
    """An agent that is asked again and again."""
    return agent(agent_id, "interval", trigger_config={"interval": interval})


async def test_nothing_is_waited_for_before_anybody_spoke() -> None:
    talk = Talk(agents=[silent("ann"), regular("bob")])
    await talk.step()
    assert talk.waits_s is None


async def test_a_silence_is_told_once_to_each_and_how_long_it_was() -> None:
    talk = Talk(agents=[silent("ann", 5), silent("bob", 8)])
    await talk.say("One.")
    assert talk.waits_s == 5
    out = await talk.wake()
    assert ran(out) == ["ann"]
    assert out.data is not None
    assert out.data["turns"][0]["metadata"] == {"silence_duration": 5.0}
    assert talk.waits_s == 3
    assert ran(await talk.wake()) == ["bob"]
    assert talk.waits_s is None, "the same silence is no news"


async def test_whoever_speaks_ends_a_silence() -> None:
    talk = Talk(agents=[silent("ann", 5)])
    await talk.say("One.")
    await talk.say("Two.", after=4)
    assert talk.waits_s == 5
    assert ran(await talk.wake()) == ["ann"]
    await talk.say("Three.")
    assert talk.waits_s == 5


async def test_those_who_are_due_together_are_asked_together() -> None:
    talk = Talk(agents=[silent("ann", 5), silent("bob", 5)])
    await talk.say("One.")
    assert ran(await talk.wake()) == ["ann", "bob"]


async def test_intervals_count_from_the_first_segment() -> None:
    talk = Talk(agents=[regular("ann", 20)], quiet_after_s=30)
    await talk.say("One.", after=3)
    await talk.say("Two.", after=15)
    assert talk.waits_s == 5
    assert ran(await talk.wake()) == ["ann"]
    assert talk.waits_s == 20
    assert ran(await talk.wake()) == ["ann"]
    assert talk.waits_s is None, "beyond 30 s after the last segment the conversation is over"


async def test_a_talk_that_goes_on_after_a_long_time_is_heard_at_once_and_once() -> None:
    talk = Talk(agents=[regular("ann", 20)], quiet_after_s=30)
    await talk.say("One.")
    assert ran(await talk.wake()) == ["ann"]
    assert talk.waits_s is None
    await talk.say("Two.", after=3600)
    assert talk.is_due
    assert ran(await talk.step()) == ["ann"]
    assert talk.waits_s == 20


@pytest.mark.parametrize(
    ("definition", "seconds"), [(silent("ann", None), DEFAULT_SILENCE_S), (regular("ann", None), DEFAULT_INTERVAL_S)]
)
async def test_an_agent_that_does_not_say_when_has_the_usual_time(definition: Any, seconds: float) -> None:
    talk = Talk(agents=[definition])
    await talk.say("One.")
    assert talk.waits_s == seconds


async def test_no_interval_is_shorter_than_a_second() -> None:
    talk = Talk(agents=[regular("ann", 0.001)])
    await talk.say("One.")
    assert talk.waits_s == 1


async def test_a_cooldown_is_longer_than_a_timer() -> None:
    talk = Talk(agents=[agent("ann", "interval", trigger_config={"interval": 10, "cooldown": 15})])
    await talk.say("One.")
    assert [ran(await talk.wake()) for _ in range(4)] == [["ann"], [], ["ann"], []]


async def test_nobody_waits_for_an_agent_that_may_not_be_asked() -> None:
    talk = Talk(agents=[silent("ann"), silent("bob", 9)], allowed_agent_ids=["bob"])
    await talk.say("One.")
    assert talk.waits_s == 9
    await talk.command(remove_agents=["bob"])
    assert talk.waits_s is None


async def test_an_input_between_is_no_timer() -> None:
    talk = Talk(agents=[silent("ann", 5)])
    await talk.say("One.")
    talk.ctx.clock.advance(6)
    assert ran(await talk.command(variables={"a": 1})) == []
    assert talk.waits_s == -1, "it is due, and the next step takes it"
    assert ran(await talk.step()) == ["ann"]
