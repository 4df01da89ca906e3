"""What a workspace does with files: limits, text that is none, several callers at a time."""

from __future__ import annotations

import asyncio
import base64
import errno
import os
from pathlib import Path

import pytest

from runtime.tools.workspace.errors import (
    AlreadyThereError,
    DiskError,
    EditError,
    NotTextError,
    NotThereError,
    TooMuchError,
    WrongKindError,
)
from runtime.tools.workspace.fake import MemoryWorkspace
from runtime.tools.workspace.port import Entry, Kind, Limits, WorkspacePort
from runtime.tools.workspace.workspace import Workspace

SMALL = Limits(file_bytes=100, total_bytes=150, entries=4, depth=3, read=10, listed=3)


@pytest.fixture(params=["disk", "memory"])
def workspace(request: pytest.FixtureRequest, tmp_path: Path) -> WorkspacePort:
    return Workspace(tmp_path, limits=SMALL) if request.param == "disk" else MemoryWorkspace(SMALL)


async def test_bytes_that_are_no_text(workspace: WorkspacePort) -> None:
    await workspace.write("a", b"ab\xff\r\n")
    with pytest.raises(NotTextError, match="byte 2 is 0xff; read it as base64"):
        await workspace.read_text("a")
    assert base64.b64decode((await workspace.read_base64("a")).base64) == b"ab\xff\r\n"
    with pytest.raises(NotTextError, match="half of a pair"):
        await workspace.write("a", "x\ud800")
    with pytest.raises(NotTextError):
        await workspace.find_replace("a", "a", "b")


async def test_limits(workspace: WorkspacePort) -> None:
    with pytest.raises(TooMuchError, match="a file may have 100"):
        await workspace.write("a", "x" * 101)
    await workspace.write("a", "x" * 90)
    with pytest.raises(TooMuchError, match="a file may have 100"):
        await workspace.append("a", "x" * 11)
    with pytest.raises(TooMuchError, match="delete some"):
        await workspace.write("b", "x" * 61)
    with pytest.raises(TooMuchError, match="delete some"):
        await workspace.copy("a", "b")
    await workspace.write("a", "x")
    await workspace.write("d/e/f", "y", parents=True)
    with pytest.raises(TooMuchError, match="delete some"):
        await workspace.mkdir("g")
    with pytest.raises(TooMuchError):
        await workspace.move("d/e", "a2/b/c", parents=True)
    assert await workspace.exists("g") is None
    await workspace.write("a", "x" * 20)
    part = await workspace.read_text("a")
    assert (len(part.text), part.next_offset, part.total) == (10, 10, 20)


async def test_a_file_makes_room_for_its_own_successor(workspace: WorkspacePort) -> None:
    await workspace.write("a", "x" * 90)
    assert await workspace.write("a", "y" * 100) == 100


async def test_a_folder_is_not_moved_or_copied_too_deep(workspace: WorkspacePort) -> None:
    await workspace.write("d/f", "y", parents=True)
    await workspace.mkdir("a")
    with pytest.raises(TooMuchError, match="deep"):
        await workspace.move("d", "a/b/c", parents=True)
    with pytest.raises(TooMuchError, match="deep"):
        await workspace.copy("d", "a/b/c", parents=True)
    await workspace.move("d", "a/b")
    assert await workspace.exists("a/b/f") is Kind.FILE


async def test_lists(workspace: WorkspacePort) -> None:
    await workspace.write("b/c", "12", parents=True)
    await workspace.write("a", "1")
    assert (await workspace.list()).entries == (Entry("a", Kind.FILE, 1), Entry("b", Kind.FOLDER))
    tree = await workspace.tree(".", depth=2)
    assert [entry.path for entry in tree.entries] == ["a", "b", "b/c"]
    assert not tree.truncated
    await workspace.mkdir("z")
    assert (await workspace.tree(".", depth=2)).truncated


