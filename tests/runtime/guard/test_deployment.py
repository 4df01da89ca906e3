"""A deployment's guard, from its settings to a judgement."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.errors import SettingError
from runtime.guard.deployment import GuardSettings, guard_service
from runtime.guard.governance import DEFAULT
from runtime.guard.judgement import Outcome
from runtime.guard.port import AgentType, Channel, Passage
from runtime.llm.offline import OFFLINE_CONCERN, OfflineModel

KEY = "velvet-otter-9917-harbour"
ENV = {"OPENAI_API_KEY": KEY}


def passage(text: str, channel: Channel = Channel.OUTPUT) -> Passage:
    return Passage(text, channel, AgentType("m"), "s")


def test_without_rules_and_secrets_there_is_no_guard() -> None:
    assert guard_service(GuardSettings(governance=None), OfflineModel(), {"HOME": "/root"}) is None


async def test_without_rules_configured_secrets_are_cut_out_and_nothing_else() -> None:
    service = guard_service(GuardSettings(governance=None), OfflineModel(), ENV)
    assert service is not None
    assert not service.keeps_all
    judgement = await service.guard.check(passage(f"{KEY} and AKIAABCDEFGHIJKLMNOP"))
    assert judgement.text == "⟦redacted OPENAI_API_KEY⟧ and AKIAABCDEFGHIJKLMNOP"


async def test_the_rules_of_a_file_hold_and_the_offline_model_is_a_judge() -> None:
    service = guard_service(GuardSettings(governance=DEFAULT), OfflineModel(), ENV)
    assert service is not None
    assert service.keeps_all
    assert (await service.guard.check(passage("fine"))).outcome is Outcome.PASSED
    judgement = await service.guard.check(passage(f"a text with {OFFLINE_CONCERN}"))
    assert judgement.outcome is Outcome.CONCERN
    assert judgement.concerns[0].reason.startswith("[offline model]")


def test_a_mistake_in_the_file_is_told_with_line_key_and_cure(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("version: 1\nsecrtes: {}\n")
    with pytest.raises(SettingError, match=r"(?s)STEPWELL_GOVERNANCE.*rules\.yaml:2: secrtes: not known here: remove"):
        guard_service(GuardSettings(governance=rules), OfflineModel(), {})


@pytest.mark.parametrize(("mode", "said"), [(0o644, "chmod 600"), (0o600, None)])
def test_the_key_of_the_digests_is_its_owners_alone(tmp_path: Path, mode: int, said: str | None) -> None:
    key = tmp_path / "guard.key"
    key.write_text("a-long-random-text-of-the-operator")
    key.chmod(mode)
    settings = GuardSettings(governance=DEFAULT, guard_key=key)
    if said is None:
        assert guard_service(settings, OfflineModel(), {}) is not None
        return
    with pytest.raises(SettingError, match=said):
        guard_service(settings, OfflineModel(), {})


async def test_digests_of_two_processes_with_one_key_are_the_same(tmp_path: Path) -> None:
    key = tmp_path / "guard.key"
    key.write_text("a-long-random-text-of-the-operator")
    key.chmod(0o600)
    digests = set()
    for _ in range(2):
        service = guard_service(GuardSettings(governance=DEFAULT, guard_key=key), OfflineModel(), {})
        assert service is not None
        digests.add((await service.guard.check(passage("x"))).decisions[0].digest)
    assert len(digests) == 1
