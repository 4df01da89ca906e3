"""Does it last? Minutes of steady load with upkeep on: speed, latency, memory and disk, minute by minute."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from bench.load import Load, LoadRules
from bench.machine import cpu_seconds, emit, percentile, resident_mb
from bench.processes import ROOT, eventually, folder, opened, process, worker_ready
from store.database import Store
from web.ports import free_port

_WARM_UP_S = 10.0
_MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class Minute:
    """One minute of the run. Latencies are in milliseconds."""

    number: int
    steps_per_s: float
    inputs: int
    first_step_p50: float | None
    first_step_p99: float | None
    event_p50: float | None
    history_p50: float | None
    worker_mb: float
    web_mb: float
    worker_cpu: float
    web_cpu: float
    files: int
    disk_mb: float
    steps: int


@dataclass(frozen=True, slots=True)
class Processes:
    """The processes that are watched."""

    worker: int
    web: int

    def cpu(self) -> tuple[float, float]:
        """Processor seconds so far."""
        return cpu_seconds(self.worker), cpu_seconds(self.web)


async def endurance(minutes: int, sessions: int, *, flat_out: bool, minute_s: float = _MINUTE_S) -> None:
    """Print a line a minute, then how the last minute compares with the first."""
    rules = LoadRules(sessions, delay_s=0.0) if flat_out else LoadRules(sessions)
    with folder() as path:
        async with opened(path) as store, _served(path, store) as (address, processes):
            load = Load(store.tenant(), address, rules)
            await load.begin()
            loading = asyncio.create_task(load.run())
            taken = []
            try:
                await _pass(loading, _WARM_UP_S)
                for number in range(1, minutes + 1):
                    taken.append(await _minute(number, minute_s, path, store, load, processes, loading))
                    print(orjson.dumps(asdict(taken[-1])).decode(), flush=True)
            finally:
                loading.cancel()
                await asyncio.gather(loading, return_exceptions=True)
        summary = compare(taken)
        emit("endurance", path, minutes=minutes, flat_out=flat_out, **asdict(rules), **summary)
    _keep(taken, summary, flat_out)


@asynccontextmanager
async def _served(path: Path, store: Store) -> AsyncIterator[tuple[str, Processes]]:
    port = free_port("127.0.0.1", 5400)
    address = f"http://127.0.0.1:{port}"
    with process(path, "agents.py") as worker, process(path, "app.py", "--port", str(port)) as web:

        async def up() -> bool:
            try:
                async with aiohttp.ClientSession() as client, client.get(f"{address}/healthz") as answer:
                    return answer.status == 200
            except aiohttp.ClientError:
                return False

        await eventually(up, 60.0)
        await worker_ready(store)
        yield address, Processes(worker.pid, web.pid)


async def _minute(
    number: int, seconds: float, path: Path, store: Store, load: Load, processes: Processes, loading: asyncio.Task[None]
) -> Minute:
    clock, table = store.clock, store.tables["agent_steps"]
    load.take()
    began, before, cpu = clock.monotonic(), await table.rows(), processes.cpu()
    await _pass(loading, seconds)
    took, after, used = clock.monotonic() - began, await table.rows(), processes.cpu()
    samples = load.take()
    files = _sizes(path)
    return Minute(
        number=number,
        steps_per_s=round((after - before) / took, 1),
        inputs=samples.inputs,
        first_step_p50=_ms(samples.first_steps, 0.5),
        first_step_p99=_ms(samples.first_steps, 0.99),
        event_p50=_ms(samples.events, 0.5),
        history_p50=_ms(samples.reads, 0.5),
        worker_mb=resident_mb(processes.worker),
        web_mb=resident_mb(processes.web),
        worker_cpu=round((used[0] - cpu[0]) / took, 3),
        web_cpu=round((used[1] - cpu[1]) / took, 3),
        files=len(files),
        disk_mb=round(sum(files) / 1e6, 1),
        steps=after,
    )


async def _pass(loading: asyncio.Task[None], seconds: float) -> None:
    """Let time pass; raises what the load raises, which never ends by itself."""
    done, _ = await asyncio.wait([loading], timeout=seconds)
    for ended in done:
        ended.result()


def _sizes(path: Path) -> list[int]:
    """The sizes of the files that are there; upkeep removes some while they are listed."""
    found = []
    for root, _, names in os.walk(path):
        for name in names:
            with suppress(FileNotFoundError):
                found.append((Path(root) / name).stat().st_size)
    return found


def _ms(seconds: Sequence[float], share: float) -> float | None:
    return round(percentile(seconds, share) * 1000, 2) if seconds else None


def compare(minutes: Sequence[Minute]) -> dict[str, Any]:
    """The last minute against the first, and the slope of the memory in MB a minute, its first minute left out."""
    first, last = minutes[0], minutes[-1]
    settled = minutes[1:] if len(minutes) > 2 else minutes
    return {
        "steps_last_to_first": _ratio(last.steps_per_s, first.steps_per_s),
        "first_step_p50_last_to_first": _ratio(last.first_step_p50, first.first_step_p50),
        "history_p50_last_to_first": _ratio(last.history_p50, first.history_p50),
        "worker_mb_a_minute": round(slope([minute.worker_mb for minute in settled]), 2),
        "web_mb_a_minute": round(slope([minute.web_mb for minute in settled]), 2),
        "bytes_a_step": round(last.disk_mb * 1e6 / last.steps) if last.steps else None,
    }


def _ratio(last: float | None, first: float | None) -> float | None:
    return round(last / first, 3) if last is not None and first else None


def slope(values: Sequence[float]) -> float:
    """How much the values rise from one to the next, by least squares; 0 for fewer than two."""
    count = len(values)
    if count < 2:
        return 0.0
    middle, mean = (count - 1) / 2, sum(values) / count
    spread = sum((place - middle) ** 2 for place in range(count))
    return sum((place - middle) * (value - mean) for place, value in enumerate(values)) / spread


def _keep(minutes: Sequence[Minute], summary: dict[str, Any], flat_out: bool) -> None:
    kept = {"flat_out": flat_out, "minutes": [asdict(minute) for minute in minutes], "summary": summary}
    file = ROOT / "bench-results" / f"endurance-{datetime.now(UTC):%Y%m%d-%H%M%S}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(orjson.dumps(kept, option=orjson.OPT_INDENT_2))
