"""Whatever a step raises or answers, no row of it holds a secret that the worker is configured with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime.contract import MonikerError, StepFrame, StepOut
from runtime.guard.secretsgate import Secrets
from store.agent_events import events_of
from store.agent_state import SessionStatus
from store.ids import SessionId
from store.records import list_records
from tests.runtime.kit import moniker, out, workshop

KEY = "velvet-otter-9917-harbour"


@pytest.mark.parametrize("kind", [MonikerError, ValueError])
async def test_errors_are_stored_without_secrets(tmp_path: Path, kind: type[Exception]) -> None:
    async def step(ctx: Any, frame: StepFrame) -> StepOut:
        async def call() -> None:
            raise kind(f"refused {KEY}")

        await ctx.record("call", call)
        return out(frame)

    async with workshop(tmp_path, moniker("m", step), start=False, quiet=False) as shop:
        shop.secrets = Secrets({"API_KEY": KEY})
        await shop.start()
        created = await shop.create("m")
        row = await shop.until(SessionStatus.ERROR)
        await shop.ended(created)
        assert "refused ⟦redacted API_KEY⟧" in (row.last_error or "")
        records = await list_records(shop.db, SessionId("s"), 0, since_iteration=0)
        assert [record.kind for record in records] == ["failed"]
        stored = [row, records, await shop.steps(), await shop.action(created)]
        assert KEY not in str(stored)


async def test_results_and_events_are_stored_and_read_without_secrets(tmp_path: Path) -> None:
    read: list[Any] = []

    async def step(ctx: Any, frame: StepFrame) -> StepOut:
        async def call() -> dict[str, Any]:
            return {"page": [f"the key is {KEY}"], KEY: 1}

        read.append(await ctx.record("call", call))
        await ctx.emit("progress", {"text": f"found {KEY}"})
        return out(frame, done=True)

    async with workshop(tmp_path, moniker("m", step), start=False) as shop:
        shop.secrets = Secrets({"API_KEY": KEY})
        await shop.start()
        await shop.create("m")
        await shop.until(SessionStatus.DONE)
        assert read == [{"page": ["the key is ⟦redacted API_KEY⟧"], "⟦redacted API_KEY⟧": 1}]
        records = await list_records(shop.db, SessionId("s"), 0, since_iteration=0)
        assert KEY not in str([records, await events_of(shop.db).find()])
