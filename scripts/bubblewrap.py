"""Install bubblewrap on Debian and its relatives when it is missing: with it the tests try the sandbox's full mode."""

from __future__ import annotations

import shutil

from scripts.chromium import RULE, install
from scripts.programs import say

PACKAGES = ("bubblewrap",)


def ensure_bubblewrap(*, turn: int | None = None) -> None:
    """Install bubblewrap if it is missing. Nobody requires it: many machines would not let it build its walls."""
    if shutil.which("bwrap"):
        return
    reason = install(turn, PACKAGES, "bubblewrap for the tests of the sandbox")
    if not shutil.which("bwrap"):
        say(f"{RULE}\nNO BUBBLEWRAP: {reason}\nThe tests of the sandbox's full mode will be SKIPPED.\n{RULE}")
