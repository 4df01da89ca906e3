"""A worker inside the test: a real store in a temporary folder, a clock that leaps, and monikers made on the spot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from monikers.catalogue import Catalogue
from monikers.echo import ECHO
from runtime.contract import Json, Moniker, MonikerName, StepFrame, StepOut
from runtime.files import AllowedFiles
from runtime.guard.onstep import GuardService
from runtime.guard.secretsgate import Secrets
from runtime.llm.offline import OfflineModel
from runtime.llm.port import ChatModel, EmbeddingModel
from runtime.settings import WorkerSettings
from runtime.testing import LeapClock
from runtime.tools.joining import ToolServers
from runtime.tools.tool import Tool
from runtime.wiring import Outside
from runtime.worker import run_worker
from store.actions import Action, ActionKind, ActionStatus, get_action, list_open_actions, queue_of
from store.agent_requests import agent_create
from store.agent_state import AgentState, SessionStatus, find_agent_state
from store.agent_steps import AgentStep, StepFilter, journal_of, list_agent_steps
from store.clock import Clock, SystemIds
from store.conversations import create_conversation
from store.crashpoints import CrashPoint, no_crash
from store.database import Store, TenantStore, open_store
from store.enqueueing import NewAction, enqueue
from store.ids import ActionId, AgentId, ConversationId, SessionId
from store.lock import is_held
from store.marks import mark_action_claimed
from store.messages import Message, list_messages
from store.options import StoreOptions
from tests.freshstore import put_fresh_store
from tests.support import eventually

StepBody = Callable[[Any, StepFrame], Awaitable[StepOut]]

#: so little that a test does not wait for it
QUICK: dict[str, Any] = {
    "projection_s": 0.01,
    "heartbeat_s": 0.5,
    "stop_grace_s": 0.05,
    "drain_s": 5.0,
    "hold_s": 30.0,
    "claim_after_s": 60.0,
    "max_attempts": 1,
    "retry_base_s": 0.01,
    "retry_cap_s": 0.05,
    "patience_s": 2.0,
}


class Anything(BaseModel):
    """A config that takes whatever it is given."""

    model_config = ConfigDict(extra="allow", frozen=True)


def moniker(name: str, body: StepBody, **options: Any) -> Moniker[Any]:
    """A moniker whose step is `body`."""
    return Moniker(name=MonikerName(name), summary=f"Does {name}.", config_model=Anything, step=body, **options)


def out(frame: StepFrame, **fields: Any) -> StepOut:
    """The answer that counts on from the frame's step."""
    return StepOut(**{"step": frame.step, "next_step": str(int(frame.step) + 1), **fields})


class Gate:
    """Holds whoever passes through until the test lets it."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self._open = asyncio.Event()
        self._for_one = False

    async def passing(self) -> None:
        """Tell the test, then wait until it opens the gate."""
        self.reached.set()
        await self._open.wait()
        if self._for_one:
            self._open.clear()

    def open(self) -> None:
        """Let everybody through, from now on."""
        self._for_one = False
        self._open.set()

    def close(self) -> None:
        """Hold the next one again."""
        self.reached.clear()
        self._open.clear()

    async def let_one_through(self) -> None:
        """Wait until somebody stands at the gate and open it for that one."""
        await self.reached.wait()
        self.reached.clear()
        self._for_one = True
        self._open.set()


class KeptLog:
    """Keeps every line as (level, event, fields)."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, Any]]] = []

    def bind(self, **_: Any) -> KeptLog:
        return self

    def debug(self, event: str, **fields: Any) -> None:
        self.lines.append(("debug", event, fields))

    def info(self, event: str, **fields: Any) -> None:
        self.lines.append(("info", event, fields))

    def warning(self, event: str, **fields: Any) -> None:
        self.lines.append(("warning", event, fields))

    def error(self, event: str, **fields: Any) -> None:
        self.lines.append(("error", event, fields))

    def of(self, level: str) -> list[tuple[str, dict[str, Any]]]:
        """The lines of one level."""
        return [(event, fields) for kept, event, fields in self.lines if kept == level]


def name_of(task: asyncio.Task[Any]) -> str:
    """What a task runs."""
    return str(getattr(task.get_coro(), "__qualname__", ""))


@asynccontextmanager
async def opened(folder: Path, clock: Clock | None = None, crash_point: CrashPoint = no_crash) -> AsyncIterator[Store]:
    """A store in `folder`."""
    put_fresh_store(folder)
    options = StoreOptions(str(folder), patience_s=2.0)
    store = await open_store(options, clock=clock or LeapClock(), ids=SystemIds(), crash_point=crash_point)
    try:
        yield store
    finally:
        await store.close()


