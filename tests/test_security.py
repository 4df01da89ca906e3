"""docs/security.md names a test for every threat that it calls shown: each of them exists, and no row is missing."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "security.md").read_text()
ROWS = {row.split("|")[1].strip(): row for row in PAGE.splitlines() if re.match(r"\| S\d+ ", row)}
STATES = ("shown", "partly: ", "open: ")


def test_every_named_test_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE)
    assert len(named) > 50
    missing = [f"{path}::{name}" for path, name in named if not re.search(rf"def {name}\(", (ROOT / path).read_text())]
    assert missing == []


def test_every_threat_has_a_row_with_a_state() -> None:
    assert list(ROWS) == [f"S{number}" for number in range(1, 52)]
    assert [name for name, row in ROWS.items() if not row.split("|")[3].strip().startswith(STATES)] == []


def test_what_is_open_names_no_test_and_all_else_does() -> None:
    for name, row in ROWS.items():
        assert ("::test_" in row) is not row.split("|")[3].strip().startswith("open"), name
