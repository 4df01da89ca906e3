"""A process that is killed in the middle of a change leaves what was before it or what is after it, never a mixture."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
OLD = {"d/a": "old8000", "d/e/b": "old8000"}

ALLOWED = {
    "write": [OLD, {**OLD, "d/a": "new12000"}],
    "write_first": [OLD, {**OLD, "n/b": "new12000"}],
    "append": [OLD, {**OLD, "d/a": "old20000"}],
    "find_replace": [OLD, {**OLD, "d/a": "new8000"}],
    "move": [OLD, {"moved/a": "old8000", "moved/e/b": "old8000"}],
    "copy": [OLD, {**OLD, "copied/a": "old8000", "copied/e/b": "old8000"}],
    "delete": [OLD, {}],
    "take_away": [OLD, {}],
}


@pytest.mark.process
@pytest.mark.parametrize("change", ALLOWED)
async def test_a_death_at_any_point(change: str, tmp_path: Path) -> None:
    program = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.runtime.tools.workspace.crashing",
        str(tmp_path / "workspace"),
        change,
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await program.communicate()
    assert program.returncode == 0, err.decode()
    left = json.loads(out)
    assert len(left) > 10
    assert all(one["at_once"] in ALLOWED[change] for one in left)
    # Both are met: the points lie before and after the moment at which the change shows.
    assert left[0]["at_once"] == ALLOWED[change][0]
    assert left[-1]["at_once"] == ALLOWED[change][1]
    assert not any(one["hidden"] for one in left)