class Workshop:
    """A store and, between `start` and `stop` or `crash`, a worker on it."""

    def __init__(self, folder: Path, monikers: Iterable[Moniker[Any]], model: ChatModel, settings: Json) -> None:
        self.folder = folder
        self.clock = LeapClock()
        self.log = KeptLog()
        self.model = model
        self.crash_point: CrashPoint = no_crash
        #: what a worker is given beside the built-in tools, from its next start on
        self.tools: tuple[Tool, ...] = ()
        self.tool_servers: ToolServers | None = None
        self.embedder: EmbeddingModel | None = OfflineModel()
        self.guard: GuardService | None = None
        self.secrets = Secrets()
        self._catalogue = Catalogue.of(ECHO, *monikers)
        self._settings = WorkerSettings(data=str(folder), **{**QUICK, **settings})
        self._opened: Store | None = None
        self._stop = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self._mine: set[asyncio.Task[Any]] = set()

    # The worker.

    async def open(self) -> None:
        """Open the store; tests may put rows into it before a worker starts."""
        if self._opened is None:
            put_fresh_store(self.folder)
            options = StoreOptions(str(self.folder), patience_s=self._settings.patience_s)
            self._opened = await open_store(
                options, clock=self.clock, ids=SystemIds(), crash_point=lambda point: self.crash_point(point)
            )

    async def start(self) -> None:
        """Start a worker and wait until it follows the queue."""
        await self.open()
        self._mine = asyncio.all_tasks()
        self._stop = asyncio.Event()
        ready = self._ready_lines()
        outside = Outside(
            self.model,
            self._catalogue,
            [str(name) for name in self._catalogue.names()],
            AllowedFiles([self.folder]),
            self.log,
            lambda point: self.crash_point(point),
            embedder=self.embedder,
            tools=self.tools,
            tool_servers=self.tool_servers,
            guard=self.guard,
            secrets=self.secrets,
        )
        self._work = asyncio.create_task(run_worker(self.store, self._settings, outside, self._stop))
        await eventually(lambda: self._ready_lines() > ready or self._ended())
        if self._ended():
            await self.worked()

    def _ready_lines(self) -> int:
        return sum(event == "worker ready" for event, _ in self.log.of("info"))

    def _ended(self) -> bool:
        return self._work is None or self._work.done()

    async def stop(self) -> None:
        """End the worker as SIGTERM does."""
        if self._work is not None:
            self._stop.set()
            work, self._work = self._work, None
            await work

    async def worked(self) -> None:
        """Return, or raise, when the worker has ended by itself."""
        if self._work is not None:
            work, self._work = self._work, None
            await work

    def role_is_free(self) -> bool:
        """Whether no worker works on the folder."""
        return not any(is_held(path) for path in (self.folder / "locks" / "workers").glob("*.lock"))

    async def crash(self, *, writing: bool = True) -> None:
        """End the worker at once, without a word.

        What was handed to the store becomes true before the end, or, without `writing`, never does.
        """
        work, self._work = self._work, None
        if work is None:
            return
        spared = "GroupCommit._flush" if writing else ""
        mine = self._mine | {asyncio.current_task()}
        while alive := {task for task in asyncio.all_tasks() - mine if name_of(task) != spared}:
            for task in alive:
                task.cancel()
            await asyncio.wait(alive, timeout=0.1)
        await self.store.close()
        self._opened = None

    def writes_held(self, table: str) -> AbstractAsyncContextManager[bool]:
        """Hold every commit to a table for as long as the context lasts."""
        return self.store.tables[table]._locks.commit.held()

    async def restart(self) -> None:
        """Crash, then start another worker."""
        await self.crash()
        await self.start()

    async def close(self) -> None:
        """End everything."""
        await self.stop()
        if self._opened is not None:
            await self._opened.close()

    @property
    def store(self) -> Store:
        """The open store."""
        assert self._opened is not None
        return self._opened

    @property
    def db(self) -> TenantStore:
        """The open store's one tenant."""
        return self.store.tenant()

    # Asking.

    async def create(self, name: str, session: str = "s", **spec: Any) -> Action:
        """Ask for a session; `agent`, `conversation`, `key` are the action's, the rest is its payload."""
        agent, conversation = spec.pop("agent", name), spec.pop("conversation", None)
        return await agent_create(
            self.db,
            moniker=name,
            agent_id=AgentId(agent),
            session_id=SessionId(session),
            conversation_id=None if conversation is None else ConversationId(conversation),
            spec=spec,
            idempotency_key=spec.pop("key", None),
        )

    async def ask(self, kind: ActionKind, session: str | None = "s", **fields: Any) -> Action:
        """Put an action about a session into the queue."""
        return await enqueue(
            self.db, NewAction(kind=kind, session_id=None if session is None else SessionId(session), **fields)
        )

    async def say(self, text: str, session: str | None = "s", **fields: Any) -> Action:
        """Give a session an input."""
        return await self.ask(ActionKind.INPUT, session, payload={"text": text}, **fields)

    async def guide(self, guidance: Any, session: str | None = "s", **fields: Any) -> Action:
        """Interrupt a session."""
        return await self.ask(ActionKind.INTERRUPT, session, payload={"guidance": guidance}, **fields)

    async def lose_mark(self, action: Action) -> None:
        """Make an action that has ended look as if a crash had come before its mark."""
        epoch = (await self.action(action.id)).epoch
        await mark_action_claimed(self.db, action.id, attempts=1, owner="dead", epoch=epoch)

    async def queue_read(self) -> None:
        """Return when everything that is in the queue now was taken up: an action behind it has come and gone."""
        await self.ended(await self.ask(ActionKind.RESUME, "nobody"))

    async def pause(self, session: str | None = "s", **fields: Any) -> Action:
        return await self.ask(ActionKind.PAUSE, session, **fields)

    async def resume(self, session: str | None = "s", **fields: Any) -> Action:
        return await self.ask(ActionKind.RESUME, session, **fields)

    async def destroy(self, session: str | None = "s", **fields: Any) -> Action:
        return await self.ask(ActionKind.DESTROY, session, **fields)

    async def append_rows(self, *actions: Action) -> None:
        """Store rows as another process might have: unchecked, in one commit."""
        await queue_of(self.db).append_all(actions)

    # Looking.

    async def action(self, action: Action | ActionId) -> Action:
        """An action as it is stored now."""
        return await get_action(self.db, action if isinstance(action, str) else action.id)

    async def ended(self, *actions: Action) -> list[Action]:
        """The actions once every one is processed."""

        async def all_processed() -> bool:
            return all([(await self.action(action)).processed for action in actions])

        await eventually(all_processed)
        return [await self.action(action) for action in actions]

    async def done(self, *actions: Action) -> None:
        """Return once every action is done; fail when one ends in another way."""
        for action in await self.ended(*actions):
            assert action.status is ActionStatus.DONE, (action.kind, action.status, action.error)

    async def error_of(self, action: Action, status: ActionStatus = ActionStatus.FAILED) -> str:
        """The stored error of an action that ends with `status`."""
        (ended,) = await self.ended(action)
        assert ended.status is status, (ended.kind, ended.status, ended.error)
        return ended.error or ""

    async def open_actions(self) -> list[Action]:
        """Every action that has not ended."""
        return await list_open_actions(self.db)

    async def state(self, session: str = "s") -> AgentState:
        """A session's row."""
        row = await find_agent_state(self.db, session_id=SessionId(session))
        assert row is not None, f"session {session!r} is not stored"
        return row

    async def until(self, status: SessionStatus, session: str = "s", deadline_s: float = 10) -> AgentState:
        """A session's row once it has a status."""

        async def so() -> bool:
            row = await find_agent_state(self.db, session_id=SessionId(session))
            return row is not None and row.status is status

        await eventually(so, deadline_s)
        return await self.state(session)

    async def steps(self, session: str = "s") -> list[AgentStep]:
        """A session's steps, in order."""
        wanted = StepFilter(session_id=SessionId(session))
        return list((await list_agent_steps(self.db, wanted, limit=500)).items)

    async def raw_step_ids(self) -> list[str]:
        """The id of every step in the journal, as often as it is there; fences left out."""
        ids = (await journal_of(self.db).values("id")).to_pylist()
        return [str(value) for value in ids if not str(value).startswith("fence:")]

    async def texts(self, session: str = "s") -> list[str | None]:
        """What a session's steps said."""
        return [step.text for step in await self.steps(session)]

    async def until_steps(self, count: int, session: str = "s") -> list[AgentStep]:
        """A session's steps once there are at least so many."""

        async def enough() -> bool:
            return len(await self.steps(session)) >= count

        await eventually(enough)
        return await self.steps(session)

    async def thread(self, conversation: str) -> str:
        """Make a conversation."""
        await create_conversation(self.db, conversation_id=ConversationId(conversation))
        return conversation

    async def messages(self, conversation: str) -> list[Message]:
        """A conversation's transcript."""
        return list((await list_messages(self.db, ConversationId(conversation), limit=500)).items)

    def now(self) -> datetime:
        """The clock's time."""
        return self.clock.now()

    def quiet(self) -> None:
        """Fail when the worker has logged an error."""
        assert not self.log.of("error"), self.log.of("error")


@asynccontextmanager
async def workshop(
    folder: Path,
    *monikers: Moniker[Any],
    model: ChatModel | None = None,
    start: bool = True,
    quiet: bool = True,
    **settings: Any,
) -> AsyncIterator[Workshop]:
    """A workshop in `folder`, with a worker that has started unless `start` is false.

    Errors in the worker's log fail the test unless `quiet` is false.
    """
    shop = Workshop(folder, monikers, model or OfflineModel(), settings)
    try:
        await shop.open()
        if start:
            await shop.start()
        yield shop
        await shop.stop()
        if quiet:
            shop.quiet()
    finally:
        await shop.close()
