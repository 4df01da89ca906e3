"""A worker without servers pays nothing for them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from runtime.testing import FakeLog
from runtime.tools.mcp.opening import open_mcp
from store.database import TenantStore
from tests.processes import ROOT


@pytest.mark.process
def test_the_library_is_not_loaded_with_the_worker() -> None:
    program = "import agents, sys; print([name for name in ('mcp', 'mcp_types') if name in sys.modules])"
    said = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


async def test_without_servers_nothing_is_opened(db: TenantStore) -> None:
    log = FakeLog()
    async with open_mcp((), db, log=log, environ=os.environ) as servers:
        assert servers is None
    assert log.lines == []
