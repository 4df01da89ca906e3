"""What a workspace answers when it does not do what was asked.

Every message names the path as it was given, what is wrong with it, and the cure. None of them names a path of the
host: they are shown to models and stored.
"""

from __future__ import annotations

SHOWN = 120


class WorkspaceError(Exception):
    """The base of every error of this folder. Nothing was changed unless the subclass says otherwise."""


class PathRefusedError(WorkspaceError):
    """The path is not one that every disk reads in the same way, or it tries to leave the workspace."""


class NotThereError(WorkspaceError):
    """There is nothing at the path, or a folder on the way to it is missing."""


class WrongKindError(WorkspaceError):
    """What is at the path, or on the way to it, is not what the operation works on: a link, a device, a folder."""


class AlreadyThereError(WorkspaceError):
    """Something is at the path and may not be replaced."""


class TooMuchError(WorkspaceError):
    """The operation would go beyond one of the workspace's limits, or the disk is full."""


class NotTextError(WorkspaceError):
    """The bytes of the file, or the characters given for it, are not UTF-8 text."""


class EditError(WorkspaceError):
    """An edit does not fit the file; the file is as it was."""


class DiskError(WorkspaceError):
    """The disk failed. A file is whole in its old or its new content; a folder may be partly removed from the disk."""


def shown(text: str) -> str:
    """A piece of what was given, quoted, safe to print and not endless."""
    cut = text if len(text) <= SHOWN else text[:SHOWN] + "…"
    return ascii(cut) if any(not character.isprintable() for character in cut) else repr(cut)
