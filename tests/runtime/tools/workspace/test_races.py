"""Whoever swaps a folder or a file for a trap while an operation runs gains nothing (SECURITY S50).

Two ways: the swap before every single system call of every operation, one after the other; and a thread that swaps
as fast as it can.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runtime.tools.workspace.errors import WorkspaceError
from runtime.tools.workspace.files import Files
from tests.runtime.tools.workspace.planted import BLOCK, OPERATIONS, SECRET, Trap, lay

CALLS = ("open", "stat", "fstat", "mkdir", "rename", "unlink", "rmdir", "listdir", "read", "write", "dup")
Swap = Callable[[Trap], None]


def folder_becomes_link(trap: Trap) -> None:
    os.rename(trap.root / "folder", trap.root / "aside")
    os.symlink(trap.outside, trap.root / "folder")


def file_becomes_link(trap: Trap) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.rename(trap.root / "folder" / "secret.txt", trap.root / "aside")
    os.symlink(trap.outside / "secret.txt", trap.root / "folder" / "secret.txt")


def file_becomes_second_name(trap: Trap) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.rename(trap.root / "folder" / "secret.txt", trap.root / "aside")
    os.link(trap.outside / "secret.txt", trap.root / "folder" / "secret.txt")


def file_becomes_pipe(trap: Trap) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.rename(trap.root / "folder" / "secret.txt", trap.root / "aside")
    os.mkfifo(trap.root / "folder" / "secret.txt")


def staging_becomes_link(trap: Trap, target: str = "") -> None:
    staging = trap.root / ".stepwell-partial"
    with contextlib.suppress(FileNotFoundError):
        os.rename(staging, trap.root / "aside")
    os.symlink(trap.outside / target, staging)


def staging_becomes_link_to_file(trap: Trap) -> None:
    staging_becomes_link(trap, "secret.txt")


@contextlib.contextmanager
def before_call(number: int, deed: Callable[[], None]) -> Iterator[list[int]]:
    """Do something just before the `number`th of this thread's calls of the operating system; counts them."""
    count = [0]
    real = {name: getattr(os, name) for name in CALLS}

    def wrapped(name: str) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            count[0] += 1
            if count[0] == number:
                for other, function in real.items():
                    setattr(os, other, function)
                with contextlib.suppress(OSError):  # the place of the trap may be gone: then this point has none
                    deed()
            return real[name](*arguments, **options)

        return call

    try:
        for name in CALLS:
            setattr(os, name, wrapped(name))
        yield count
    finally:
        for name, function in real.items():
            setattr(os, name, function)


def prepared(here: Path) -> Trap:
    """A workspace whose `folder/secret.txt` is its own, and has the name of one outside."""
    trap = lay(here)
    (trap.root / "folder" / "secret.txt").write_text("own\n")
    (trap.root / "folder" / "deep").mkdir()
    return trap


OF_FILES: tuple[Swap, ...] = (file_becomes_link, file_becomes_second_name, file_becomes_pipe)
OF_FOLDERS: tuple[Swap, ...] = (folder_becomes_link, staging_becomes_link, staging_becomes_link_to_file)


def points() -> Iterator[tuple[str, str, Swap]]:
    """Every operation on a file with every swap, and those on whole folders with the swaps of folders."""
    for operation in OPERATIONS:
        path = "folder/new/x.txt" if "parents" in operation else "folder/secret.txt"
        swaps = OF_FOLDERS if "parents" in operation else (*OF_FILES, *OF_FOLDERS)
        yield from ((operation, path, swap) for swap in swaps)
    for operation in ("list", "tree", "delete_recursive", "copy_from", "move_from"):
        yield from ((operation, "folder", swap) for swap in OF_FOLDERS)


@pytest.mark.usefixtures("quick_disk")
@pytest.mark.parametrize(("operation", "path", "swap"), list(points()))
def test_a_swap_before_any_call(operation: str, path: str, swap: Swap, tmp_path: Path) -> None:
    for number in range(1, 200):
        trap = prepared(tmp_path / str(number))
        before, links = trap.seen(), os.stat(trap.outside / "secret.txt").st_nlink
        with before_call(number, lambda trap=trap: swap(trap)) as count, contextlib.suppress(WorkspaceError):  # type: ignore[misc]
            answer = OPERATIONS[operation](trap.files(), path)
            assert SECRET not in repr(answer)
        assert trap.seen() == before
        assert os.stat(trap.outside / "secret.txt").st_nlink <= links + 1
        assert not _copied(trap)
        if count[0] < number:
            break
    else:
        pytest.fail("the operation does not end")


def _copied(trap: Trap) -> list[Path]:
    """Files of the workspace, no links and no second names, that hold what lies outside."""
    return [
        path
        for path in trap.root.rglob("*")
        if path.is_file() and not path.is_symlink() and path.stat().st_nlink == 1 and SECRET in path.read_text()
    ]


@pytest.mark.usefixtures("quick_disk")
def test_a_thread_that_swaps_a_folder_all_the_time(tmp_path: Path) -> None:
    trap = prepared(tmp_path)
    before, done = trap.seen(), threading.Event()
    swaps = 0

    def swapping() -> None:
        nonlocal swaps
        folder, aside = trap.root / "folder", trap.root / "aside"
        while not done.is_set() and swaps < 200_000:
            os.rename(folder, aside)
            os.symlink(trap.outside, folder)
            os.unlink(folder)
            os.rename(aside, folder)
            swaps += 1

    thread = threading.Thread(target=swapping)
    thread.start()
    met: Counter[str] = Counter()
    deadline = time.monotonic() + 60
    try:
        while (met.total() < 3_000 or swaps <= 100) and time.monotonic() < deadline:
            met += _use(trap.files(), rounds=25)
    finally:
        done.set()
        thread.join()
    assert swaps > 100
    assert met["refused"] > 0
    assert met["done"] > 0
    assert trap.seen() == before


def _use(files: Files, rounds: int) -> Counter[str]:
    """Use `folder` in every way that leaves it there; nothing that is read may be the secret."""
    met: Counter[str] = Counter()
    deeds: list[Callable[[], object]] = [
        lambda: files.read_text("folder/secret.txt", 0, None),
        lambda: files.write("folder/secret.txt", "own\n", False, True),
        lambda: files.append("folder/new.txt", "x", False),
        lambda: files.tree("folder", 5),
        lambda: files.mkdir("folder/other", False),
        lambda: files.delete("folder/other", True),
        lambda: files.copy("folder/secret.txt", "taken.txt", False, True),
        lambda: files.copy("mine.txt", "folder/secret.txt", False, True),
        lambda: files.search_replace("folder/secret.txt", BLOCK),
        lambda: files.find_replace("folder/secret.txt", SECRET, "owned", None),
        lambda: files.delete("folder/new.txt", False),
        lambda: files.read_text("taken.txt", 0, None),
    ]
    for _ in range(rounds):
        for deed in deeds:
            try:
                answer = deed()
            except WorkspaceError:
                met["refused"] += 1
            else:
                met["done"] += 1
                assert SECRET not in repr(answer)
    return met
