"""Find the Redis server that some tests start and, on Debian and its relatives, install it when it is missing.

Debian keeps the program in `redis-tools`, under the name of a tool that is a server when it is called as one; the
package `redis-server` only adds the name and a service that would run all the time, which nobody asked for.
"""

from __future__ import annotations

import shutil

from scripts.chromium import RULE, install
from scripts.programs import SetupError, say

NAMES = ("redis-server", "redis-check-rdb")


def find_redis() -> str | None:
    """The server's program, to be called with `redis-server` as its own name; None if there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def ensure_redis(*, required: bool, turn: int | None = None) -> None:
    """Install Redis if it is missing. Without it fail where it is required, else warn loudly and go on."""
    if find_redis():
        return
    reason = install(turn, ["redis-tools"], "Redis for the tests")
    if find_redis():
        return
    if required:
        raise SetupError(f"{RULE}\nNO REDIS: {reason}\nWith CI=true the tests with Redis have to run.\n{RULE}")
    say(f"{RULE}\nNO REDIS: {reason}\nThe tests with Redis will be SKIPPED.\n{RULE}")
