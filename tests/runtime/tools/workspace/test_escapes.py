"""No path leads out of a workspace: a list of tries, each made with every operation (SECURITY S50)."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from runtime.tools.workspace.errors import WorkspaceError, WrongKindError
from runtime.tools.workspace.port import Kind
from tests.runtime.tools.workspace.planted import OPERATIONS, SECRET, Trap, plant

WRITTEN = [
    # going up
    "..",
    "../",
    "../outside/secret.txt",
    "../../../../../../etc/passwd",
    "./../outside/secret.txt",
    "folder/../../outside/secret.txt",
    "folder/..",
    "mine.txt/../mine.txt",
    "folder/../../root-evil/secret.txt",
    "../root-evil/secret.txt",
    "../root/mine.txt",
    "not-there/../../outside/secret.txt",
    ".../secret.txt",
    "....//outside/secret.txt",
    # absolute
    "/etc/passwd",
    "//etc/passwd",
    "/",
    "/proc/self/environ",
    "/dev/null",
    # NUL and what cannot be seen
    "mine.txt\0.png",
    "\0",
    "../outside/secret.txt\0",
    "mine\n.txt",
    "mine\r.txt",
    "a\u202etxt.exe",
    "a\u200b.txt",
    "\ufeffmine.txt",
    "a\u2028b",
    "a\udc80b",
    "\x7f",
    # Windows
    "..\\outside\\secret.txt",
    "folder\\..\\..\\outside\\secret.txt",
    "\\\\server\\share\\file",
    "C:\\Windows\\win.ini",
    "C:/Windows/win.ini",
    "C:secret.txt",
    "mine.txt:stream",
    "mine.txt::$DATA",
    "con",
    "CON.txt",
    "aux.c",
    "nul",
    "folder/COM1",
    "lpt9.log",
    "COM¹",
    "conin$",
    "mine.txt.",
    "mine.txt ",
    " mine.txt",
    "folder./mine.txt",
    "folder /mine.txt",
    "a?b",
    "*",
    'a"b',
    "a|b",
    "<a>",
    # homes and encodings of others
    "~/.ssh/id_rsa",
    "~root/.profile",
    "%2e%2e/outside/secret.txt",
    "%2e%2e%2foutside%2fsecret.txt",
    "..%2foutside",
    "..%5coutside",
    "%252e%252e/outside",
    "mine.txt%00.png",
    # look-alikes
    "．．/outside/secret.txt",
    "‥/outside/secret.txt",
    "․․/outside",
    "..／outside",
    "..∕outside／secret.txt",
    "folder⁄mine.txt",
    "..＼outside",
    "Ｃ：",
    "ｃｏｎ",
    "cafe\u0301.txt",
    "℀",
    # too long, too deep
    "a" * 256,
    "ä" * 128,
    "a/" * 17 + "b",
    "a/" * 3000,
    # names of the workspace itself
    "",
    ".stepwell-partial",
    ".Stepwell-Partial",
    "./.stepwell-partial/x",
]

PLANTED = [
    "to-file",
    "to-folder/secret.txt",
    "to-folder/deep/secret.txt",
    "to-folder/new/x.txt",
    "to-folder",
    "to-folder/",
    "to-file-by-dots",
    "to-folder-by-dots/secret.txt",
    "to-root/etc/passwd",
    "to-itself",
    "to-itself/x",
    "to-link/secret.txt",
    "to-nothing",
    "to-process/etc/passwd",
    "to-files-held/0",
    "to-device",
    "folder/to-folder/secret.txt",
    "folder/up/mine.txt",
    "folder/up/to-file",
    "to-own-file",
    "same-file",
    "same-file/x",
    "pipe",
    "pipe/x",
    "socket",
    "mine.txt/x",
]


def attempt(trap: Trap, operation: str, path: str) -> object:
    """What an operation answers; fails when it says where on the host the workspace is, or what lies outside."""
    try:
        answer = OPERATIONS[operation](trap.files(), path)
    except WorkspaceError as error:
        if str(trap.here) in str(error) or SECRET in str(error):
            pytest.fail(f"the message tells too much: {error}")
        raise
    assert SECRET not in repr(answer)
    return answer


def test_the_list_is_as_long_as_promised() -> None:
    assert len(set(WRITTEN)) + len(set(PLANTED)) >= 60
    assert len(WRITTEN) == len(set(WRITTEN))


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: ascii(path)[:40])
def test_no_operation_takes(path: str, trap: Trap) -> None:
    before, inside = trap.seen(), sorted(trap.root.rglob("*"))
    for operation in OPERATIONS:
        with pytest.raises(WorkspaceError):
            attempt(trap, operation, path)
    assert trap.seen() == before
    assert sorted(trap.root.rglob("*")) == inside


@pytest.mark.parametrize("path", PLANTED)
def test_no_operation_follows(path: str, trap: Trap) -> None:
    plant(trap)
    before, links = trap.seen(), os.stat(trap.outside / "secret.txt").st_nlink
    for operation in OPERATIONS:
        if operation == "exists":
            with contextlib.suppress(WrongKindError):
                assert attempt(trap, operation, path) in (None, Kind.OTHER)
        else:
            with pytest.raises(WorkspaceError):
                attempt(trap, operation, path)
    assert trap.seen() == before
    assert os.stat(trap.outside / "secret.txt").st_nlink == links


@pytest.mark.parametrize("operation", [name for name in OPERATIONS if name not in ("tree", "list", "exists")])
def test_the_root_itself_is_no_file_and_stays(operation: str, trap: Trap) -> None:
    before = sorted(trap.here.rglob("*"))
    for path in (".", "./", "././."):
        if operation == "mkdir_parents":
            attempt(trap, operation, path)
        else:
            with pytest.raises(WorkspaceError):
                attempt(trap, operation, path)
    assert sorted(trap.here.rglob("*")) == before


def test_a_list_shows_traps_and_does_not_go_into_them(trap: Trap) -> None:
    plant(trap)
    entries = {entry.path: entry for entry in trap.files().tree(".", 9).entries}
    assert entries["to-folder"].kind is Kind.OTHER
    assert entries["same-file"].kind is Kind.OTHER
    assert entries["same-file"].size is None
    assert entries["pipe"].kind is Kind.OTHER
    assert not [path for path in entries if "secret" in path]


def test_a_folder_with_a_link_is_not_copied(trap: Trap) -> None:
    plant(trap)
    with pytest.raises(WrongKindError):
        trap.files().copy("folder", "copied", False, False)
    assert not (trap.root / "copied").exists()
    assert not (trap.root / ".stepwell-partial").exists()


def test_a_folder_with_links_is_deleted_without_following_them(trap: Trap) -> None:
    plant(trap)
    before = trap.seen()
    trap.files().delete("folder", True)
    assert not (trap.root / "folder").exists()
    assert trap.seen() == before


def test_a_folder_deeper_than_any_workspace_is_deleted(trap: Trap) -> None:
    at = os.open(trap.root / "folder", os.O_RDONLY)
    for _ in range(1_500):
        os.mkdir("deeper", dir_fd=at)
        inner = os.open("deeper", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(at)
    assert trap.files().tree(".", 200).entries
    trap.files().delete("folder", True)
    assert [path.name for path in trap.root.iterdir()] == ["mine.txt"]


def test_the_workspace_itself_may_not_be_a_link(trap: Trap) -> None:
    (trap.here / "base").mkdir()
    (trap.here / "base" / "private").symlink_to(trap.outside)
    files = type(trap.files())(trap.here / "base", ("private",), trap.files().limits)
    for operation in OPERATIONS.values():
        with pytest.raises(WorkspaceError):
            operation(files, "secret.txt")


def test_a_missing_folder_of_the_operator_is_said_without_its_path(tmp_path: Path) -> None:
    files = Trap(tmp_path).files()
    with pytest.raises(WorkspaceError, match="operator") as caught:
        files.exists("a")
    assert str(tmp_path) not in str(caught.value)
