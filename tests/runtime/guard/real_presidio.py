"""A program of test_presidio.py: the guard with the real Presidio and no network. Prints what it saw as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterable
from functools import partial
from typing import Any

from runtime.guard.build import Means, build
from runtime.guard.governance import parse
from runtime.guard.guard import Guard
from runtime.guard.port import AgentType, Channel, Passage
from runtime.guard.presidio import Analyzer, load_presidio
from runtime.testing import FakeClock

RULES = """
version: 1
secrets: {{enabled: false}}
links: {{enabled: false}}
scoring: {{enabled: false}}
pii: {{engine: presidio, channels: [output], timeout_s: {timeout_s}}}
"""
TEXTS = {
    "email": "write to ann@example.org",
    "card": "card 4111 1111 1111 1111",
    "phone": "call +1 212 555 0143 or 020 7946 0958",
    "number": "room 020 7946 0958",
    "iban": "to DE89 3704 0044 0532 0130 00",
    "ip": "from 8.8.8.8 and 2001:4860:4860::8888",
    "nobody": "see https://example.org/a?b=c on 2024-01-02, id 123e4567-e89b-12d3-a456-426614174000",
}
HOSTILE = "call 020 7946 0958 " * 10_000


def refuse(asked: list[str], event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook: whoever reaches for the network is noted and refused."""
    if event in {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"}:
        asked.append(f"{event} {arguments[-1]}")
        raise OSError("there is no network")


class Broken:
    """An analyzer that raises."""

    def analyze(self, text: str, language: str, score_threshold: float) -> list[Any]:
        raise RuntimeError(language)


def guard(analyzer: Analyzer, timeout_s: float = 60) -> Guard:
    means = Means(FakeClock(), lambda: "n0nce1234567", b"k" * 16, {}, presidio=lambda language: analyzer)
    return build(parse(RULES.format(timeout_s=timeout_s)), means)


async def outcome(asked: Guard, text: str) -> list[str]:
    judgement = await asked.check(Passage(text, Channel.OUTPUT, AgentType("worker"), "s"))
    return [judgement.outcome.value, judgement.decisions[-1].rule or "", judgement.text]


class Watched:
    """An analyzer, and whether it ever worked where the event loop runs."""

    def __init__(self, analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        self.held_the_loop_up = False

    def analyze(self, text: str, language: str, score_threshold: float) -> Iterable[Any]:
        self.held_the_loop_up |= threading.current_thread() is threading.main_thread()
        return self._analyzer.analyze(text=text, language=language, score_threshold=score_threshold)


async def look(analyzer: Watched) -> dict[str, Any]:
    """What comes of the texts, of one that takes too long, and of an analyzer that breaks."""
    whole, hasty, broken = guard(analyzer), guard(analyzer, timeout_s=0.1), guard(Broken())
    return {
        "texts": {name: (await outcome(whole, text))[2] for name, text in TEXTS.items()},
        "given_up": (await outcome(hasty, HOSTILE))[:2],
        "broken": (await outcome(broken, "hi"))[:2],
        "held_the_loop_up": analyzer.held_the_loop_up,
    }


def main() -> None:
    """Print what the guard did, and what its library asked of others."""
    asked: list[str] = []
    sys.addaudithook(partial(refuse, asked))
    imported = "presidio_analyzer" in sys.modules
    told = asyncio.run(look(Watched(load_presidio())))
    print(json.dumps({**told, "imported_by_the_guard": imported, "asked_of_the_network": asked}))


if __name__ == "__main__":
    main()
