"""What a figure must be read beside: the disk's fsync time and the machine's load."""

from __future__ import annotations

import os
import platform
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0..1) of the sorted values lie, by linear interpolation."""
    ordered = sorted(values)
    at = (len(ordered) - 1) * share
    low, high = int(at), min(int(at) + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def summary_ms(seconds: Sequence[float]) -> dict[str, float]:
    """Percentiles of durations, in milliseconds."""
    return {
        "n": len(seconds),
        "p50_ms": round(percentile(seconds, 0.5) * 1000, 2),
        "p99_ms": round(percentile(seconds, 0.99) * 1000, 2),
        "max_ms": round(max(seconds) * 1000, 2),
    }


def fsync_ms(folder: Path, times: int = 100) -> float:
    """The median time of writing and syncing 4 KiB in `folder`."""
    block, taken = os.urandom(4096), []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(times):
            began = time.perf_counter()
            file.write(block)
            file.flush()
            os.fsync(file.fileno())
            taken.append(time.perf_counter() - began)
    return round(statistics.median(taken) * 1000, 3)


def cpu_seconds(pid: int) -> float:
    """The processor time that a process has used, all its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """The memory that a process has in use, in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return round(int(line.split()[1]) / 1024, 1)
    raise RuntimeError(f"process {pid} tells no VmRSS")


def bytes_in(folder: Path) -> int:
    """The sizes of all files below a folder; files that go away meanwhile do not count."""
    total = 0
    for file in folder.rglob("*"):
        try:
            total += file.stat().st_size if file.is_file() else 0
        except FileNotFoundError:
            continue
    return total


def emit(figure: str, folder: Path, **fields: Any) -> None:
    """Print one figure as one JSON line."""
    line = {
        "figure": figure,
        **fields,
        "fsync_ms": fsync_ms(folder),
        "load1": round(os.getloadavg()[0], 2),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
    }
    print(orjson.dumps(line).decode(), flush=True)
