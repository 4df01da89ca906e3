"""Files with odd names beside the manifests of every table: what a crashed copy, an editor or a sync tool leaves."""

from __future__ import annotations

import random
from pathlib import Path

_NAMES = (
    "18446744073709551000.manifest.tmp",
    "1.manifest~",
    ".1.manifest.swp",
    "1.manifest (conflicted copy)",
    "notes.txt",
    "tmp_0",
    ".DS_Store",
)


def leave_litter(data: Path, chance: random.Random) -> int:
    """Leave one garbage and one empty file in each table's folder of versions; returns how many were left."""
    left = 0
    for versions in sorted(data.glob("*.lance/_versions")):
        garbage, empty = chance.sample(_NAMES, 2)
        (versions / garbage).write_bytes(chance.randbytes(chance.randint(1, 4000)))
        (versions / empty).write_bytes(b"")
        left += 2
    return left
