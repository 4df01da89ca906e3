"""Carries a suspended program on in a process of its own: `python -m <this module> FILE approve|reject`.

Prints the outcome.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from runtime.sandbox.port import Approved, Rejected
from runtime.sandbox.suspension import from_json
from tests.runtime.sandbox.kit import light


def main(file: str, decision: str) -> None:
    suspended = from_json(Path(file).read_text())
    call = suspended.fingerprint
    answer = Approved(call) if decision == "approve" else Rejected(call, "not today")
    print(asyncio.run(light().resume(suspended, answer)))


if __name__ == "__main__":
    main(*sys.argv[1:])
