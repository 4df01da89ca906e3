"""The worker as a child process of the web process (`--with-worker`): started, watched, restarted, ended.

The child reads a pipe that only this process holds open: when this process dies, however it dies, the pipe closes and
the child ends by itself. A child that dies is started again, after a wait that grows while it keeps dying.
"""

from __future__ import annotations

import logging
import subprocess
import threading
from collections.abc import Sequence
from typing import Final

_LOG = logging.getLogger(__name__)

_FIRST_WAIT_S: Final = 0.2
_LONGEST_WAIT_S: Final = 10.0
_LIVED_LONG_S: Final = 30.0
#: how long the child may take to finish its running steps
_END_PATIENCE_S: Final = 30.0
#: the child's exit code for settings it cannot work with: starting it again would not help
_BAD_SETTINGS: Final = 2


class ChildProcess:
    """Keeps one command running until `stop`."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper = threading.Thread(target=self._keep, name="worker keeper", daemon=True)

    def start(self) -> None:
        """Start the command; returns at once."""
        self._keeper.start()

    def stop(self) -> None:
        """End the command and wait until it has ended; it is killed when it takes too long."""
        self._stopping.set()
        process = self._process
        if process is not None:
            process.terminate()
            try:
                process.wait(_END_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
        if self._keeper.is_alive():
            self._keeper.join(_END_PATIENCE_S)

    def _keep(self) -> None:
        wait_s = _FIRST_WAIT_S
        while not self._stopping.is_set():
            code, quick = self._run_once()
            if self._stopping.is_set() or code == _BAD_SETTINGS:
                return
            wait_s = min(wait_s * 2, _LONGEST_WAIT_S) if quick else _FIRST_WAIT_S
            _LOG.warning("the worker ended with code %s; it is started again in %.1f s", code, wait_s)
            self._stopping.wait(wait_s)

    def _run_once(self) -> tuple[int, bool]:
        """Run the command to its end; returns its exit code and whether it lived only shortly."""
        with subprocess.Popen(self._command, stdin=subprocess.PIPE, start_new_session=True) as process:
            self._process = process
            if self._stopping.is_set():
                process.terminate()
            try:
                process.wait(_LIVED_LONG_S)
                quick = True
            except subprocess.TimeoutExpired:
                quick = False
            return process.wait(), quick
