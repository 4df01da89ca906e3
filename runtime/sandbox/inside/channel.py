"""The inner end of the line between a worker and the process that runs a program: JSON, one message a line."""

from __future__ import annotations

import json
import socket
from typing import Any


class Channel:
    """Messages over the socket that this process inherited under a number. `mark` is written on each one said."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        # A program that is run in this process gets no copy of the line by starting another program.
        self._socket.set_inheritable(False)
        self._lines = self._socket.makefile("rb")
        self._mark: dict[str, Any] = {}

    def mark(self, word: str) -> None:
        """Put `word` on every message from now on: it proves that the message comes from this object."""
        self._mark = {"mark": word}

    def say(self, say: str, **fields: Any) -> None:
        self._socket.sendall(json.dumps({"say": say, **fields, **self._mark}).encode() + b"\n")

    def hear(self) -> dict[str, Any]:
        """The next message. Raises EOFError when the worker is gone."""
        line = self._lines.readline()
        if not line:
            raise EOFError("the worker is gone")
        heard: dict[str, Any] = json.loads(line)
        return heard
