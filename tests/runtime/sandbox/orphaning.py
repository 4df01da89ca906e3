"""Runs a program that never ends: `python -m <this module> light|full`. Says when it runs, to be killed."""

from __future__ import annotations

import asyncio
import sys

from pydantic import JsonValue

from runtime.sandbox.port import Host, Limits, Program, Sandbox
from tests.runtime.sandbox.kit import SESSION, children_of_ours, full, light


async def tell() -> JsonValue:
    print(*children_of_ours(), flush=True)
    return None


def main(mode: str) -> None:
    of = Host(SESSION, {"tell": tell})
    sandbox: Sandbox = light(of) if mode == "light" else full(of)
    program = Program("tell()\nwhile True:\n    pass", {}, ("tell",), Limits(seconds=1))
    asyncio.run(sandbox.run(program))


if __name__ == "__main__":
    main(*sys.argv[1:])
