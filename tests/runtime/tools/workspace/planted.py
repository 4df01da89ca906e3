"""A workspace beside things that are none of its business, with traps in it; and every operation by name."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from runtime.tools.workspace.files import Files
from runtime.tools.workspace.port import Limits

SECRET = "the operator's secret"
BLOCK = f"<<<<<<< SEARCH\n{SECRET}\n=======\nowned\n>>>>>>> REPLACE\n"

Operation = Callable[[Files, str], object]

OPERATIONS: dict[str, Operation] = {
    "read_text": lambda files, path: files.read_text(path, 0, None),
    "read_base64": lambda files, path: files.read_base64(path, 0, None),
    "write": lambda files, path: files.write(path, "owned", False, True),
    "write_parents": lambda files, path: files.write(path, "owned", True, True),
    "append": lambda files, path: files.append(path, "owned", False),
    "append_parents": lambda files, path: files.append(path, "owned", True),
    "list": lambda files, path: files.tree(path, 1),
    "tree": lambda files, path: files.tree(path, 9),
    "mkdir": lambda files, path: files.mkdir(path, False),
    "mkdir_parents": lambda files, path: files.mkdir(path, True),
    "delete": lambda files, path: files.delete(path, False),
    "delete_recursive": lambda files, path: files.delete(path, True),
    "move_from": lambda files, path: files.move(path, "taken", False, True),
    "move_to": lambda files, path: files.move("mine.txt", path, True, True),
    "copy_from": lambda files, path: files.copy(path, "taken", False, True),
    "copy_to": lambda files, path: files.copy("mine.txt", path, True, True),
    "exists": lambda files, path: files.exists(path),
    "find_replace": lambda files, path: files.find_replace(path, SECRET, "owned", None),
    "search_replace": lambda files, path: files.search_replace(path, BLOCK),
}


@dataclass(frozen=True)
class Trap:
    """A folder with the workspace `root`, what lies `outside`, and what must not change."""

    here: Path

    @property
    def root(self) -> Path:
        return self.here / "root"

    @property
    def outside(self) -> Path:
        return self.here / "outside"

    def files(self, limits: Limits | None = None) -> Files:
        return Files(self.root, (), limits or Limits())

    def seen(self) -> dict[str, object]:
        """All that lies beside the workspace, with content; a file inside that is a name of one outside shows here."""
        return {
            str(path.relative_to(self.here)): path.read_bytes() if path.is_file() else os.lstat(path).st_mode
            for folder in ("outside", "root-evil")
            for path in sorted((self.here / folder).rglob("*"))
        }


def lay(here: Path) -> Trap:
    """Make the folders, and in the workspace one file of its own, `mine.txt`, and one folder, `folder`."""
    trap = Trap(here)
    for name in ("root/folder", "outside/deep", "root-evil"):
        (here / name).mkdir(parents=True)
    for name in ("outside/secret.txt", "outside/deep/secret.txt", "root-evil/secret.txt"):
        (here / name).write_text(SECRET + "\n")
    (trap.root / "mine.txt").write_text("mine\n")
    return trap


def plant(trap: Trap) -> None:
    """Put links, names of files outside, pipes and sockets into the workspace."""
    root, outside = trap.root, trap.outside
    links = {
        "to-file": outside / "secret.txt",
        "to-folder": outside,
        "to-file-by-dots": Path("../outside/secret.txt"),
        "to-folder-by-dots": Path("../outside"),
        "to-root": Path("/"),
        "to-itself": Path("to-itself"),
        "to-link": Path("to-folder"),
        "to-nothing": outside / "new.txt",
        "to-process": Path("/proc/self/root"),
        "to-files-held": Path("/proc/self/fd"),
        "to-device": Path("/dev/zero"),
        "folder/to-folder": outside,
        "folder/up": Path(".."),
        "to-own-file": Path("mine.txt"),
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    os.link(outside / "secret.txt", root / "same-file")
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as held:
        # A socket's address is short: it is made by a short name from within the folder.
        before = Path.cwd()
        os.chdir(root)
        try:
            held.bind("socket")
        finally:
            os.chdir(before)
