"""Crash points: the n-th visit of the named one kills the process, everything else goes on."""

from __future__ import annotations

import os
import signal

import pytest

from store.crashpoints import crash_at, no_crash


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The signals that were sent, in place of sending them."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    return sent


def test_it_kills_this_process_at_the_nth_visit(kills: list[tuple[int, int]]) -> None:
    visit = crash_at("queue.after_commit:3")

    for _ in range(2):
        visit("queue.after_commit")
    assert kills == []

    visit("queue.after_commit")
    assert kills == [(os.getpid(), signal.SIGKILL)]


def test_other_points_do_not_count(kills: list[tuple[int, int]]) -> None:
    visit = crash_at("queue.after_commit:1")

    for point in ("queue.before_commit", "agent_steps.after_commit", "queue.after_commit:1"):
        visit(point)

    assert kills == []


@pytest.mark.parametrize(
    "setting", ["", "queue.after_commit", "queue:0", ":1", "queue:-1", "queue:x", "queue:1.5", "q:²"]
)
def test_a_setting_of_another_form_is_refused(setting: str) -> None:
    with pytest.raises(ValueError, match="STEPWELL_CRASH_AT"):
        crash_at(setting)


def test_without_a_setting_a_visit_does_nothing(kills: list[tuple[int, int]]) -> None:
    no_crash("queue.after_commit")

    assert kills == []
