"""Run a command, then end what it left running: `python -m scripts.no_leftovers COMMAND ...`. Standard library only.

Who waits for the output of a run waits until the last process that holds its end of the pipe is gone: one forgotten
server keeps a finished run from ending. So processes whose parent has died become children of this one (Linux,
PR_SET_CHILD_SUBREAPER), and when the command has ended, what is left of them is named and ended, by id.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
#: how long leftovers may take to end by themselves, and once they were asked to
GRACE_S = 3.0
_LOOK_S = 0.05
#: the children of what was ended become ours in turn
_ROUNDS = 5


def main(command: Sequence[str]) -> int:
    """The status of `command` as a shell has it; nothing that it started runs on."""
    if not command:
        print("usage: python3 -m scripts.no_leftovers COMMAND [ARGUMENT ...]", file=sys.stderr)
        return 2
    _adopt_orphans()
    # What a terminal sends reaches the command by itself, and it decides when to end.
    signal.signal(signal.SIGINT, lambda *_: None)
    child = subprocess.Popen(command)
    signal.signal(signal.SIGTERM, lambda number, _: os.kill(child.pid, number))
    status = _outlived(child)
    _end_leftovers()
    return status if status >= 0 else 128 - status


def _outlived(child: subprocess.Popen[bytes]) -> int:
    """The status of `child` once it has ended. Orphans that end before are reaped at once: whoever waits for one of
    them to be gone would wait for ever."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child.pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            return child.returncode


def _end_leftovers() -> None:
    _wait_for_children(GRACE_S)
    for number in (signal.SIGTERM, *[signal.SIGKILL] * _ROUNDS):
        for pid in _children():
            print(f"left running, now ended ({number.name}): {pid} {_name(pid)}", file=sys.stderr)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        _wait_for_children(GRACE_S)


def _adopt_orphans() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _wait_for_children(at_most_s: float) -> None:
    until = time.monotonic() + at_most_s
    while _children() and time.monotonic() < until:
        _reap()
        time.sleep(_LOOK_S)
    _reap()


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _children() -> list[int]:
    """The living children of this process; their own become ours when they have ended."""
    try:
        listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    except OSError:
        return []
    return [pid for pid in map(int, listed.split()) if _state(pid) != "Z"]


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()[:200]
    return "?"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
