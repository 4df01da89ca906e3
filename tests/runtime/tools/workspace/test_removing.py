"""A workspace that is taken away is gone whole, for whoever waits for it too; nothing beside it is touched."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from pathlib import Path

import pytest

from runtime.tools.workspace.errors import WorkspaceError
from runtime.tools.workspace.files import Files
from runtime.tools.workspace.paths import STAGING
from runtime.tools.workspace.port import Limits
from runtime.tools.workspace.removing import claim, clear, names_in
from tests.runtime.tools.workspace.planted import SECRET, Trap, lay, plant
from tests.runtime.tools.workspace.test_races import before_call

pytestmark = pytest.mark.usefixtures("quick_disk")


def files_in(base: Path, name: str = "i-a") -> Files:
    return Files(base, ("private", name), Limits())


def take_away(base: Path, name: str = "i-a") -> bool:
    """Take a workspace away, if it can be held."""
    held = claim(base, ("private",), name)
    if held is None:
        return False
    held.take_away()
    held.close()
    return True


def test_a_workspace_goes_whole_and_the_others_stay(tmp_path: Path) -> None:
    files_in(tmp_path).write("deep/er/a.txt", "a", True, True)
    files_in(tmp_path, "i-b").write("b.txt", "b", False, True)
    assert names_in(tmp_path, "private") == ["i-a", "i-b"]
    assert take_away(tmp_path)
    assert not take_away(tmp_path)
    assert os.listdir(tmp_path / "private") == ["i-b"]
    assert files_in(tmp_path, "i-b").read_text("b.txt", 0, None).text == "b"


def test_what_nobody_has_used_is_not_made(tmp_path: Path) -> None:
    for base in (tmp_path / "none", tmp_path):
        assert names_in(base, "private") == []
        clear(base, "private")
    assert os.listdir(tmp_path) == []


def test_one_that_is_let_go_is_as_it_was(tmp_path: Path) -> None:
    files_in(tmp_path).write("a.txt", "a", False, True)
    held = claim(tmp_path, ("private",), "i-a")
    assert held is not None
    held.close()
    assert files_in(tmp_path).read_text("a.txt", 0, None).text == "a"


def test_one_that_is_being_changed_is_left_alone(tmp_path: Path) -> None:
    files_in(tmp_path).write("a.txt", "a", False, True)
    fd = os.open(tmp_path / "private" / "i-a", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    assert not take_away(tmp_path)
    os.close(fd)
    assert take_away(tmp_path)


def test_who_waits_to_write_writes_into_a_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files_in(tmp_path).write("old.txt", "old", False, True)
    held = claim(tmp_path, ("private",), "i-a")
    assert held is not None
    waits, real = threading.Event(), fcntl.flock

    def told(fd: int, how: int) -> None:
        waits.set()
        real(fd, how)

    monkeypatch.setattr(fcntl, "flock", told)
    writer = threading.Thread(target=files_in(tmp_path).write, args=("new.txt", "new", False, True))
    writer.start()
    assert waits.wait(30)
    held.take_away()
    held.close()
    writer.join(30)
    assert [entry.path for entry in files_in(tmp_path).tree(".", 3).entries] == ["new.txt"]


def test_what_a_crash_left_is_cleared_by_the_next(tmp_path: Path) -> None:
    files_in(tmp_path).write("a.txt", "a", False, True)
    os.rename(tmp_path / "private" / "i-a", tmp_path / "private" / STAGING)  # a death after the rename
    assert names_in(tmp_path, "private") == []
    clear(tmp_path, "private")
    assert os.listdir(tmp_path / "private") == []


def test_nothing_is_followed_out_of_it(tmp_path: Path) -> None:
    trap = trapped(tmp_path)
    plant(Trap(trap.here))
    before = trap.seen()
    os.symlink(trap.outside, trap.here / "private" / "i-link")
    assert names_in(trap.here, "private") == ["i-a"]
    assert not take_away(trap.here, "i-link")
    assert take_away(trap.here)
    assert trap.seen() == before
    assert os.listdir(trap.here / "private") == ["i-link"]


def trapped(here: Path) -> Trap:
    """A folder in which the workspace `private/i-a` is the `root` of a trap."""
    trap = lay(here)
    (here / "private").mkdir()
    os.rename(trap.root, here / "private" / "i-a")
    os.symlink(here / "private" / "i-a", trap.root)
    (trap.root / "folder" / "deep").mkdir()
    return trap


def becomes_link(trap: Trap) -> None:
    os.rename(trap.here / "private" / "i-a", trap.here / "aside")
    os.symlink(trap.outside, trap.here / "private" / "i-a")


def scope_becomes_link(trap: Trap) -> None:
    os.rename(trap.here / "private", trap.here / "aside")
    os.symlink(trap.outside, trap.here / "private")


def staging_becomes_link(trap: Trap) -> None:
    staging = trap.here / "private" / STAGING
    with contextlib.suppress(FileNotFoundError):
        os.rename(staging, trap.here / "aside")
    os.symlink(trap.outside, staging)


def folder_in_staging_becomes_link(trap: Trap) -> None:
    os.rename(trap.here / "private" / STAGING / "folder", trap.here / "aside")
    os.symlink(trap.outside, trap.here / "private" / STAGING / "folder")


@pytest.mark.parametrize(
    "swap", [becomes_link, scope_becomes_link, staging_becomes_link, folder_in_staging_becomes_link]
)
def test_a_swap_before_any_call(swap: object, tmp_path: Path) -> None:
    assert callable(swap)
    for number in range(1, 200):
        trap = trapped(tmp_path / str(number))
        before = trap.seen()
        with (
            before_call(number, lambda trap=trap: swap(trap)) as count,  # type: ignore[misc]
            contextlib.suppress(WorkspaceError, OSError),
        ):
            take_away(trap.here)
        assert trap.seen() == before
        assert (trap.outside / "secret.txt").read_text() == SECRET + "\n"
        if count[0] < number:
            break
    else:
        pytest.fail("the removal does not end")
