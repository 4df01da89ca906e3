"""A workspace on disk answers like a dict of names in memory, whatever is asked of it and in whatever order."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.tools.workspace.errors import WorkspaceError
from runtime.tools.workspace.fake import MemoryWorkspace
from runtime.tools.workspace.port import Limits, WorkspacePort
from runtime.tools.workspace.workspace import Workspace
from tests.support import examples

LIMITS = Limits(file_bytes=60, total_bytes=150, entries=9, depth=4, read=12, listed=5)

# Few paths, most of them good, so that operations meet what others have left.
COMMON = ["a", "b", "c", "a/b", "a/c", "b/a", "b/b", "a/b/c", "b/a/c", "a/b/c/d"]
paths = st.sampled_from([*COMMON, *COMMON, *COMMON, ".", "./a/", "..", "a/b/c/d/e"])
FIRST: list[tuple[str, str]] = [("a/b", "one\ntwo\n"), ("a/c", "a\r\n"), ("b/a/c", "one"), ("c", "xa")]
contents = st.one_of(
    st.sampled_from(["", "a\n", "a\r\nb", "one\ntwo\n", "é€𝄞\n", "x" * 25, "x" * 61]),
    st.binary(max_size=4),
    st.text(max_size=6),
)
flags = st.booleans()
offsets = st.integers(-1, 12)
block_lines = st.lists(st.sampled_from(["a", "one", "two", "é€𝄞", ""]), max_size=2)


def block(search: list[str], replace: list[str]) -> str:
    return "\n".join(["<<<<<<< SEARCH", *search, "=======", *replace, ">>>>>>> REPLACE", ""])


def asks(
    name: str, *positional: st.SearchStrategy[object], **named: st.SearchStrategy[object]
) -> st.SearchStrategy[Asked]:
    return st.tuples(st.just(name), st.tuples(*positional), st.fixed_dictionaries(named))


operations = st.one_of(
    asks("write", paths, contents, parents=flags, overwrite=flags),
    asks("write", paths, contents, parents=st.just(True)),
    asks("append", paths, contents, parents=flags),
    asks("read_text", paths, offset=offsets, limit=st.one_of(st.none(), offsets)),
    asks("read_base64", paths, offset=offsets, limit=st.one_of(st.none(), offsets)),
    asks("list", paths),
    asks("tree", paths, depth=st.integers(0, 5)),
    asks("mkdir", paths, parents=flags),
    asks("delete", paths, recursive=flags),
    asks("move", paths, paths, parents=flags, overwrite=flags),
    asks("copy", paths, paths, parents=flags, overwrite=flags),
    asks("exists", paths),
    asks(
        "find_replace",
        paths,
        st.sampled_from(["a", "x", "", "\n"]),
        st.sampled_from(["", "yy"]),
        expected=st.sampled_from([None, 1]),
    ),
    asks("search_replace", paths, st.builds(block, block_lines, block_lines)),
)


Asked = tuple[str, tuple[object, ...], dict[str, object]]


async def answer(workspace: WorkspacePort, asked: Asked) -> object:
    """What a workspace answers: a value, or the kind of its error."""
    name, positional, named = asked
    try:
        return await getattr(workspace, name)(*positional, **named)
    except WorkspaceError as error:
        return type(error)


def on_disk(root: Path) -> dict[tuple[str, ...], bytes | None]:
    return {path.relative_to(root).parts: path.read_bytes() if path.is_file() else None for path in root.rglob("*")}


@pytest.mark.usefixtures("quick_disk")
@examples(80)
@given(asked=st.lists(operations, min_size=20, max_size=40))
async def test_disk_and_memory_answer_alike(asked: list[Asked], tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
        disk, memory = Workspace(Path(folder), limits=LIMITS), MemoryWorkspace(LIMITS)
        for path, content in FIRST:
            assert await disk.write(path, content, parents=True) == await memory.write(path, content, parents=True)
        for one in asked:
            assert await answer(disk, one) == await answer(memory, one), one
        assert on_disk(Path(folder)) == memory.held


@examples(150)
@given(text=st.text(max_size=200))
async def test_text_goes_in_and_out_unchanged(text: str, tmp_path: Path) -> None:
    disk = Workspace(tmp_path)
    try:
        size = await disk.write("t", text)
    except WorkspaceError:
        with pytest.raises(UnicodeEncodeError):
            text.encode()
        return
    assert (await disk.read_text("t")).text == text
    assert os.stat(tmp_path / "t").st_size == size
    assert await disk.append("t", text) == 2 * size
    assert (await disk.read_text("t")).text == text + text


@examples(60)
@given(text=st.text(st.sampled_from("aé€𝄞\r\n"), max_size=60), step=st.integers(1, 20))
async def test_parts_make_the_whole(text: str, step: int, tmp_path: Path) -> None:
    disk = Workspace(tmp_path)
    await disk.write("t", text)
    offset: int | None = 0
    read = ""
    while offset is not None:
        part = await disk.read_text("t", offset=offset, limit=step)
        read, offset = read + part.text, part.next_offset
    assert read == text
