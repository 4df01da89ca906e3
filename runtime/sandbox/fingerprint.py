"""One way to turn plain data into the bytes that hashes and seals are made of."""

from __future__ import annotations

import hashlib
import json


def canonical(*parts: object) -> bytes:
    """The same bytes for equal data, other bytes for other data: `1`, `1.0` and `true` differ. For plain JSON only."""
    return json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()


def fingerprint(*parts: object) -> str:
    """The SHA-256 of `parts`, in hex. Nobody can find other parts with the same one."""
    return hashlib.sha256(canonical(*parts)).hexdigest()
