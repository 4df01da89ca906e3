"""A workspace with traps, and a disk that does not wait."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.runtime.tools.workspace.planted import Trap, lay


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return lay(tmp_path)


@pytest.fixture
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for the disk: these tests stop no machine."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
