"""Find the Chromium that the browser tests drive and, on Debian and its relatives, install it when it is missing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from scripts.programs import SetupError, output, say, start

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MAC_APPS = (
    Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"),
    Path("/Applications/Chromium.app/Contents/MacOS/Chromium"),
)
PACKAGES = ("chromium", "fonts-liberation")
RULE = "!" * 100


def find_chromium() -> Path | None:
    """The browser's program, or None."""
    for name in NAMES:
        found = shutil.which(name)
        if found:
            return Path(found)
    return next((app for app in MAC_APPS if app.exists()), None)


def ensure_chromium(*, required: bool, turn: int | None = None) -> None:
    """Install Chromium if it is missing. Without it fail where it is required, else warn loudly and go on."""
    if find_chromium():
        return
    reason = install(turn, PACKAGES, "Chromium for the browser tests")
    if find_chromium():
        return
    message = f"{RULE}\nNO CHROMIUM: {reason}\n"
    if required:
        raise SetupError(f"{message}With CI=true the browser tests have to run.\n{RULE}")
    say(f"{message}Every browser test will be SKIPPED. Install Chromium or Google Chrome to run them.\n{RULE}")


def install(turn: int | None, packages: Sequence[str], what: str) -> str:
    """Try the system's package manager; why it may still be missing afterwards."""
    if not shutil.which("apt-get"):
        return "it is not installed, and without apt-get it cannot be installed from here."
    prefix = root_prefix()
    if prefix is None:
        return f"it is not installed. As root: apt-get install {' '.join(packages)}"
    say(f"Installing {what} with apt-get ...")
    get = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-o", "DPkg::Lock::Timeout=300"]
    for step in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        if start([*get, *step], turn=turn) != 0:
            return f"'apt-get {step[0]}' failed; its own words are above."
    return "apt-get installed it, but under no name that is known here."


def root_prefix() -> list[str] | None:
    """What to put before a command so that root runs it; None if that takes a password."""
    if os.geteuid() == 0:
        return []
    if output(["sudo", "-n", "true"]) is not None:
        return ["sudo", "-n"]
    return None
