"""The tools of the checkout: pins, set-up, make, the checks of the docs, and the checks that people run."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from scripts import check_docs, chromium, setup
from scripts.programs import SetupError, output, start
from scripts.setup import Checkout

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("requirements-otel", "requirements-pii")
PINS = ("requirements", "requirements-dev", "requirements-node", "requirements-s3", "requirements-peers", *EXTRAS)
FLOORS = {"python-engineio": (4, 13, 2), "python-socketio": (5, 16, 2), "eventlet": (0, 40, 3)}


def pinned(name: str) -> dict[str, str]:
    """The versions in a file of pins; a library that differs by Python version keeps the last one."""
    lines = (ROOT / f"{name}.txt").read_text().splitlines()
    return dict(line.split(" ")[0].split("==") for line in lines if line and not line.startswith(("#", " ")))


# --- pins ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PINS)
def test_every_pin_is_exact_and_hashed(name: str) -> None:
    text = (ROOT / f"{name}.txt").read_text()
    blocks = [block.replace("\\\n", " ") for block in re.findall(r"^\S.*(?:\n +.*)*", text, re.MULTILINE)]
    assert blocks
    assert [block for block in blocks if not re.match(r"[\w.-]+==[^ ]+ .*--hash=sha256:[0-9a-f]{64}", block)] == []


@pytest.mark.parametrize("name", PINS)
def test_every_wish_is_pinned(name: str) -> None:
    wishes = re.findall(r"^[a-z][\w-]*", (ROOT / f"{name}.in").read_text(), re.MULTILINE)
    assert sorted(set(wishes) - pinned(name).keys()) == []


@pytest.mark.parametrize("name", ["requirements-dev", *EXTRAS])
def test_pins_beside_the_product_do_not_move_it(name: str) -> None:
    product, others = pinned("requirements"), pinned(name)
    assert {name: others[name] for name in product.keys() & others.keys() if others[name] != product[name]} == {}


def test_the_extra_is_tested_in_the_versions_that_people_install() -> None:
    extra, tests = pinned("requirements-otel"), pinned("requirements-dev")
    assert {name: version for name, version in extra.items() if tests[name] != version} == {}


@pytest.mark.parametrize("name", EXTRAS)
def test_the_docs_say_how_to_install_an_extra(name: str) -> None:
    command = f".venv/bin/pip install --require-hashes -r {name}.txt"
    told = [page.name for page in (ROOT / "docs").glob("*.md") if command in page.read_text()]
    assert told


def test_make_pins_knows_every_file_of_wishes() -> None:
    said = re.search(r"for name in (.*?); do", (ROOT / "Makefile").read_text(), re.DOTALL)
    assert said is not None
    assert sorted(said[1].replace("\\", " ").split()) == sorted(file.stem for file in ROOT.glob("requirements*.in"))


@pytest.mark.parametrize("name", FLOORS)
def test_no_version_with_a_known_advisory(name: str) -> None:
    assert tuple(map(int, pinned("requirements")[name].split("."))) >= FLOORS[name]


def test_no_pin_names_an_address() -> None:
    files = [*ROOT.glob("requirements*"), ROOT / "package.json", ROOT / "package-lock.json"]
    assert [file.name for file in files if "://" in file.read_text() or '"resolved"' in file.read_text()] == []


def test_browser_libraries_are_pinned() -> None:
    wanted = json.loads((ROOT / "package.json").read_text())
    versions = [*wanted["dependencies"].values(), *wanted["devDependencies"].values()]
    locked = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    assert [version for version in versions if not re.fullmatch(r"\d+\.\d+\.\d+", version)] == []
    assert [name for name, package in locked.items() if name and "integrity" not in package] == []


# --- set-up ----------------------------------------------------------------------------------------------------------


class Programs:
    """Stands in for the programs that set-up starts: notes them, makes what they would make, ends as told."""

    def __init__(self, checkout: Checkout) -> None:
        self._checkout = checkout
        self.started: list[str] = []
        self.ends_with = {"venv": 0, "pip": 0, "npm": 0}

    def start(self, command: Sequence[str | Path], *, turn: int | None = None) -> int:
        words = [str(word) for word in command]
        kind = "npm" if "ci" in words else words[2]
        self.started.append("venv --clear" if "--clear" in words else f"{kind} {Path(words[-1]).name}")
        if self.ends_with[kind] == 0:
            self._make(kind, Path(words[-1]))
        return self.ends_with[kind]

    def output(self, command: Sequence[str | Path]) -> str | None:
        words = [str(word) for word in command]
        if words[-1] == "--version":
            return "10.2.0"
        return str(sys.version_info[:2]) if self._checkout.python.exists() else None

    def _make(self, kind: str, folder: Path) -> None:
        if kind == "venv":
            shutil.rmtree(folder, ignore_errors=True)
            (folder / "bin").mkdir(parents=True)
            for name in ("python", "moto_server"):
                (folder / "bin" / name).touch()
        if kind == "npm":
            for library in setup.BROWSER_LIBRARIES:
                (self._checkout.modules / library).parent.mkdir(parents=True, exist_ok=True)
                (self._checkout.modules / library).write_text("library")


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    for file in [*ROOT.glob("requirements*.txt"), ROOT / "package.json", ROOT / "package-lock.json"]:
        shutil.copy(file, tmp_path)
    return Checkout(tmp_path)


@pytest.fixture
def programs(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> Programs:
    stand_in = Programs(checkout)
    monkeypatch.setattr(setup, "start", stand_in.start)
    monkeypatch.setattr(setup, "output", stand_in.output)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    return stand_in


def test_a_second_set_up_starts_nothing(checkout: Checkout, programs: Programs) -> None:
    setup.set_up(checkout, "run")
    assert programs.started == ["venv --clear", "pip requirements.txt", f"npm {checkout.root.name}"]
    programs.started.clear()
    setup.set_up(checkout, "run")
    assert programs.started == []
    assert (checkout.root / "web/static/vendor/socket.io.esm.min.js").read_text() == "library"


def test_set_up_for_tests_covers_running(checkout: Checkout, programs: Programs) -> None:
    setup.set_up(checkout, "test")
    programs.started.clear()
    setup.set_up(checkout, "run")
    assert programs.started == []


@pytest.mark.parametrize("libraries", [setup.OBJECT_STORE, setup.PRESIDIO])
def test_what_only_a_test_needs_is_installed_once_and_apart(
    checkout: Checkout, programs: Programs, libraries: setup.Apart
) -> None:
    pins = f"pip requirements-{libraries.name}.txt"
    setup.set_up(checkout, "test")
    assert pins in programs.started
    programs.started.clear()
    (checkout.apart(libraries) / ".installed").unlink()
    setup.set_up(checkout, "test")
    assert programs.started == ["venv --clear", pins]
    programs.started.clear()
    setup.set_up(checkout, "test")
    assert programs.started == []


def test_the_peers_have_an_environment_of_their_own(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    apart = Checkout(checkout.root, ".venv-peers")
    stand_in = Programs(apart)
    monkeypatch.setattr(setup, "start", stand_in.start)
    monkeypatch.setattr(setup, "output", stand_in.output)
    setup.set_up(apart, setup.PEERS)
    assert stand_in.started == ["venv --clear", "pip requirements-peers.txt"]
    assert not checkout.venv.exists()
    stand_in.started.clear()
    setup.set_up(apart, setup.PEERS)
    assert stand_in.started == []


def test_changed_pins_are_installed(checkout: Checkout, programs: Programs) -> None:
    setup.set_up(checkout, "run")
    programs.started.clear()
    (checkout.root / "requirements.txt").write_text("other==1 --hash=sha256:00")
    setup.set_up(checkout, "run")
    assert programs.started == ["pip requirements.txt"]


def test_a_killed_pip_makes_the_next_run_begin_anew(checkout: Checkout, programs: Programs) -> None:
    programs.ends_with["pip"] = -signal.SIGKILL
    with pytest.raises(SetupError, match="run the same command again"):
        setup.set_up(checkout, "run")
    assert checkout.half_done.exists()
    programs.ends_with["pip"] = 0
    programs.started.clear()
    setup.set_up(checkout, "run")
    assert programs.started[:2] == ["venv --clear", "pip requirements.txt"]
    assert not checkout.half_done.exists()


def test_a_failed_pip_is_tried_again_in_the_same_folder(checkout: Checkout, programs: Programs) -> None:
    programs.ends_with["pip"] = 1
    with pytest.raises(SetupError, match="run the same command again"):
        setup.set_up(checkout, "run")
    programs.ends_with["pip"] = 0
    programs.started.clear()
    setup.set_up(checkout, "run")
    assert programs.started[0] == "pip requirements.txt"


def test_without_npm_node_comes_as_a_wheel(
    checkout: Checkout, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    setup.set_up(checkout, "run")
    assert "pip requirements-node.txt" in programs.started


def test_an_old_python_is_refused(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 4, "final", 0))
    with pytest.raises(SetupError, match=r"needs Python 3\.11 or newer; .* is 3\.10"):
        setup.check_python()


def test_a_python_without_venv_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "find_spec", lambda name: None)
    with pytest.raises(SetupError, match=r"apt-get install python3\.\d+-venv"):
        setup.check_python()


@pytest.mark.parametrize("arguments", [[], ["fly"], ["run", "test"]])
def test_an_unknown_mode_shows_the_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert setup.main(arguments) == 2
    assert "usage: python3 -m scripts.setup {run|test|peers}" in capsys.readouterr().err


def test_a_missing_browser_stops_ci_and_only_warns_a_person(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(chromium, "NAMES", ())
    monkeypatch.setattr(chromium, "MAC_APPS", ())
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(SetupError, match="NO CHROMIUM"):
        chromium.ensure_chromium(required=True)
    chromium.ensure_chromium(required=False)
    assert "Every browser test will be SKIPPED" in capsys.readouterr().err


def test_apt_that_fails_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(chromium, "NAMES", ())
    monkeypatch.setattr(chromium, "MAC_APPS", ())
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(chromium, "start", lambda command, turn=None: 100)
    monkeypatch.setattr(chromium, "root_prefix", list)
    chromium.ensure_chromium(required=False)
    assert "'apt-get update' failed" in capsys.readouterr().err


def test_programs_tell_how_they_ended() -> None:
    assert start([sys.executable, "-c", "raise SystemExit(3)"]) == 3
    assert output([sys.executable, "-c", "print('words')"]) == "words"
    assert output([sys.executable, "-c", "raise SystemExit(1)"]) is None
    assert output(["/nowhere/python"]) is None


# --- make ------------------------------------------------------------------------------------------------------------


def test_make_alone_lists_every_target() -> None:
    targets = re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    listed = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [target for target in targets if f"make {target} " not in listed] == []


#: what a running `make test` hands to the make inside of it
MAKES_OWN = {"MAKEFLAGS", "MAKELEVEL", "MFLAGS"}


@pytest.mark.process
def test_ctrl_c_ends_make_run_without_an_error(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "app.py").write_text(
        "import signal, sys, time\nprint('ready', sys.argv[1:], flush=True)\n"
        "signal.sigwait({signal.SIGINT})\ntime.sleep(0.5)\nprint('stopped', flush=True)\n"
    )
    # Like the real one, the stand-in takes a moment to close: make complains of a child that is gone before it looks.
    # The stand-in blocks the signal before it says that it is ready, as sigwait asks for.
    program = f"{sys.executable} -c 'import signal; signal.pthread_sigmask(0, [2]); exec(open(\"app.py\").read())'"
    with subprocess.Popen(
        ["make", "run", "SETUP=:", f"PY={program}", "ARGS=--port 0"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name not in MAKES_OWN},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as make:
        assert make.stdout is not None
        ready = make.stdout.readline()
        os.killpg(make.pid, signal.SIGINT)
        said, complaints = make.communicate(timeout=20)
    assert ready.startswith("ready ")
    assert "'--with-worker', '--port', '0'" in ready
    assert (said, complaints) == ("stopped\n", "")


def test_ci_runs_what_people_run() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    lines = [line for line in script.read_text().splitlines() if line and not line.startswith("#")]
    assert lines == ["set -euo pipefail", 'cd "$(dirname "${BASH_SOURCE[0]}")/.."', "exec make test"]


def test_browser_tests_share_one_worker(tmp_path: Path) -> None:
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_example.py").write_text(
        "import pytest\n@pytest.mark.browser\n@pytest.mark.parametrize('n', range(6))\ndef test_page(n): ...\n"
    )
    command = [sys.executable, "-m", "pytest", "-v", "-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    workers = re.findall(r"^\[(gw\d)\].*test_page\[\d\]@browser", done.stdout, re.MULTILINE)
    assert len(workers) == 6
    assert len(set(workers)) == 1


def _without_leftovers(script: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scripts.no_leftovers", "sh", "-c", script]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux hands orphans over")
def test_what_a_run_leaves_behind_is_named_and_ended() -> None:
    done = _without_leftovers("(sleep 1000 & echo $!; trap '' TERM; exec sleep 2000) & sleep 0.2; exit 3")
    assert done.returncode == 3
    assert "SIGTERM" in done.stderr
    assert "sleep 2000" in done.stderr
    assert not Path(f"/proc/{done.stdout.strip()}").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux hands orphans over")
def test_an_orphan_that_ends_is_gone_while_the_run_goes_on() -> None:
    waits = "while kill -0 $orphan 2>/dev/null; do sleep 0.05; done"
    done = _without_leftovers(f"orphan=$(sh -c 'sleep 0.3 >/dev/null & echo $!'); {waits}; echo gone")
    assert (done.returncode, done.stdout, done.stderr) == (0, "gone\n", "")


@pytest.mark.parametrize(("script", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)])
def test_a_run_that_leaves_nothing_ends_with_its_own_status(script: str, status: int) -> None:
    done = _without_leftovers(script)
    assert (done.returncode, done.stderr) == (status, "")


# --- docs ------------------------------------------------------------------------------------------------------------


def test_the_docs_are_in_order() -> None:
    faults = [*check_docs.broken_links(ROOT), *check_docs.setting_faults(ROOT)]
    assert not faults, "\n" + "\n".join(faults)


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "there.md").write_text("# A heading: with `signs`!\n")
    (tmp_path / "README.md").write_text(
        "[good](docs/there.md) [web](https://example.org/x) [own](#title)\n# Title\n"
        "[good](docs/there.md#a-heading-with-signs)\n`[code](nowhere.md)`\n```\n[code](nowhere.md)\n```\n"
        "[bad](docs/gone.md)\n[bad](docs/there.md#gone)\n"
    )
    assert [fault.split(": the link to ")[0] for fault in check_docs.broken_links(tmp_path)] == [
        "README.md:8",
        "README.md:9",
    ]


def test_settings_that_only_one_side_knows_are_found(tmp_path: Path) -> None:
    for folder in ("store", "docs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "store" / "a.py").write_text(
        'X = "STEPWELL_KNOWN STEPWELL_SECRET STEPWELL_*"\n'
        'class Settings:\n    model_config = Config(env_prefix="STEPWELL_")\n    port: int = 1\n'
        '    alias: int = Field(1, validation_alias="OTHER")\n'
    )
    (tmp_path / "docs" / "settings.md").write_text("STEPWELL_KNOWN, STEPWELL_PORT, STEPWELL_GONE; all STEPWELL_* names")
    assert list(check_docs.setting_faults(tmp_path)) == [
        "store/a.py: STEPWELL_SECRET is not described: add it to docs/settings.md",
        "docs/settings.md: STEPWELL_GONE is not a setting of the code: remove it or correct its name",
    ]


# --- the checks of `make check` --------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["check", "--quiet", "--output-format=concise"], ["format", "--check"]])
def test_style(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", "ruff", *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_types() -> None:
    done = subprocess.run([sys.executable, "-m", "mypy"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
