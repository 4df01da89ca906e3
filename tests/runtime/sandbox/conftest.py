"""What the tests of sandboxes share: hosts, both modes, and a look at what is left running."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime.sandbox.kit import children_of_ours


def why_no_walls() -> str | None:
    """Why bubblewrap cannot be tried here, or None."""
    bwrap = shutil.which("bwrap", path="/bin:/usr/bin")
    if bwrap is None:
        return "bubblewrap is not installed (Debian: apt-get install bubblewrap)"
    done = subprocess.run([bwrap, "--unshare-all", "--ro-bind", "/", "/", "true"], capture_output=True, text=True)
    return f"bubblewrap cannot build its walls here: {done.stderr.strip()}" if done.returncode else None


@pytest.fixture(scope="session")
def walls() -> None:
    """Skips, saying why, where full mode cannot be tried."""
    if why := why_no_walls():
        pytest.skip(why)


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """Fails when a process that the test started is still there."""
    before = children_of_ours()
    yield
    assert children_of_ours() <= before


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A path at which nothing may appear."""
    return tmp_path / "outside"
