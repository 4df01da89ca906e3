"""What `research` keeps from session to session: each finding as a fact, with the document it stands in.

A finding is a model's words about a document that somebody else wrote: it is kept as tainted, whatever it says.
"""

from __future__ import annotations

from collections.abc import Sequence

from runtime.contract import Json
from runtime.memory.port import Memory, MemoryKind, Taint

MAX_KNOWN = 8


async def recalled_findings(memory: Memory, question: str) -> list[Json]:
    """What earlier sessions of this agent found about a question."""
    found = await memory.recall(question, kinds=(MemoryKind.FACT,), limit=MAX_KNOWN)
    return [{"claim": one.text, "source": one.source} for one in found.items]


async def remember_findings(memory: Memory, question: str, kept: Sequence[Json], title: str) -> None:
    """Keep each finding of a document. A step that is run again keeps it once."""
    for finding in kept:
        await memory.remember(
            finding["claim"],
            MemoryKind.FACT,
            subject=question,
            source=title,
            data={"quote": finding["quote"]},
            taint=Taint.of(title),
        )
