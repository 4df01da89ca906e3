"""Versions of an agent side by side (spec 2 §15.1); how an engine asks them is in test_engine.py."""

from __future__ import annotations

from typing import Any

import pytest

from monikers.copilot import StructuredLogTracer, Version, VersionedAgent
from tests.monikers.copilot.agents import Scripted, context_of, engine_of, says


def saying(words: str, **config: Any) -> Scripted:
    return Scripted("coach", lambda agent, context: says(agent, words), **config)


def test_a_version_without_a_share_serves_nobody() -> None:
    agent = VersionedAgent(
        [Version("a", saying("a!"), 0), Version("b", saying("b!"), 2), Version("c", saying("c!"), 0)]
    )
    assert {agent.version_for(f"s{number}").name for number in range(200)} == {"b"}


async def test_without_an_engine_the_version_of_the_session_answers() -> None:
    agent = VersionedAgent([Version("old", saying("old!"), 1), Version("new", saying("new!"), 1)])
    for number in range(8):
        response = await agent.evaluate(context_of(session_id=f"s{number}"))
        assert response is not None
        assert [one.content for one in response.insights] == [f"{agent.version_for(f's{number}').name}!"]


@pytest.mark.parametrize("changed", [{"share": 3.0}, {"cooldown": 9}])
async def test_11_3_the_hash_of_the_configurations_is_of_all_versions(changed: dict[str, Any]) -> None:
    async def digest(*, share: float = 1.0, cooldown: float = 0) -> str:
        tracer = StructuredLogTracer()
        versions = [Version("old", saying("old!")), Version("new", saying("new!", cooldown=cooldown), share)]
        await engine_of(VersionedAgent(versions), callbacks=[tracer]).process_turn(context_of())
        return str(tracer.traces[0]["replay"]["agent_configs_hash"])

    assert await digest() == await digest()
    assert await digest() != await digest(**changed)
