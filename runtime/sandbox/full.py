"""Full mode: a program runs in CPython, behind the walls that bubblewrap builds out of kernel namespaces.

It sees Python's own files, read only, an empty /tmp of its own and nothing else: no network, no other processes, no
environment, no file of this machine, as a user who owns nothing. It starts no process. A machine that cannot build the
walls gives SandboxUnavailableError; there is no way to run without them.

Calls that need approval are refused inside the program: a CPython process cannot be stored until somebody answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import math
import os
import secrets
import shutil
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from runtime.ports import Clock
from runtime.sandbox import seccomp
from runtime.sandbox.carrying import Carrying, Terms
from runtime.sandbox.errors import SandboxUnavailableError, SnapshotRefusedError
from runtime.sandbox.hostcalls import Raise
from runtime.sandbox.output import Output
from runtime.sandbox.port import (
    Answer,
    FailureKind,
    Finished,
    Host,
    HostCall,
    Limits,
    Outcome,
    Program,
    Suspended,
    Usage,
)
from runtime.sandbox.starting import misfit, started
from runtime.sandbox.wire import Broke

NOBODY = "65534"
# CPython maps about this much before it reads the program.
OWN_ADDRESS_SPACE = 96 * 2**20
# /tmp is memory: what a program stores there, at most.
TMP_BYTES = 16 * 2**20
CPU_SECONDS_TO_START = 10

_ROOT = Path(__file__).resolve().parents[2]
_OURS = (
    "runtime/__init__.py",
    "runtime/sandbox/__init__.py",
    *(f"runtime/sandbox/inside/{name}.py" for name in ("__init__", "channel", "limits", "plain", "python_child")),
)
_TMP = "/tmp"  # noqa: S108 - no folder of this machine, but a name inside the walls
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
_START = (
    "import sys; sys.path += sys.argv[3:]; from runtime.sandbox.inside import python_child as c; c.main(*sys.argv[1:3])"
)

_KINDS = {
    "syntax": FailureKind.SYNTAX,
    "raised": FailureKind.RAISED,
    "refused": FailureKind.REFUSED,
    "crashed": FailureKind.CRASHED,
    "memory": FailureKind.OUT_OF_MEMORY,
    "recursion": FailureKind.RECURSION,
}


class FullSandbox:
    """Runs programs for one host in full mode. `path` is where bubblewrap is looked for, as in PATH."""

    def __init__(self, host: Host, clock: Clock, path: str | None = None) -> None:
        self._host = host
        self._clock = clock
        self._path = os.defpath if path is None else path

    async def run(self, program: Program) -> Outcome:
        """See port.Sandbox. What the program says about its own end (its result, its error) is only its word."""
        walls = _Walls.found(self._path)
        if refused := misfit(program, self._host):
            return refused
        limits, mark = program.limits, secrets.token_hex(16)
        with _readable(seccomp.denying()) as rules:
            command = functools.partial(walls.command, rules=rules, limits=limits)
            async with started(command, self._clock, _max_line(limits), (rules,)) as process:
                terms = Terms(self._host, limits, program.functions, _diagnose, _cannot_wait, 0.0, mark, suspends=False)
                carrying = Carrying(process, terms, self._clock, Output(limits.output_bytes), Usage())
                return await _carried(carrying, program, mark)

    async def resume(self, suspended: Suspended, answer: Answer) -> Outcome:
        """Always raises SnapshotRefusedError: full mode suspends nothing."""
        raise SnapshotRefusedError(f"full mode cannot carry on what {suspended.engine} suspended: use light mode")


async def _carried(carrying: Carrying, program: Program, mark: str) -> Outcome:
    """The outcome with all that was printed, which comes over a pipe of its own and may be later than the end."""
    output = carrying.output
    draining = asyncio.ensure_future(output.drain(carrying.child.text))
    try:
        outcome = await carrying.carry("start", mark=mark, **_order(program))
        await carrying.child.end()
        await draining
    finally:
        draining.cancel()
    if output.overflow.is_set() and isinstance(outcome, Finished):
        return carrying.flooded()
    return replace(outcome, printed=output.text)


def _max_line(limits: Limits) -> int:
    """A byte of a value is at most six in JSON, and an error's text is short."""
    return 8 * limits.output_bytes + 2**16


