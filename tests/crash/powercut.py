"""What a power cut leaves behind, rebuilt from a log of system calls: a folder as it was synced, or as it was written.

A process runs under strace. Every call that gives a file its name, takes it away or syncs something is an event, and so
is every line that the process reports. From the folder before and after and the events up to a cut the folder is built
as a disk may hold it then. Lance's files never change once they have their name, so their bytes are those at the end.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

CALLS = "openat,rename,renameat,renameat2,link,linkat,unlink,unlinkat,mkdir,fsync,fdatasync,write"
_STARTED = re.compile(r"^(\d+) +(.*?) <unfinished \.\.\.>$")
_RESUMED = re.compile(r"^(\d+) +<\.\.\. \w+ resumed>(.*)$")
_WHOLE = re.compile(r"^(\d+) +(\w+)\((.*)\) += (-?\d+)")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_DESCRIPTOR = re.compile(r"^\d+<(.*?)>")


class Kind(StrEnum):
    """What happened to a path."""

    NAMED = "named"
    UNNAMED = "unnamed"
    SYNCED = "synced"
    TOLD = "told"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened; `fact` is what was reported."""

    kind: Kind
    path: Path
    fact: dict[str, Any] = field(default_factory=dict)


class Survives(StrEnum):
    """What the disk keeps of what was written."""

    ALL = "all that was written"
    SYNCED = "only what was synced"


def strace(log: Path) -> list[str]:
    """The command that starts a program with its calls logged; without strace the test is skipped, in CI it fails."""
    if shutil.which("strace") is None:
        reason = "NO STRACE: what is synced before an answer cannot be seen; on Debian: apt-get install strace"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return ["strace", "-f", "-y", "-s", "4096", "-e", f"trace={CALLS}", "-o", str(log)]


def events_in(log: Path, folder: Path) -> list[Event]:
    """What happened in `folder`, in order: a call counts when it has ended, a report when it began."""
    found = []
    for name, arguments in _calls(log):
        found += [
            event for event in _events(name, arguments) if event.kind is Kind.TOLD or folder in event.path.parents
        ]
    return found


def _calls(log: Path) -> Iterator[tuple[str, str]]:
    begun: dict[str, str] = {}
    for line in log.read_text(errors="replace").splitlines():
        if started := _STARTED.match(line):
            begun[started[1]] = line.removesuffix(" <unfinished ...>")
            continue
        if resumed := _RESUMED.match(line):
            line = begun.pop(resumed[1], "") + resumed[2]
        if (whole := _WHOLE.match(line)) and int(whole[4]) >= 0:
            yield whole[2], whole[3]


def _events(name: str, arguments: str) -> Iterator[Event]:
    paths = [Path(found) for found in _QUOTED.findall(arguments)]
    match name:
        case "rename" | "renameat" | "renameat2":
            yield Event(Kind.UNNAMED, paths[0])
            yield Event(Kind.NAMED, paths[1])
        case "link" | "linkat":
            yield Event(Kind.NAMED, paths[1])
        case "mkdir":
            yield Event(Kind.NAMED, paths[0])
        case "openat" if "O_CREAT" in arguments:
            yield Event(Kind.NAMED, paths[0])
        case "unlink" | "unlinkat":
            yield Event(Kind.UNNAMED, paths[0])
        case "fsync" | "fdatasync" if found := _DESCRIPTOR.match(arguments):
            yield Event(Kind.SYNCED, Path(found[1]))
        case "write" if arguments.startswith("1<") and (text := _QUOTED.search(arguments)):
            line = text[1].encode().decode("unicode_escape").strip()
            if line.startswith("{"):
                yield Event(Kind.TOLD, Path("/"), json.loads(line))


def rebuild(events: Sequence[Event], survives: Survives, before: Path, after: Path, folder: Path, target: Path) -> None:
    """Make `target` what a disk holds of `folder` after `events`; `before` and `after` are copies of it."""
    shutil.copytree(before, target)
    names: dict[Path, bool] = {}  # whether a name that was gained is there
    synced: set[Path] = set()
    on_disk: dict[Path, bool] = {}
    for event in events:
        match event.kind:
            case Kind.NAMED:
                names[event.path] = True
                synced.discard(event.path)
            case Kind.UNNAMED:
                names[event.path] = False
            case Kind.SYNCED:
                synced.add(event.path)
                on_disk |= {path: there for path, there in names.items() if path.parent == event.path}
            case Kind.TOLD:
                pass
    kept = names if survives is Survives.ALL else on_disk
    for path, there in sorted(kept.items()):
        inside = path.relative_to(folder)
        if inside.parts[0] in ("synced", "locks"):  # changed in place: the note may be as old as before
            continue
        _put(target / inside, after / inside, there=there, whole=survives is Survives.ALL or path in synced)


def _put(place: Path, source: Path, *, there: bool, whole: bool) -> None:
    if not there:
        place.unlink(missing_ok=True)
    elif source.is_dir():
        place.mkdir(parents=True, exist_ok=True)
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(source.read_bytes() if whole and source.exists() else b"")
