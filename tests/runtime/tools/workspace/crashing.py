"""Runs one change of a workspace again and again, killed before one system call after the other.

`python -m tests.runtime.tools.workspace.crashing <folder> <change>` prints, as JSON, what each death left. It forks,
so it is a program of its own: nothing else may run beside it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from runtime.tools.workspace.files import Files
from runtime.tools.workspace.port import Limits
from runtime.tools.workspace.removing import claim

CALLS = ("open", "stat", "mkdir", "rename", "unlink", "rmdir", "listdir", "write", "fsync", "close")
OLD, NEW = "old\n" * 2_000, "new\n" * 3_000

CHANGES: dict[str, Callable[[Files], object]] = {
    "write": lambda files: files.write("d/a", NEW, False, True),
    "write_first": lambda files: files.write("n/b", NEW, True, True),
    "append": lambda files: files.append("d/a", NEW, False),
    "find_replace": lambda files: files.find_replace("d/a", "old", "new", None),
    "move": lambda files: files.move("d", "moved", False, False),
    "copy": lambda files: files.copy("d", "copied", False, False),
    "delete": lambda files: files.delete("d", True),
    "take_away": lambda files: _taken_away(files, "d"),
}


def _taken_away(files: Files, name: str) -> None:
    held = claim(files.base, (), name)
    if held is not None:
        held.take_away()
        held.close()


def main() -> None:
    base, change = Path(sys.argv[1]), sys.argv[2]
    left = []
    for number in range(1, 300):
        lay(base)
        died = _killed_before(number, base, CHANGES[change])
        at_once = seen(base)
        # The next change clears away what was being built, whatever it is itself.
        files_of(base).mkdir("next", True)
        left.append({"at_once": at_once, "hidden": (base / ".stepwell-partial").exists()})
        if not died:
            break
    print(json.dumps(left))


def lay(base: Path) -> None:
    """A workspace with a folder of two files."""
    shutil.rmtree(base, ignore_errors=True)
    (base / "d" / "e").mkdir(parents=True)
    (base / "d" / "a").write_text(OLD)
    (base / "d" / "e" / "b").write_text(OLD)


def files_of(base: Path) -> Files:
    return Files(base, (), Limits())


def seen(base: Path) -> dict[str, str]:
    """The files that a reader finds, shortened to what tells old from new."""
    return {
        str(path.relative_to(base)): f"{path.read_text()[:3]}{path.stat().st_size}"
        for path in sorted(base.rglob("*"))
        if path.is_file() and ".stepwell-partial" not in path.parts
    }


def _killed_before(number: int, base: Path, change: Callable[[Files], object]) -> bool:
    child = os.fork()
    if child == 0:
        _die_before(number)
        change(files_of(base))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status) and status != 0:
        raise RuntimeError(f"the change failed at {number}")
    return os.WIFSIGNALED(status)


def _die_before(number: int) -> None:
    """Count this process's calls; at the given one write half of what it would, and die by SIGKILL."""
    count = 0

    def wrap(name: str) -> None:
        real = getattr(os, name)

        def call(*arguments: object, **options: object) -> object:
            nonlocal count
            count += 1
            if count == number:
                if name == "write":
                    data = memoryview(arguments[1])  # type: ignore[arg-type]
                    real(arguments[0], data[: len(data) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)

        setattr(os, name, call)

    for name in CALLS:
        wrap(name)


if __name__ == "__main__":
    main()
