"""The two scopes of files: private to a session, shared in a project, as folders of one folder of the operator's."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from string import ascii_lowercase, digits

from runtime.tools.workspace.errors import PathRefusedError
from runtime.tools.workspace.port import Limits
from runtime.tools.workspace.workspace import Workspace

_KEPT = frozenset(ascii_lowercase + digits + "-")
LONGEST = 120
_WRITTEN, _HASHED = "i-", "h-"


class Scope(StrEnum):
    """Who sees a workspace; also the name of the folder that all of a scope are in."""

    PRIVATE = "private"  # one session
    SHARED = "shared"  # all sessions of a project


@dataclass(frozen=True, slots=True)
class Workspaces:
    """Hands out workspaces below `folder`, which exists. Two different ids never share one."""

    folder: Path
    limits: Limits = field(default_factory=Limits)

    def private(self, session_id: str) -> Workspace:
        """The files that only one session sees."""
        return Workspace(self.folder, inside=(Scope.PRIVATE, folder_name(session_id)), limits=self.limits)

    def shared(self, project_id: str) -> Workspace:
        """The files that all sessions of a project see."""
        return Workspace(self.folder, inside=(Scope.SHARED, folder_name(project_id)), limits=self.limits)


def folder_name(id_: str) -> str:
    """A name for any id: small letters, digits, "-" and "_" only, different for different ids on every disk.

    What is no small letter, digit or "-" is written as "_" and its bytes in hexadecimal, so the id can be read back:
    that makes it one to one also where "A" and "a" are one name. Too long a one is named by its SHA-256.
    Raises `PathRefusedError` for the empty id.
    """
    if not id_:
        raise PathRefusedError("the id of a workspace is empty: give the session's or the project's id")
    data = id_.encode("utf-8", "surrogatepass")
    name = "".join(chr(byte) if chr(byte) in _KEPT else f"_{byte:02x}" for byte in data)
    return f"{_WRITTEN}{name}" if len(name) <= LONGEST else f"{_HASHED}{hashlib.sha256(data).hexdigest()}"


def id_of(name: str) -> str | None:
    """The id that `folder_name` made a name of; None for a hashed one and for what is no such name."""
    if not name.startswith(_WRITTEN):
        return None
    first, *rest = name.removeprefix(_WRITTEN).split("_")
    try:
        found = first + "".join(f"{chr(int(part[:2], 16))}{part[2:]}" for part in rest)
        id_ = found.encode("latin-1").decode("utf-8", "surrogatepass")
        return id_ if id_ and folder_name(id_) == name else None
    except ValueError:  # not made here
        return None


def is_hashed(name: str) -> bool:
    """Whether a name stands for an id that is too long to be written in it."""
    return name.startswith(_HASHED)
