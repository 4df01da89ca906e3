"""A memory without a store, for tests of monikers. It finds by words, and keeps what it was told in `kept`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from runtime.guard.taint import UNKNOWN, Taint
from runtime.memory.port import FOR_AGENT, Bound, Memory, MemoryKind, Recollection, Recollections, moment_of
from runtime.ports import Clock, Json
from store.fulltext import folded, words_of
from store.memories import NEVER


@dataclass
class FakeMemory:
    """Keeps memories in a list; all that share it share their memories, whoever they are."""

    clock: Clock
    kept: list[Recollection] = field(default_factory=list)
    user_id: str = ""

    def for_user(self, user_id: str) -> Memory:
        """The same memory."""
        return replace(self, user_id=user_id)

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
        """Put it into `kept`. What is to expire at once is not kept."""
        memory_id = f"memory-{len(self.kept) + 1}"
        now = self.clock.now()
        if moment_of(now, expires_in_s, NEVER) > now:
            tainted = Taint.of(UNKNOWN) if taint is None else taint
            self.kept.append(
                Recollection(
                    memory_id=memory_id,
                    kind=kind,
                    text=text,
                    score=0.0,
                    created_at=now,
                    subject=subject,
                    source=source,
                    taint=tuple(tainted.written()),
                    data=data,
                )
            )
        return memory_id

    async def recall(
        self, query: str, *, kinds: Sequence[MemoryKind] = (), subject: str = "", limit: int = 5, key: str = ""
    ) -> Recollections:
        """Those that share the most words with `query`."""
        wanted = {folded(word) for word in words_of(query)}
        scored = [
            one.model_copy(update={"score": float(len(wanted & {folded(word) for word in words_of(one.text)}))})
            for one in self.kept
            if (not kinds or one.kind in kinds) and subject in ("", one.subject)
        ]
        found = sorted((one for one in scored if one.score), key=lambda one: one.score, reverse=True)
        return Recollections(items=tuple(found[:limit]))

    async def forget(self, *, memory_id: str = "", source: str = "", subject: str = "", key: str = "") -> int:
        """Take out of `kept` what meets every condition given."""
        stays = [
            one
            for one in self.kept
            if not (
                memory_id in ("", one.memory_id)
                and (not source or source == one.source or source in one.taint)
                and subject in ("", one.subject)
            )
        ]
        gone = len(self.kept) - len(stays)
        self.kept[:] = stays
        return gone