async def test_what_is_there_is_not_lost(workspace: WorkspacePort) -> None:
    await workspace.write("a", "1")
    await workspace.write("b", "2")
    await workspace.mkdir("d")
    for refused in (
        workspace.write("a", "x", overwrite=False),
        workspace.move("a", "b"),
        workspace.copy("a", "b"),
        workspace.move("a", "d", overwrite=True),
        workspace.mkdir("a", parents=True),
        workspace.move("d", "d/e"),
    ):
        with pytest.raises(AlreadyThereError):
            await refused
    with pytest.raises(WrongKindError):
        await workspace.write("d", "x")
    with pytest.raises(NotThereError):
        await workspace.write("x/y", "x")
    await workspace.move("a", "b", overwrite=True)
    assert (await workspace.read_text("b")).text == "1"
    assert await workspace.exists("a") is None


async def test_blocks_are_all_or_none(workspace: WorkspacePort) -> None:
    await workspace.write("a", "one\ntwo\n")
    good = "<<<<<<< SEARCH\none\n=======\n1\n>>>>>>> REPLACE\n"
    with pytest.raises(EditError, match="block 2 of 2"):
        await workspace.search_replace("a", good + good)
    assert (await workspace.read_text("a")).text == "one\ntwo\n"
    assert await workspace.search_replace("a", good) == 1
    assert (await workspace.read_text("a")).text == "1\ntwo\n"
    assert await workspace.search_replace("new", "<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE") == 1
    assert (await workspace.read_text("new")).text == "x\n"


async def test_find_and_replace_takes_letters_not_patterns(workspace: WorkspacePort) -> None:
    await workspace.write("a", "a.b axb")
    assert await workspace.find_replace("a", "a.b", "\\1") == 1
    assert (await workspace.read_text("a")).text == "\\1 axb"
    await workspace.write("a", "b b")
    with pytest.raises(EditError, match="2 times, not 1"):
        await workspace.find_replace("a", "b", "c", expected=1)
    assert await workspace.find_replace("a", "b", "c", expected=2) == 2
    assert (await workspace.read_text("a")).text == "c c"


async def test_callers_side_by_side_lose_nothing(tmp_path: Path) -> None:
    await asyncio.gather(*(Workspace(tmp_path).append("log", f"{number};") for number in range(40)))
    text = (await Workspace(tmp_path).read_text("log")).text
    assert sorted(text.split(";")[:-1], key=int) == [str(number) for number in range(40)]


async def test_the_limit_holds_for_callers_side_by_side(tmp_path: Path) -> None:
    limits = Limits(total_bytes=50)
    writes = (Workspace(tmp_path, limits=limits).write(f"f{number}", "x" * 10) for number in range(12))
    answers = await asyncio.gather(*writes, return_exceptions=True)
    assert sum(answer == 10 for answer in answers) == 5
    assert sum(isinstance(answer, TooMuchError) for answer in answers) == 7


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.ENOSPC, TooMuchError), (errno.EDQUOT, TooMuchError), (errno.EIO, DiskError)]
)
async def test_a_disk_that_fails_leaves_the_old_content(
    number: int, kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace(tmp_path)
    await workspace.write("a", "old")

    def fails(fd: int) -> None:
        raise OSError(number, "it failed", str(tmp_path))

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(kind) as caught:
        await workspace.write("a", "new")
    assert str(tmp_path) not in str(caught.value)
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_text() == "old"


async def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    await Workspace(tmp_path).write("d/a", "x", parents=True)
    assert (tmp_path / "d").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "d" / "a").stat().st_mode & 0o777 == 0o600


async def test_a_name_that_is_no_text_is_shown(tmp_path: Path) -> None:
    os.close(os.open(os.path.join(os.fsencode(tmp_path), b"x\xff"), os.O_CREAT | os.O_WRONLY))
    (entry,) = (await Workspace(tmp_path).list()).entries
    assert entry.path == "x\\xff"


async def test_a_large_file_of_somebody_else_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", 10**12)
    with pytest.raises(TooMuchError, match="split it"):
        await Workspace(tmp_path).read_text("large")