def _order(program: Program) -> dict[str, object]:
    return {
        "code": program.code,
        "inputs": dict(program.inputs),
        "functions": list(program.functions),
        "recursion_depth": program.limits.recursion_depth,
        "output_bytes": program.limits.output_bytes,
    }


async def _cannot_wait(_carrying: Carrying, call: HostCall) -> Raise:
    message = f"{call.name}() needs a person's approval, for which a program in full mode cannot wait: use light mode"
    return Raise("PermissionError", message)


def _diagnose(broke: Broke) -> FailureKind:
    return _KINDS[broke.how]


@contextlib.contextmanager
def _readable(data: bytes) -> Iterator[int]:
    """The number of an open file that gives `data`; less than a pipe holds."""
    reading, writing = os.pipe()
    try:
        os.write(writing, data)
        os.close(writing)
        yield reading
    finally:
        os.close(reading)


@dataclass(frozen=True, slots=True)
class _Walls:
    """Where bubblewrap and Python's own files are."""

    bwrap: str
    python: str
    files: tuple[str, ...]
    hidden: tuple[str, ...]
    """Folders inside those files that hold libraries of others."""

    @classmethod
    def found(cls, path: str) -> _Walls:
        """Raises SandboxUnavailableError when bubblewrap is not on `path`."""
        bwrap = shutil.which("bwrap", path=path)
        if bwrap is None:
            cure = "install bubblewrap (Debian: apt-get install bubblewrap) or use light mode"
            raise SandboxUnavailableError(f"full mode needs bwrap, which is not on {path!r}: {cure}; nothing was run")
        python, library = os.path.realpath(sys.executable), sysconfig.get_path("stdlib")
        shared = Path(sysconfig.get_config_var("LIBDIR") or "", sysconfig.get_config_var("INSTSONAME") or "")
        multiarch = sysconfig.get_config_var("MULTIARCH") or ""
        system = ("/lib64", "/usr/lib64", f"/lib/{multiarch}", f"/usr/lib/{multiarch}")
        files = [python, library, *([str(shared)] if shared.is_file() else []), *system]
        hidden = [f"{library}/{name}" for name in ("site-packages", "dist-packages")]
        return cls(bwrap, python, tuple(filter(os.path.exists, files)), tuple(filter(os.path.isdir, hidden)))

    def command(self, line: int, rules: int, limits: Limits) -> Sequence[str]:
        """What starts the runner. The new root is read only at the end, so /tmp is the only place to write to."""
        options = {
            "address_space": limits.memory_bytes + OWN_ADDRESS_SPACE,
            "cpu_seconds": CPU_SECONDS_TO_START + math.ceil(limits.seconds),
            "file_bytes": TMP_BYTES,
        }
        return [
            *(self.bwrap, "--unshare-all", "--unshare-user", "--die-with-parent", "--cap-drop", "ALL", "--clearenv"),
            *("--uid", NOBODY, "--gid", NOBODY, "--hostname", "sandbox", "--seccomp", str(rules)),
            *(part for file in self.files for part in ("--ro-bind", file, file)),
            *(part for folder in self.hidden for part in ("--tmpfs", folder, "--remount-ro", folder)),
            *(part for file in _OURS for part in ("--ro-bind", str(_ROOT / file), f"/ours/{file}")),
            *(part for device in _DEVICES for part in ("--dev-bind", device, device)),
            *("--size", str(TMP_BYTES), "--tmpfs", _TMP, "--remount-ro", "/", "--chdir", _TMP),
            *("--", self.python, "-I", "-S", "-c", _START, str(line), json.dumps(options), "/ours"),
        ]
