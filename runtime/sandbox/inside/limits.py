"""What a process around a program forbids itself, before it reads the program. Children inherit all of it."""

from __future__ import annotations

import resource

OPEN_FILES = 32


def forbid(address_space: int, cpu_seconds: int, file_bytes: int) -> None:
    """Bound this process: its memory, its time on the processor, the size of a file it writes, its open files."""
    for what, most in (
        (resource.RLIMIT_AS, address_space),
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (most, most))
