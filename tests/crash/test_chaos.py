"""The short run of `make chaos`: half a minute under fire, and every promise holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.checker import Promised
from chaos.report import details, passed, table
from chaos.run import Orders, run

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(240)]

SHORT = Orders(
    seed=11,
    kills=8,
    duration_s=12,
    workers=2,
    people=4,
    points=True,
    model_faults=0.08,
    calm_s=90,
    disk_mb=0,
)


async def test_a_short_run_under_fire_breaks_no_promise(tmp_path: Path) -> None:
    verdict = await run(SHORT, tmp_path, print)
    if not passed(verdict):
        pytest.fail(f"{table(verdict)}\n{details(verdict)}", pytrace=False)
    assert verdict.ledger.kills >= SHORT.kills
    assert verdict.steps > SHORT.people
    assert verdict.ledger.live, "nobody followed live"
    assert all(promise.value in table(verdict) for promise in Promised)
