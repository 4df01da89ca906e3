"""`ctx.memory` over the store. **Invariant: what was recalled once in a step is recalled again when it is repeated.**

Each call is a record. A recall that crashed before its record is made again and may find more; after it, its result is
read. A write that crashed between memory and record is made again under the same id, which is there: it is stored once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from runtime.calls import RecordKind
from runtime.guard.judgement import StepGates
from runtime.guard.port import Channel
from runtime.guard.taint import UNKNOWN, Taint
from runtime.llm.port import EmbeddingModel, LlmError
from runtime.memory.port import FOR_AGENT, Bound, Memory, Recollection, Recollections, moment_of
from runtime.ports import Json, MonikerError
from runtime.stepcalls import StepCalls
from runtime.usage import Bill
from store import memories
from store.database import TenantStore
from store.jsontext import json_dumps
from store.memories import NEVER, Allowed, MemoryKind, MemoryVector, Wanted
from store.tablesearch import Scored

MAX_RECALLED = 100
#: a longer text is compared by its beginning; models for vectors take some 8,000 tokens
_EMBEDDED_CHARS = 8_000
_EMBED_S = 20.0


@dataclass(frozen=True, slots=True)
class Embedded:
    """A text's vector, and which model it is from or why there is none."""

    vector: MemoryVector | None = None
    told: Json | None = None

    @property
    def searched(self) -> str:
        """What a recall with it goes by."""
        return "words" if self.vector is None else "words and vectors"


