"""What can go wrong around a sandbox. What goes wrong in a program is no error but an outcome (port.Failed)."""

from __future__ import annotations

from runtime.errors import RuntimeFaultError


class SandboxError(RuntimeFaultError):
    """The base of every error this folder raises on purpose."""


class SandboxUnavailableError(SandboxError):
    """This machine cannot wall a program in. Nothing was run, and nothing is ever run without the wall instead."""


class SandboxMisuseError(SandboxError, ValueError):
    """Whoever uses the sandbox asked for what makes no sense; the message names it."""


class SnapshotRefusedError(SandboxError):
    """A suspended program is not carried on: it was changed, belongs elsewhere, or the answer is for another call."""


class HostFunctionError(SandboxError):
    """A host function tells the program that it failed: the message is raised inside the program.

    The program sees a `RuntimeError`, or a `PermissionError` where the call was `forbidden`. Any other error of a host
    function is a fault of ours: it ends the run and reaches whoever asked for it, and the program learns nothing of it.
    """

    def __init__(self, message: str, *, forbidden: bool = False) -> None:
        super().__init__(message)
        self.forbidden = forbidden


class HostWaitsError(SandboxError):
    """A host function waits for somebody: its program is suspended at the call, and makes it again when resumed.

    Where programs cannot be suspended it ends the run and reaches whoever asked for it.
    """
