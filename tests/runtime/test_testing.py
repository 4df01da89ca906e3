from __future__ import annotations

import asyncio

import pytest

from runtime.llm.port import ChatMessage, ChatModel, ChatRequest, LlmErrorKind, Model, StreamRestart
from runtime.testing import FakeModel, LeapClock, ScriptedModel
from tests.runtime.livetext import ScriptedStream
from tests.support import eventually


async def test_a_leap_wakes_those_whose_moment_it_passes() -> None:
    clock = LeapClock()
    woken: list[str] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(name)

    tasks = [asyncio.create_task(sleeper(name, seconds)) for name, seconds in (("hour", 3600), ("day", 86_400))]
    await asyncio.sleep(0)
    before, began = clock.now(), clock.monotonic()
    clock.leap(4000)
    await eventually(lambda: woken == ["hour"])
    assert (clock.now() - before).total_seconds() >= 4000
    assert clock.monotonic() - began >= 4000
    clock.leap(86_400)
    await asyncio.gather(*tasks)
    assert woken == ["hour", "day"]


async def test_without_a_leap_time_passes_by_itself() -> None:
    clock = LeapClock()
    began = clock.monotonic()
    await clock.sleep(0.01)
    await clock.sleep(0)
    assert clock.monotonic() > began


ASKED = ChatRequest(purpose="test", messages=(ChatMessage(role="user", content="Wells keep water. Say so."),))


class Mute:
    """A model that cannot stream."""

    label = "mute"
    chat = ScriptedModel("whole").chat


@pytest.mark.parametrize(
    ("model", "shown"),
    [
        (ScriptedStream(["a", StreamRestart(because=LlmErrorKind.SERVER), "b", "c"]), ["b", "c"]),
        (ScriptedModel("abc"), ["ab", "c"]),
        (Mute(), ["whole"]),
    ],
)
async def test_a_fake_model_shows_what_a_session_would_see(model: ChatModel, shown: list[str]) -> None:
    fake: Model = FakeModel(model)
    reply = await fake.live(ASKED)
    assert isinstance(fake, FakeModel)
    assert (fake.shown, reply.text) == ([shown], "".join(shown))


async def test_the_fakes_embed() -> None:
    for fake in (FakeModel(), ScriptedModel()):
        assert len((await fake.embed(["water", "stone"])).vectors) == 2