class StepMemory:
    """The memory of one step of one session."""

    def __init__(
        self,
        calls: StepCalls,
        db: TenantStore,
        embedder: EmbeddingModel | None = None,
        *,
        user_id: str = "",
        gates: StepGates | None = None,
    ) -> None:
        identity = calls.session.identity
        self._calls = calls
        self._db = db
        self._embedder = embedder
        self._gates = gates
        self._place = Allowed(str(identity.agent_id), user_id, str(identity.conversation_id or ""))

    def for_user(self, user_id: str) -> Memory:
        """See `Memory.for_user`."""
        return StepMemory(self._calls, self._db, self._embedder, user_id=user_id, gates=self._gates)

    async def remember(
        self,
        text: str,
        kind: MemoryKind = MemoryKind.FACT,
        *,
        subject: str = "",
        source: str = "",
        data: Json | None = None,
        taint: Taint | None = None,
        bound_to: Collection[Bound] = FOR_AGENT,
        expires_in_s: float | None = None,
        key: str = "",
    ) -> str:
        """See `Memory.remember`."""
        place = self._bound(bound_to)
        if not text.strip() or len(text) > memories.MAX_TEXT_CHARS:
            raise MonikerError(f"a memory has 1 to {memories.MAX_TEXT_CHARS:,} characters, this one has {len(text):,}")
        name = self._key("remember", key)
        said = [text, kind, subject, source, data, sorted(bound_to), self._place.user_id]
        digest = _digest(said)
        session = self._calls.session
        memory = memories.Memory(
            memory_id=memories.memory_id_of(session.session_id, session.tried_from, json_dumps([name, digest])),
            created_at=self._calls.clock.now(),
            kind=kind,
            subject=subject,
            session_id=session.session_id,
            agent_id=place.agent_id,
            user_id=place.user_id,
            conversation_id=place.conversation_id,
            text=text,
            source=source,
            data=data,
            author=self._place.agent_id,
            taint=(Taint.of(UNKNOWN) if taint is None else taint).written(),
            expires_at=moment_of(self._calls.clock.now(), expires_in_s, NEVER),
        )
        bill = self._bill(text)
        made = await self._calls.recorded(
            name,
            partial(self._write, memory, bill),
            kind=RecordKind.REMEMBER,
            digest=digest,
            facts=_write_facts,
            bill=bill,
        )
        return str(made["memory_id"])

    async def recall(
        self,
        query: str,
        *,
        kinds: Sequence[MemoryKind] = (),
        subject: str = "",
        limit: int = 5,
        key: str = "",
    ) -> Recollections:
        """See `Memory.recall`."""
        if not 1 <= limit <= MAX_RECALLED:
            raise MonikerError(f"limit {limit} is out of range; recall 1 to {MAX_RECALLED} memories")
        wanted = Wanted(self._place, tuple(kinds), subject)
        digest, name = _digest([query, list(kinds), subject, limit, self._place.user_id]), self._key("recall", key)
        bill = self._bill(query)
        made = await self._calls.recorded(
            name,
            partial(self._search, query, wanted, limit, bill),
            kind=RecordKind.RECALL,
            digest=digest,
            facts=_recall_facts,
            bill=bill,
        )
        found = Recollections.model_validate(made["recollections"])
        self._calls.add_taint(found.taint.sources)
        return await self._let_in(found, name if key else "")

    async def _let_in(self, found: Recollections, name: str) -> Recollections:
        """What of the memory may reach a prompt: what the gates hold back was not found."""
        gates = self._gates
        if gates is None or not gates.see(Channel.MEMORY):
            return found
        admitted = []
        for number, item in enumerate(found.items, start=1):
            source, key = f"memory:{item.memory_id}", f"{name}:{number}" if name else ""
            one = await gates.admit(item.text, Channel.MEMORY, source, tainted=bool(item.taint), key=key)
            admitted.append((item, one))
        kept = tuple(item.model_copy(update={"text": one.text}) for item, one in admitted if one.block is None)
        return found.model_copy(update={"items": kept})

    async def forget(self, *, memory_id: str = "", source: str = "", subject: str = "", key: str = "") -> int:
        """See `Memory.forget`."""
        if not (memory_id or source or subject):
            raise MonikerError("nothing was named to be forgotten; give memory_id, source or subject")

        async def delete() -> Json:
            ids = [memory_id] if memory_id else []
            found = await memories.delete_memories(
                self._db, ids=ids, source=source, subject=subject, allowed=self._place
            )
            return {"forgotten": found}

        digest = _digest([memory_id, source, subject, self._place.user_id])
        name = self._key("forget", key)
        made = await self._calls.recorded(name, delete, kind=RecordKind.REMEMBER, digest=digest, facts=dict)
        return int(made["forgotten"])

    def _key(self, call: str, key: str) -> str:
        return f"memory:{call}:{key or self._calls.next_number(f'memory:{call}')}"

    def _bound(self, bound_to: Collection[Bound]) -> Allowed:
        """The place that a memory is written to."""
        for bound, own in ((Bound.USER, self._place.user_id), (Bound.CONVERSATION, self._place.conversation_id)):
            if bound in bound_to and not own:
                cure = "take memory.for_user(...)" if bound is Bound.USER else "the session belongs to none"
                raise MonikerError(f"the memory cannot be bound to a {bound.value}, there is none here: {cure}")
        return Allowed(
            self._place.agent_id if Bound.AGENT in bound_to else "",
            self._place.user_id if Bound.USER in bound_to else "",
            self._place.conversation_id if Bound.CONVERSATION in bound_to else "",
        )

    async def _write(self, memory: memories.Memory, bill: Bill | None) -> Json:
        memory = replace(memory, taint=Taint.read(memory.taint).joined(self._calls.taint).written())
        embedded = await self._embedded(memory.text, bill)
        await memories.write_memory(self._db, memory, embedded.vector)
        return {"memory_id": memory.memory_id, "taint": memory.taint, "kind": memory.kind, "embedding": embedded.told}

    async def _search(self, query: str, wanted: Wanted, limit: int, bill: Bill | None) -> Json:
        embedded = await self._embedded(query, bill)
        found = await memories.recall_memories(self._db, query, wanted, vector=embedded.vector, limit=limit)
        recollections = Recollections.model_validate(
            {"items": [_recollection(one) for one in found], "searched": embedded.searched}
        )
        return {"recollections": recollections.model_dump(mode="json"), "embedding": embedded.told}

    def _bill(self, text: str) -> Bill | None:
        """What is told of the vector of `text`; None when there will be none."""
        return Bill() if self._embedder is not None and text.strip() else None

    async def _embedded(self, text: str, bill: Bill | None) -> Embedded:
        """A text's vector. A model that fails leaves the words to go by, and the record says so."""
        if self._embedder is None or bill is None:
            return Embedded()
        try:
            reply = await self._embedder.embed([text[:_EMBEDDED_CHARS]], deadline_s=_EMBED_S)
        except LlmError as error:
            return Embedded(told={"error": str(error)[:500]})
        bill.add(reply)
        return Embedded(MemoryVector(reply.model, reply.vectors[0]), {"model": reply.model})


def _recollection(found: Scored[memories.Memory]) -> Recollection:
    one = found.item
    return Recollection(
        memory_id=one.memory_id,
        kind=one.kind,
        text=one.text,
        score=found.score,
        created_at=one.created_at,
        session_id=one.session_id,
        subject=one.subject,
        source=one.source,
        author=one.author,
        taint=tuple(Taint.read(one.taint).written()),
        data=one.data,
    )


def _digest(said: list[Any]) -> str:
    return hashlib.sha256(json_dumps(said).encode()).hexdigest()


def _write_facts(made: Json) -> Json:
    return dict(made)


def _recall_facts(made: Json) -> Json:
    found = Recollections.model_validate(made["recollections"])
    return {
        "found": len(found.items),
        "memory_ids": [item.memory_id for item in found.items],
        "searched": found.searched,
        "taint": found.taint.written(),
        "embedding": made["embedding"],
    }
