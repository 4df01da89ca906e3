"""What a moniker is given as `ctx`: one object a step, made of small services.

Records are the heart of it: a finished call is stored before its result is used, so a step that is run again after a
crash reads it instead of paying twice. Crash before the record's commit: the call is made again. After: it is read.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel

from runtime.contract import Clock, Files, Json, Log
from runtime.llm.port import ChatModel, ChatReply, ChatRequest, Usage
from runtime.session import LiveSession
from store.actions import ActionKind, NewAction, enqueue
from store.agent_events import AgentEvent, append_event
from store.database import TenantStore
from store.ids import SessionId
from store.jsontext import json_dumps
from store.records import Record, append_record, list_records

T = TypeVar("T")


_NOTHING_USED = Usage()


@dataclass(frozen=True, slots=True)
class Services:
    """What every step of every session shares."""

    db: TenantStore
    llm: ChatModel
    files: Files
    clock: Clock
    log: Any


class StepContext:
    """The `Ctx` of one step of one session."""

    __slots__ = (
        "_asked",
        "_calls",
        "_config",
        "_known",
        "_look_for_records",
        "_looking",
        "_sequence",
        "_services",
        "_session",
        "usage",
    )

    def __init__(self, services: Services, session: LiveSession, config: BaseModel, *, look_for_records: bool) -> None:
        self._services = services
        self._session = session
        self._config = config
        self._look_for_records = look_for_records
        self._known: dict[str, Record] = {}
        self._looking = asyncio.Lock()
        self._sequence = 0
        self._asked = 0
        self._calls = 0
        self.usage = _NOTHING_USED

    @property
    def config(self) -> Any:
        return self._config

    @property
    def task(self) -> str:
        return self._session.spec.task

    @property
    def session_id(self) -> str:
        return self._session.session_id

    @property
    def agent_id(self) -> str:
        return self._session.identity.agent_id

    @property
    def conversation_id(self) -> str | None:
        return self._session.identity.conversation_id

    @property
    def iteration(self) -> int:
        return self._session.iteration + 1

    @property
    def llm(self) -> ChatModel:
        return _RecordedModel(self, self._services.llm)

    @property
    def files(self) -> Files:
        return self._services.files

    @property
    def clock(self) -> Clock:
        return self._services.clock

    @property
    def log(self) -> Log:
        bound: Log = self._services.log.bind(session_id=self.session_id, iteration=self.iteration)
        return bound

    async def record(self, key: str, fn: Callable[[], Awaitable[T]], *, kind: str = "tool") -> T:
        """See `Ctx.record`. The result must survive a round trip through JSON."""
        return await self.recorded(key, fn, kind=kind, digest="")

    async def recorded(self, key: str, fn: Callable[[], Awaitable[T]], *, kind: str, digest: str) -> T:
        """`record` for a call whose request may change: a stored result of another `digest` is not used."""
        earlier = (await self._records()).get(key)
        if earlier is not None and earlier.digest == digest:
            return earlier.result  # type: ignore[no-any-return]
        began = self.clock.monotonic()
        result = await fn()
        record = self._record(key, kind, digest, result, (self.clock.monotonic() - began) * 1000)
        await append_record(self._services.db, record)
        self._known[key] = record
        return result

    async def emit(self, kind: str, data: Json) -> None:
        """See `Ctx.emit`."""
        sequence = self._next()
        event = AgentEvent(
            id=f"{self.session_id}:{self.iteration}:{sequence}",
            created_at=self.clock.now(),
            session_id=self._session.session_id,
            iteration=self.iteration,
            event_seq=sequence,
            kind=kind,
            data=data,
        )
        await append_event(self._services.db, event)

    async def enqueue(self, kind: str, *, session_id: str, payload: Json) -> str:
        """See `Ctx.enqueue`."""
        # Counted apart: a step that is repeated skips the numbers of the records it finds, not those of its requests.
        self._asked += 1
        key = f"{self.session_id}:{self.iteration}:asked:{self._asked}"
        new = NewAction(kind=ActionKind(kind), session_id=SessionId(session_id), payload=payload, idempotency_key=key)
        return (await enqueue(self._services.db, new)).id

    def next_call(self) -> int:
        """The number of the model call about to be made in this step."""
        self._calls += 1
        return self._calls

    def add_usage(self, usage: Usage) -> None:
        """Count what a call used, whether it was made or read from its record."""
        self.usage = self.usage.plus(usage)

    async def _records(self) -> dict[str, Record]:
        """The step's records; only a step that may have been tried before has any to read."""
        if self._look_for_records:
            async with self._looking:
                await self._look()
        return self._known

    async def _look(self) -> None:
        if self._look_for_records:
            stored = await list_records(self._services.db, self._session.session_id, self.iteration)
            self._known.update({record.key: record for record in stored})
            self._look_for_records = False

    def _record(self, key: str, kind: str, digest: str, result: Any, latency_ms: float) -> Record:
        return Record(
            id=f"{self.session_id}:{self.iteration}:{key}",
            created_at=self.clock.now(),
            session_id=self._session.session_id,
            iteration=self.iteration,
            event_seq=self._next(),
            key=key,
            kind=kind,
            digest=digest,
            result=result,
            usage=None,
            latency_ms=latency_ms,
        )

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence


class _RecordedModel:
    """A chat model whose finished calls are records of the step."""

    def __init__(self, context: StepContext, model: ChatModel) -> None:
        self._context = context
        self._model = model

    @property
    def label(self) -> str:
        return self._model.label

    async def chat(self, request: ChatRequest) -> ChatReply:
        async def call() -> Json:
            reply: Json = (await self._model.chat(request)).model_dump(mode="json")
            return reply

        digest = hashlib.sha256(json_dumps(request.model_dump(mode="json")).encode()).hexdigest()
        key = f"llm:{self._context.next_call()}"
        reply = ChatReply.model_validate(await self._context.recorded(key, call, kind="model", digest=digest))
        self._context.add_usage(reply.usage)
        return reply
