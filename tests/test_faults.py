"""docs/faults.md names a test for every fault and complaint: each of them exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "faults.md").read_text()


def test_every_named_test_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE)
    assert len(named) > 50
    missing = [f"{path}::{name}" for path, name in named if not re.search(rf"def {name}\(", (ROOT / path).read_text())]
    assert missing == []


def test_every_fault_has_a_test() -> None:
    rows = {row.split("|")[1].strip(): row for row in PAGE.splitlines() if re.match(r"\| F\d+ ", row)}
    assert list(rows) == [f"F{number}" for number in range(1, 26)]
    assert all("::test_" in row for row in rows.values())
