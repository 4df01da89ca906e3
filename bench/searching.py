"""Searching a million steps: how long it takes, what the index weighs, and what it costs appends and upkeep."""

from __future__ import annotations

import dataclasses
import itertools
import random
import time
from pathlib import Path

from bench.history import _Quiet, step_of
from bench.machine import emit, summary_ms
from bench.processes import folder, opened
from store.agent_steps import AgentStep, journal_of
from store.database import Store, TenantStore
from store.search import SearchKind, Sought, search
from store.upkeep import Upkeep, UpkeepRules

_PART = 20_000
_SESSIONS = 1_000
_READS = 60
_TURNS = 5
_COMMITS = 40
_ROWS = 25
_VOCABULARY = 30_000
_WORDS = 12
#: no full-text index, however many rows
_NEVER = 10**12


class _Words:
    """Texts of made-up words, of which a few are common and most are rare, as in a language."""

    def __init__(self) -> None:
        self._chance = random.Random(1)
        letters = "abcdefghijklmnopqrstuvwxyz"
        self.words = ["".join(self._chance.choices(letters, k=self._chance.randint(3, 9))) for _ in range(_VOCABULARY)]
        self._weights = list(itertools.accumulate(1 / (rank + 1) for rank in range(_VOCABULARY)))

    def texts(self, count: int) -> list[str]:
        """So many texts."""
        chosen = self._chance.choices(self.words, cum_weights=self._weights, k=count * _WORDS)
        return [" ".join(chosen[at : at + _WORDS]) for at in range(0, len(chosen), _WORDS)]


async def search_figures(steps: int) -> None:
    """Print the figures for `steps` steps, in the same store first without the index, then with it."""
    with folder() as path:
        async with opened(path) as store:
            words = _Words()
            await _fill(store.tenant(), words, steps)
            plain = UpkeepRules(search_rows=_NEVER)
            await Upkeep(store, plain, _Quiet()).once(force=True)
            await _measure_turns(path, store, words, plain, steps, indexed=False)
            size = _bytes(path)
            began = time.perf_counter()
            await Upkeep(store, UpkeepRules(), _Quiet()).once(force=True)
            facts = {"steps": steps, "build_s": round(time.perf_counter() - began, 2)}
            emit("search_index", path, **facts, bytes=_bytes(path) - size)
            await _measure_reads(path, store.tenant(), words, steps)
            await _measure_turns(path, store, words, UpkeepRules(), steps, indexed=True)


def _bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("agent_steps.lance/_indices/**/*") if file.is_file())


async def _fill(db: TenantStore, words: _Words, steps: int) -> None:
    for start in range(0, steps, _PART):
        await journal_of(db).append_all(_steps(db, words, start, min(_PART, steps - start)))


def _steps(db: TenantStore, words: _Words, start: int, count: int) -> list[AgentStep]:
    now, texts = db.clock.now(), words.texts(count)
    return [
        dataclasses.replace(step_of(now, number % _SESSIONS, number // _SESSIONS), text=text)
        for number, text in enumerate(texts, start)
    ]


async def _measure_reads(path: Path, db: TenantStore, words: _Words, steps: int) -> None:
    questions = {
        "a common word": words.words[:3],
        "a rare word": words.words[1_000:1_003],
        "twelve words": words.texts(3),
        "a word of none": ["nosuchwordatall"],
    }
    for name, asked in questions.items():
        taken = []
        for number in range(_READS // 2):
            began = time.perf_counter()
            await search(db, Sought(asked[number % len(asked)], (SearchKind.STEPS,)), limit=20)
            taken.append(time.perf_counter() - began)
        emit("search", path, steps=steps, question=name, **summary_ms(taken))


async def _measure_turns(
    path: Path, store: Store, words: _Words, rules: UpkeepRules, steps: int, *, indexed: bool
) -> None:
    db, upkeep = store.tenant(), Upkeep(store, rules, _Quiet())
    appends, turns = [], []
    for turn in range(_TURNS):
        for commit in range(_COMMITS):
            start = steps + (indexed * _TURNS + turn) * _COMMITS * _ROWS + commit * _ROWS
            rows = _steps(db, words, start, _ROWS)
            began = time.perf_counter()
            await journal_of(db).append_all(rows)
            appends.append(time.perf_counter() - began)
        began = time.perf_counter()
        await upkeep.once(force=True)
        turns.append(time.perf_counter() - began)
    facts = {"steps": steps, "indexed": indexed}
    emit("search_append", path, **facts, **summary_ms(appends))
    emit("search_upkeep_turn", path, **facts, commits=_COMMITS, **summary_ms(turns))
