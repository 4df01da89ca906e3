from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from runtime.commands.guard import guard_report
from runtime.guard.governance import DEFAULT
from runtime.guard.scoring import Classifier


def test_it_shows_every_gate_and_the_measured_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_GOVERNANCE", str(DEFAULT))
    said = CliRunner().invoke(guard_report).output
    for gate in ("limits", "secrets", "pattern chat-markup", "pii", "links", "scoring", "constitutional_guardian"):
        assert f"  {gate}: " in said
    measured = Classifier.load().measured
    assert measured is not None
    assert f"found {measured.recall:.1%} of {measured.attacks} attacks" in said
    assert f"accused {measured.false_positive_rate:.1%} of {measured.benign} harmless texts" in said


def test_a_gate_that_fails_open_is_told_loudly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("version: 1\nlinks: {fail_closed: false}\n")
    monkeypatch.setenv("STEPWELL_GOVERNANCE", str(rules))
    assert "links: output; LETS TEXTS PASS when it fails" in CliRunner().invoke(guard_report).output


def test_rules_that_cannot_be_used_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STEPWELL_GOVERNANCE", str(tmp_path / "none.yaml"))
    done = CliRunner().invoke(guard_report)
    assert done.exit_code == 2
    assert "none.yaml" in done.output
