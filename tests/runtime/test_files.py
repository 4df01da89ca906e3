from __future__ import annotations

from pathlib import Path

import pytest

from runtime.contract import MonikerInputError
from runtime.files import MAX_FILE_BYTES, AllowedFiles


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder that may be read, with one that may not beside and one within."""
    (tmp_path / "open" / "sub").mkdir(parents=True)
    (tmp_path / "open" / "a.txt").write_text("grüße", encoding="utf-8")
    (tmp_path / "open" / "sub" / "b.txt").write_text("b")
    (tmp_path / "open" / ".hidden").write_text("h")
    (tmp_path / "open" / ".git").mkdir()
    (tmp_path / "open" / ".git" / "config").write_text("g")
    (tmp_path / "open" / "data").mkdir()
    (tmp_path / "open" / "data" / "row").write_text("r")
    (tmp_path / "open" / "bytes").write_bytes(b"\xff\xfe")
    (tmp_path / "secret.txt").write_text("s")
    (tmp_path / "open" / "link").symlink_to(tmp_path / "secret.txt")
    (tmp_path / "open" / "inner").symlink_to(tmp_path / "open" / "a.txt")
    (tmp_path / "open" / "loop").symlink_to(tmp_path / "open" / "loop")
    return tmp_path / "open"


@pytest.mark.parametrize(
    ("path", "text"), [("a.txt", "grüße"), ("sub/b.txt", "b"), ("sub/../a.txt", "grüße"), ("inner", "grüße")]
)
async def test_a_file_inside_is_read(root: Path, path: str, text: str) -> None:
    assert await AllowedFiles([root]).read_text(path) == text


async def test_an_absolute_path_inside_is_read(root: Path) -> None:
    assert await AllowedFiles([root]).read_text(str(root / "a.txt")) == "grüße"


@pytest.mark.parametrize(
    "path",
    ["../secret.txt", "/etc/passwd", "link", ".hidden", ".git/config", "data/row", "data", "sub/../../secret.txt"],
)
async def test_what_may_not_be_read_is_refused_alike(root: Path, path: str) -> None:
    files = AllowedFiles([root], forbidden=[root / "data"])
    with pytest.raises(MonikerInputError, match="outside the folders that may be read"):
        await files.read_text(path)


@pytest.mark.parametrize("path", ["missing", "sub", "a.txt/x", "", "loop", "x" * 5000, "a\0b"])
async def test_what_cannot_be_read_is_the_callers_mistake(root: Path, path: str) -> None:
    with pytest.raises(MonikerInputError):
        await AllowedFiles([root]).read_text(path)


async def test_bytes_that_are_no_text_are_refused(root: Path) -> None:
    with pytest.raises(MonikerInputError, match="not UTF-8 text"):
        await AllowedFiles([root]).read_text("bytes")


async def test_a_file_that_is_too_large_is_refused(root: Path) -> None:
    with (root / "large").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(MonikerInputError, match="larger than"):
        await AllowedFiles([root]).read_text("large")


async def test_the_first_folder_that_holds_a_path_gives_it(root: Path) -> None:
    files = AllowedFiles([root / "sub", root])
    assert await files.read_text("b.txt") == "b"


async def test_a_file_in_a_later_folder_is_found(root: Path) -> None:
    assert await AllowedFiles([root / "sub", root]).read_text("a.txt") == "grüße"


async def test_without_folders_nothing_is_read(root: Path) -> None:
    with pytest.raises(MonikerInputError, match="STEPWELL_FILES"):
        await AllowedFiles([]).read_text(str(root / "a.txt"))
