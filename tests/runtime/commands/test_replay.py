"""`agents.py replay`, as a person calls it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from monikers.catalogue import catalogue
from runtime.commands.replay import replay_command
from store.agent_state import SessionStatus
from tests.runtime.kit import workshop


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with one session of three steps."""

    async def fill() -> None:
        async with workshop(tmp_path) as shop:
            await shop.create("echo", task="hello", config={"steps": 3})
            await shop.until(SessionStatus.DONE)

    asyncio.run(fill())
    monkeypatch.setenv("STEPWELL_DATA", str(tmp_path))
    return tmp_path


def replay(*args: str) -> Result:
    return CliRunner().invoke(replay_command(catalogue), list(args))


def test_the_same_steps_exit_with_0(folder: Path) -> None:
    found = replay("s")
    assert (found.exit_code, found.output) == (0, "session s: 3 steps replayed, the same\n")
    assert replay("s", "--from", "1", "--to", "1").output == "session s: 1 steps replayed, the same\n"


def test_a_difference_exits_with_1_and_is_named(folder: Path) -> None:
    spoil(folder, "s:1", {"text": "somebody else"})
    found = replay("s")
    assert found.exit_code == 1
    assert found.output == (
        "session s: 1 steps replayed; then iteration 1: text: stored 'somebody else', new 'hello'\n"
    )


def test_a_session_that_is_not_there_exits_with_2(folder: Path) -> None:
    found = replay("nobody")
    assert found.exit_code == 2
    assert "no session with id" in found.output


def test_no_store_is_made_where_none_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_DATA", str(tmp_path / "nothing"))
    found = replay("s")
    assert found.exit_code == 2
    assert "there is no store" in found.output
    assert not (tmp_path / "nothing").exists()


def spoil(folder: Path, step_id: str, columns: dict[str, Any]) -> None:
    """Change a stored step behind the store's back."""

    async def change() -> None:
        async with workshop(folder, start=False) as shop:
            await shop.store.tables["agent_steps"]._handle.update(columns, where=f"id = '{step_id}'")

    asyncio.run(change())
