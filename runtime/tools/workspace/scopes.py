"""The two scopes of files: private to a session, shared in a project, as folders of one folder of the operator's."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from string import ascii_lowercase, digits

from runtime.tools.workspace.errors import PathRefusedError
from runtime.tools.workspace.port import Limits
from runtime.tools.workspace.workspace import Workspace

_KEPT = frozenset(ascii_lowercase + digits + "-")
LONGEST = 120


@dataclass(frozen=True, slots=True)
class Workspaces:
    """Hands out workspaces below `folder`, which exists. Two different ids never share one."""

    folder: Path
    limits: Limits = field(default_factory=Limits)

    def private(self, session_id: str) -> Workspace:
        """The files that only one session sees."""
        return Workspace(self.folder, inside=("private", folder_name(session_id)), limits=self.limits)

    def shared(self, project_id: str) -> Workspace:
        """The files that all sessions of a project see."""
        return Workspace(self.folder, inside=("shared", folder_name(project_id)), limits=self.limits)


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
    return f"i-{name}" if len(name) <= LONGEST else f"h-{hashlib.sha256(data).hexdigest()}"
