"""Each session and each project has its own folder, whatever its id looks like."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.tools.workspace.errors import NotThereError, PathRefusedError
from runtime.tools.workspace.scopes import LONGEST, Workspaces, folder_name, id_of, is_hashed
from tests.support import examples

ODD = [
    "a",
    "A",
    "Ä",
    "ä",
    "a\u0308",
    "..",
    ".",
    "/",
    "\\",
    "a/b",
    "a_2fb",
    "a ",
    "a.",
    "con",
    "\0",
    "_",
    "-",
    "%",
    "x" * 400,
    "x" * 401,
]


@pytest.mark.parametrize("one", ODD)
def test_an_odd_id_has_a_plain_name(one: str) -> None:
    assert re.fullmatch(r"[ih]-[a-z0-9_-]+", folder_name(one))
    assert len(folder_name(one)) <= LONGEST + 2


def test_odd_ids_do_not_meet() -> None:
    assert len({folder_name(one).casefold() for one in ODD}) == len(ODD)


@examples(500)
@given(one=st.text(min_size=1, max_size=60), other=st.text(min_size=1, max_size=60))
def test_two_ids_share_no_folder(one: str, other: str) -> None:
    assert (folder_name(one) == folder_name(other)) == (one == other)
    assert folder_name(one) == folder_name(one).casefold()


@examples(500)
@given(one=st.text(min_size=1, max_size=60) | st.sampled_from(ODD))
def test_an_id_is_read_back_from_its_folder(one: str) -> None:
    name = folder_name(one)
    assert id_of(name) == (None if is_hashed(name) else one)


@examples(500)
@given(name=st.text(st.sampled_from("aé_25fF-"), max_size=8).map(lambda rest: f"i-{rest}") | st.text(max_size=8))
def test_a_name_that_was_not_made_here_is_nobodys(name: str) -> None:
    found = id_of(name)
    assert found is None or folder_name(found) == name


def test_the_empty_id_is_refused() -> None:
    with pytest.raises(PathRefusedError, match="empty"):
        folder_name("")


async def test_scopes_are_apart(tmp_path: Path) -> None:
    workspaces = Workspaces(tmp_path)
    await workspaces.private("s").write("a.txt", "private")
    with pytest.raises(NotThereError):
        await workspaces.shared("s").read_text("a.txt")
    with pytest.raises(NotThereError):
        await workspaces.private("S").read_text("a.txt")
    assert (await workspaces.private("s").read_text("a.txt")).text == "private"


async def test_two_sessions_of_a_project_add_to_one_file(tmp_path: Path) -> None:
    one, other = Workspaces(tmp_path).shared("p"), Workspaces(tmp_path).shared("p")
    await one.append("log", "a")
    await other.append("log", "b")
    assert (await one.read_text("log")).text == "ab"
