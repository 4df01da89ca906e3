"""`app.py` as a program: how it begins, what it says, and how it ends together with its worker."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path

import pytest

from tests.processes import HOST, QUICK, TRACEBACK, children_of, gone, is_running, start, start_dashboard
from tests.remote import Api
from tests.support import eventually

pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
async def test_a_taken_port_is_passed_over_and_a_signal_ends_both_programs(tmp_path: Path, how: signal.Signals) -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        dashboard = await start_dashboard(tmp_path, QUICK, with_worker=True, port=port)
    try:
        assert dashboard.port > port
        assert f"http://{HOST}:{dashboard.port} (model: offline)" in dashboard.output()
        api = Api(dashboard.url)
        session_id = await api.start("echo", config={"text": "to be cut", "steps": None, "delay_s": 0.1})
        await api.has_steps(session_id, 2)
        children = children_of(dashboard.pid)
        assert len(children) == 1
        assert await dashboard.stop(how) == 0
        for pid in children:
            await gone(pid)
        assert "everything is stored" in dashboard.errors()
        assert TRACEBACK not in dashboard.errors()
    finally:
        dashboard.end()


async def test_the_worker_child_does_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    dashboard = await start_dashboard(tmp_path, QUICK, with_worker=True)
    try:
        children = children_of(dashboard.pid)
        await dashboard.kill()
        for pid in children:
            await gone(pid)
        assert "everything is stored" in dashboard.errors()
        assert TRACEBACK not in dashboard.errors()
    finally:
        dashboard.end()


async def test_a_worker_in_a_long_step_is_gone_five_seconds_after_its_parent_was_killed(tmp_path: Path) -> None:
    dashboard = await start_dashboard(tmp_path, QUICK, with_worker=True)
    try:
        api = Api(dashboard.url)
        session_id = await api.start("echo", config={"text": "slow", "steps": 3, "delay_s": 60})
        await api.becomes(session_id, "running")
        (child,) = children_of(dashboard.pid)
        await dashboard.kill()
        await eventually(lambda: asyncio.to_thread(lambda: not is_running(child)), 5.0, 0.1)
    finally:
        dashboard.end()


async def test_a_killed_worker_is_replaced_by_one_and_leaves_nothing_behind(tmp_path: Path) -> None:
    dashboard = await start_dashboard(tmp_path, QUICK, with_worker=True)
    try:
        await dashboard.says("worker ready")  # it is alive for the dashboard before it says so
        (first,) = children_of(dashboard.pid)
        os.kill(first, signal.SIGKILL)
        await gone(first)
        await dashboard.says("worker ready", times=2)
        assert len(children_of(dashboard.pid)) == 1
        assert children_of(first) == []
    finally:
        dashboard.end()


async def test_a_bad_setting_is_named_and_the_code_is_2(tmp_path: Path) -> None:
    bad = {"STEPWELL_PORT": "many", "STEPWELL_HEARTBEAT_S": "-1", "STEPWELL_ASYNC_MODE": "gevent"}
    programs = [start(tmp_path / key, "app.py", "--with-worker", **{key: value}) for key, value in bad.items()]
    try:
        assert await asyncio.gather(*[program.ended() for program in programs]) == [2] * len(bad)
        for key, program in zip(bad, programs, strict=True):
            assert key in program.errors()
            assert bad[key] in program.errors()
            assert TRACEBACK not in program.errors()
            assert "Stepwell is at" not in program.output()
    finally:
        for program in programs:
            program.end()
