"""Install strace on Debian and its relatives when it is missing: with it the tests see what is synced to the disk."""

from __future__ import annotations

import shutil

from scripts.chromium import RULE, install
from scripts.programs import SetupError, say

PACKAGES = ("strace",)


def ensure_strace(*, required: bool, turn: int | None = None) -> None:
    """Install strace if it is missing. Without it fail where it is required, else warn loudly and go on."""
    if shutil.which("strace"):
        return
    reason = install(turn, PACKAGES, "strace for the tests of power cuts")
    if shutil.which("strace"):
        return
    message = f"{RULE}\nNO STRACE: {reason}\n"
    if required:
        raise SetupError(f"{message}With CI=true the tests of power cuts have to run.\n{RULE}")
    say(f"{message}The tests of power cuts will be SKIPPED.\n{RULE}")
