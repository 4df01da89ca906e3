"""Presidio: what it finds is added to the built-in rule, in a thread that can be stopped. Once with the library."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

import pytest

from runtime.guard.errors import MissingExtra
from runtime.guard.presidio import Presidio, load_presidio
from tests.support import eventually

ROOT = Path(__file__).resolve().parents[3]
PRESIDIO = ROOT / ".setup" / "pii"


@dataclass
class Result:
    """A result in Presidio's shape."""

    start: int
    end: int
    entity_type: str


@dataclass
class Names:
    """An analyzer that knows one name, and the pieces it was given."""

    pieces: list[str] = field(default_factory=list)

    def analyze(self, text: str, language: str, score_threshold: float) -> list[Result]:
        self.pieces.append(text)
        at = text.find("Jane Doe")
        return [Result(at, at + 8, "PERSON_NAME")] if at >= 0 else []


async def found(text: str) -> list[tuple[str, str]]:
    return [(one.label, text[one.start : one.end]) for one in await Presidio(Names()).find(text)]


async def test_what_presidio_finds_is_added_to_the_built_in_rule() -> None:
    assert await found("Jane Doe, jane@example.com") == [("person name", "Jane Doe"), ("email", "jane@example.com")]


async def test_a_mark_is_no_name() -> None:
    assert await Presidio(Marks()).find("⟦redacted name⟧") == []


class Marks:
    """An analyzer that takes everything for a name."""

    def analyze(self, text: str, language: str, score_threshold: float) -> list[Result]:
        return [Result(0, len(text), "PERSON")]


@pytest.mark.parametrize("at", range(3990, 4005))
async def test_nothing_is_lost_where_a_long_text_is_cut_into_pieces(at: int) -> None:
    analyzer = Names()
    text = " " * at + "Jane Doe" + " " * 9000
    (only,) = await Presidio(analyzer).find(text)
    assert (only.start, only.end) == (at, at + 8)
    assert max(map(len, analyzer.pieces)) < 5000


class Waiting:
    """An analyzer that says when it began and works until it may end."""

    def __init__(self) -> None:
        self.began, self.may_end = Event(), Event()
        self.calls = 0

    def analyze(self, text: str, language: str, score_threshold: float) -> list[Result]:
        self.calls += 1
        self.began.set()
        self.may_end.wait(30)
        return []


async def test_a_gate_that_was_given_up_stops_its_thread_after_the_piece() -> None:
    analyzer = Waiting()
    finding = asyncio.create_task(Presidio(analyzer).find("word " * 100_000))
    await eventually(analyzer.began.is_set)
    finding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await finding
    analyzer.may_end.set()
    await asyncio.get_running_loop().shutdown_default_executor()
    assert analyzer.calls == 1


def test_presidio_that_is_not_installed_is_named_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "presidio_analyzer", None)
    cure = r"pip install --require-hashes -r requirements-pii\.txt`, or write engine: builtin"
    with pytest.raises(MissingExtra, match=cure):
        load_presidio()


def site_packages() -> Path:
    """Where set-up has put the library; the test is skipped, aloud, without it, and fails in continuous integration."""
    folder = next(iter(PRESIDIO.glob("lib/python3*/site-packages")), None)
    if folder is None or not (PRESIDIO / ".installed").exists():
        message = f"no Presidio to test with: {PRESIDIO} is missing; `make test` installs it"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return folder


def looked_at_by_the_real_one(home: Path) -> dict[str, object]:
    """What the guard with the real library did, told by a process of its own (real_presidio.py)."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.runtime.guard.real_presidio"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(site_packages())},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert (done.returncode, done.stderr) == (0, "")
    told: dict[str, object] = json.loads(done.stdout)
    return told


@pytest.mark.process
def test_the_real_presidio_finds_by_form_and_asks_nobody(tmp_path: Path) -> None:
    told = looked_at_by_the_real_one(tmp_path)
    assert told["imported_by_the_guard"] is False
    assert told["texts"] == {
        "email": "write to ⟦redacted email⟧",
        "card": "card ⟦redacted card⟧",
        "phone": "call ⟦redacted phone⟧ or ⟦redacted phone number⟧",
        "number": "room 020 7946 0958",
        "iban": "to ⟦redacted iban⟧",
        "ip": "from ⟦redacted ip⟧ and ⟦redacted ip⟧",
        "nobody": "see https://example.org/a?b=c on 2024-01-02, id 123e4567-e89b-12d3-a456-426614174000",
    }
    assert told["asked_of_the_network"] == []
    assert [*tmp_path.iterdir()] == []
    assert told["given_up"] == ["blocked", "failed.timeout"]
    assert told["broken"] == ["blocked", "failed.raised"]
    assert told["held_the_loop_up"] is False
