"""The whole story as a program elsewhere lives it: HTTP, Socket.IO, and processes that are killed in between."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.processes import QUICK, TRACEBACK, Dashboard, Program, start_dashboard, start_worker, steps_in
from tests.remote import Api, Follower
from tests.support import eventually

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.xdist_group("app story")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def dashboard(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Dashboard]:
    """`app.py --with-worker` under eventlet."""
    running = await start_dashboard(tmp_path_factory.mktemp("story"), QUICK, with_worker=True)
    yield running
    running.end()


@pytest.fixture
def api(dashboard: Dashboard) -> Api:
    """Its API."""
    return Api(dashboard.url)


async def tell_the_story(api: Api) -> None:
    """A joke session from its creation to its end, seen live and asked for."""
    live = await Follower(api.url, {"session_id": "ducks and geese"}).join()
    session_id = await api.start("joke", session_id="ducks and geese", task="ducks", config={"interval_s": 0.2})
    await live.sees(3)
    assert all(event["cursor"] for event in live.seen("step"))

    await api.done(await api.control(session_id, "pause"))
    paused = await api.becomes(session_id, "paused")
    before = len(await api.steps(session_id))
    assert paused["iteration"] + 1 == before

    guided = await api.control(session_id, "interrupt", guidance={"subject": "geese"})
    await api.done(guided)
    assert (await api.session(session_id))["status"] == "paused"
    assert len(await api.steps(session_id)) == before

    await api.done(await api.control(session_id, "resume"))
    await live.sees(before + 2)
    steps = await api.steps(session_id)
    assert {step["data"]["subject"] for step in steps[:before]} == {"ducks"}
    assert {step["data"]["subject"] for step in steps[before:]} == {"geese"}
    assert [step["guidance"] is not None for step in steps[: before + 1]] == [False] * before + [True]

    await api.control(session_id, "destroy")
    await api.becomes(session_id, "stopped")
    await _all_done(api, session_id, ["create", "pause", "interrupt", "resume", "destroy"])
    await _told_all(api, live, session_id)
    await eventually(lambda: [state["status"] for state in live.seen("state")][-1:] == ["stopped"])
    await live.leave()


async def _all_done(api: Api, session_id: str, kinds: list[str]) -> None:
    async def done() -> bool:
        return {action["status"] for action in await api.actions(session_id)} == {"done"}

    await eventually(done, 20)
    actions = await api.actions(session_id)
    assert [action["kind"] for action in reversed(actions)] == [f"agent_{kind}" for kind in kinds]


async def _told_all(api: Api, live: Follower, session_id: str) -> None:
    """The follower was told what the store holds: every step, once, in order, without a gap."""
    steps = await api.steps(session_id)
    await live.sees(len(steps))
    assert live.iterations() == list(range(len(steps)))
    wanted = [(step["id"], step["text"], step["epoch"]) for step in steps]
    assert [(step["id"], step["text"], step["epoch"]) for step in live.steps()] == wanted


async def test_a_session_lives_pauses_listens_and_ends(api: Api) -> None:
    await tell_the_story(api)


async def test_threads_serve_the_same_story(tmp_path: Path) -> None:
    threads = await start_dashboard(tmp_path, {**QUICK, "STEPWELL_ASYNC_MODE": "threading"}, with_worker=True)
    try:
        await tell_the_story(Api(threads.url))
        assert await threads.stop() == 0
        assert TRACEBACK not in threads.errors()
    finally:
        threads.end()


# --- processes die ---------------------------------------------------------------------------------------------------


async def test_a_killed_worker_child_is_started_again_and_its_session_goes_on(dashboard: Dashboard, api: Api) -> None:
    live = await Follower(api.url, {"session_id": "on and on"}).join()
    session_id = await api.start("echo", session_id="on and on", config={"text": "on", "steps": 40, "delay_s": 0.1})
    await live.sees(5)
    os.kill(await dashboard.worker_pid(), signal.SIGKILL)
    await api.becomes(session_id, "done")
    await _whole(dashboard, api, live, session_id, 40, lives=2)
    await live.leave()


async def test_either_program_may_be_killed_by_hand(tmp_path: Path) -> None:
    web, worker = await asyncio.gather(start_dashboard(tmp_path, QUICK), start_worker(tmp_path, QUICK))
    programs: list[Program] = [web, worker]
    try:
        api = Api(web.url)
        live = await Follower(api.url, {"session_id": "still"}).join()
        session_id = await api.start("echo", session_id="still", config={"text": "here", "steps": 80, "delay_s": 0.1})
        await live.sees(3)

        await worker.kill()
        stood_at = len(await api.steps(session_id))
        worker = await start_worker(tmp_path, QUICK)
        programs.append(worker)
        await live.sees(stood_at + 3)

        await web.kill()
        await live.cut()
        known = len(live.steps())
        web = await web.restart(QUICK)
        programs.append(web)
        await live.join()
        await live.sees(known + 5)

        await api.becomes(session_id, "done")
        await _whole(web, api, live, session_id, 80, lives=2)
        await live.leave()
        assert [await web.stop(), await worker.stop()] == [0, 0]
        assert TRACEBACK not in "".join(program.errors() for program in programs)
    finally:
        for program in programs:
            program.end()


async def _whole(web: Dashboard, api: Api, live: Follower, session_id: str, count: int, *, lives: int) -> None:
    """Neither the journal nor what the client saw has a gap or a repeat, and so many workers wrote it."""
    await live.sees(count)
    await _told_all(api, live, session_id)
    rows = await steps_in(web.folder, session_id)
    assert [row.iteration for row in rows] == list(range(count))
    epochs = [row.epoch for row in rows]
    assert epochs == sorted(epochs)
    assert len(set(epochs)) == lives


# --- several agents, several people ----------------------------------------------------------------------------------


async def test_a_post_reaches_every_pushed_session_and_each_step_is_posted_once(api: Api) -> None:
    thread = (await api.post("/api/conversations", {"title": "Two of us"}, expect=201))["conversation_id"]
    followers = [await Follower(api.url, {"conversation_id": thread}).join() for _ in range(2)]
    waiting = {"steps": 1, "wait_for_input": True}
    pushed = [
        await api.start("echo", config={"text": f"I am {name}", **waiting}, agent_id=name, conversation_id=thread)
        for name in ("ann", "ben")
    ]
    pulled = await api.start(
        "echo", config={"text": "I am cleo", **waiting}, agent_id="cleo", conversation_id=thread, delivery="pull"
    )
    for session_id in (*pushed, pulled):
        await api.becomes(session_id, "waiting")

    posts = []
    for number in (1, 2):
        body = {"text": f"question {number}", "user_id": "you", "idempotency_key": f"post {number}"}
        posts.append(await api.post(f"/api/conversations/{thread}/messages", body))
        assert await api.post(f"/api/conversations/{thread}/messages", body) == posts[-1]
        assert len(posts[-1]["action_ids"]) == len(pushed)
        for action_id in posts[-1]["action_ids"]:
            await api.done(action_id)

    async def texts() -> list[tuple[str, str]]:
        items = (await api.get(f"/api/conversations/{thread}/messages"))["items"]
        return sorted((item["agent_id"] or item["user_id"], item["text"]) for item in items)

    expected = sorted(
        [(name, text) for name in ("ann", "ben") for text in (f"I am {name}", "question 1", "question 2")]
        + [("cleo", "I am cleo"), ("you", "question 1"), ("you", "question 2")]
    )
    await _come_to(texts, expected)
    for follower in followers:
        await eventually(lambda it=follower: len(_messages(it)) == len(expected))  # type: ignore[misc]
        assert _messages(follower) == expected
        await follower.leave()


def _messages(follower: Follower) -> list[tuple[str, str]]:
    known = {message["message_id"]: message for message in follower.seen("message")}
    return sorted((message["agent_id"] or message["user_id"], message["text"]) for message in known.values())


async def _come_to(read: Any, expected: Any) -> None:
    async def so() -> bool:
        return bool(await read() == expected)

    await eventually(so, 20)


# --- what agents do --------------------------------------------------------------------------------------------------

WELLS = "A stepwell is a well with stairs. People walk down to the water. The water is cool. Stairs make it safe. " * 20

RUNS: dict[str, dict[str, Any]] = {
    "summarize": {"text": WELLS, "max_section_chars": 600},
    "research": {"question": "What is a stepwell?", "documents": [{"title": "Wells", "text": WELLS}]},
}


@pytest.mark.parametrize("moniker", RUNS)
async def test_a_moniker_runs_to_its_end_without_a_network(api: Api, moniker: str) -> None:
    session_id = await api.start(moniker, config=RUNS[moniker])
    ended = await api.becomes(session_id, "done")
    steps = await api.steps(session_id)
    assert [step["iteration"] for step in steps] == list(range(len(steps)))
    assert len(steps) >= 3
    assert all(step["text"] for step in steps)
    assert ended["usage"]["calls"] == len(steps)
    assert ended["result"]


async def test_a_prompted_agent_works_waits_and_answers(api: Api) -> None:
    session_id = await api.start("prompted", task="Look after the well", config={"instructions": "Be brief."})
    await api.becomes(session_id, "waiting")
    worked = len(await api.steps(session_id))
    await api.done(await api.control(session_id, "input", text="and the stairs"))
    assert [("and the stairs" in step["text"]) for step in await api.steps(session_id)] == [False] * worked + [True]
