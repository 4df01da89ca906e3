"""A check of a whole store, and the mending of what it found."""

from __future__ import annotations

from collections.abc import Iterable

from runtime.checking.files import leftover_files
from runtime.checking.finding import Finding, Mended
from runtime.checking.image import read_image
from runtime.checking.keys import check_rows
from runtime.checking.sessions import check_sessions
from runtime.checking.small import check_small
from store.database import TenantStore


async def check(db: TenantStore) -> list[Finding]:
    """Every fault of the rows, and leftover files; it may run beside workers."""
    image = await read_image(db)
    found = [fault async for fault in check_rows(db)]
    found += [fault async for fault in check_small(db, image)]
    found += [fault async for fault in check_sessions(db, image)]
    return found + list(leftover_files(db.store.options.folder, db.clock))


async def mend(findings: Iterable[Finding]) -> list[Mended]:
    """Mend what can be mended safely. No worker may hold the store.

    Each fault is mended in a commit of its own: crash in between, and the next check finds the rest.
    """
    return [Mended(fault, None if fault.mend is None else await fault.mend()) for fault in findings]
