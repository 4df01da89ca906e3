"""One process of a race or a crash test on a store: `python -m tests.crash.store_child ROLE FOLDER '{"option": ...}'`.

It opens the store, prints `ready`, begins at the first line on its standard input (the barrier), reports what was
acknowledged as lines of JSON, each written before the process goes on, and ends with `end`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from store import filters
from store.actions import ActionKind, queue_of
from store.agent_state import states_of, upsert_agent_state
from store.agent_steps import append_agent_step, journal_of
from store.changes import Feed
from store.clock import SystemClock, SystemIds
from store.copilot_agents import NewVersion, save_version
from store.crashpoints import CrashPoint, crash_at, no_crash
from store.database import Store, open_store
from store.enqueueing import NewAction, enqueue
from store.errors import ConflictError
from store.ids import ActionId, SessionId
from store.marks import mark_action_processed_async
from store.options import StoreOptions
from store.retention import RetentionRules, retain
from store.upkeep import Upkeep, UpkeepRules
from tests.store.rows import a_state, a_step

AT_ONCE = 4
RULES = UpkeepRules(commits=1, keep=timedelta(seconds=2), index_rows=20)

Role = Callable[[Store, dict[str, Any]], Awaitable[None]]


def tell(**fact: Any) -> None:
    """Report a fact; it is out before this returns, whatever happens to the process then."""
    os.write(1, json.dumps(fact).encode() + b"\n")


async def told() -> str:
    """The next line on the standard input."""
    return await asyncio.to_thread(sys.stdin.readline)


class Stderr:
    """Upkeep's log."""

    def debug(self, event: str, **fields: object) -> None:
        """Nothing to say."""

    def warning(self, event: str, **fields: object) -> None:
        tell(warning=f"{event} {fields}")


def stop_at(point: str, visits: int) -> CrashPoint:
    """Stops the process (SIGSTOP) at one visit of a crash point; it goes on when it is let (SIGCONT)."""
    seen: list[str] = []

    def visit(name: str) -> None:
        if name == point:
            seen.append(name)
            if len(seen) == visits:
                tell(stopped=point)
                os.kill(os.getpid(), signal.SIGSTOP)

    return visit


async def append_actions(store: Store, options: dict[str, Any]) -> None:
    """Append actions, a few at a time, and report each id when it is acknowledged."""
    name, db = options["name"], store.tenant()

    async def one(number: int) -> None:
        action = await enqueue(db, NewAction(ActionKind.INPUT, session_id=SessionId(f"{name}-{number}"), lane="*/00"))
        tell(action=action.id)

    for start in range(0, options["count"], AT_ONCE):
        await asyncio.gather(*[one(number) for number in range(start, min(start + AT_ONCE, options["count"]))])


async def append_steps(store: Store, options: dict[str, Any]) -> None:
    """Append the steps of a few sessions side by side, each one after the other."""
    name, db = options["name"], store.tenant()

    async def session(number: int) -> None:
        for iteration in range(options["count"] // AT_ONCE):
            step = a_step(f"{name}-{number}", iteration)
            await append_agent_step(db, step)
            tell(step=step.id)

    await asyncio.gather(*[session(number) for number in range(AT_ONCE)])


async def upsert_states(store: Store, options: dict[str, Any]) -> None:
    """Write the rows of a few sessions again and again."""
    name, db = options["name"], store.tenant()
    for iteration in range(options["count"] // AT_ONCE):
        await upsert_agent_state(db, [a_state(f"{name}-{at}", iteration=iteration) for at in range(AT_ONCE)])
        tell(iteration=iteration)


async def mark_actions(store: Store, options: dict[str, Any]) -> None:
    """Mark the given actions as done, a few at a time."""
    db, ids = store.tenant(), [ActionId(action_id) for action_id in options["ids"]]

    async def one(action_id: ActionId) -> None:
        await mark_action_processed_async(db, action_id, owner=options["name"])
        tell(marked=action_id)

    for start in range(0, len(ids), AT_ONCE):
        await asyncio.gather(*[one(action_id) for action_id in ids[start : start + AT_ONCE]])


async def write_everything(store: Store, options: dict[str, Any]) -> None:
    """All kinds of writes at the same time."""
    roles = (append_actions, append_steps, upsert_states, mark_actions)
    await asyncio.gather(*[role(store, options) for role in roles])


async def delete_rows(store: Store, options: dict[str, Any]) -> None:
    """Delete the given steps, actions and sessions one by one, each in a commit of its own."""
    db = store.tenant()
    for step, action, session in zip(*(options[name] for name in ("steps", "actions", "sessions")), strict=True):
        tell(steps=await journal_of(db).delete(filters.equals("id", step)))
        tell(actions=await queue_of(db).delete(filters.equals("id", action)))
        tell(sessions=await states_of(db).delete(filters.equals("session_id", session)))


async def trim_steps(store: Store, options: dict[str, Any]) -> None:
    """One turn of retention that leaves each session its last step."""
    async for bite in retain(store.tenant(), RetentionRules(steps_count=1, events_age=None, sessions=1)):
        tell(table=bite.table, rows=bite.rows)


async def follow(store: Store, options: dict[str, Any]) -> None:
    """Follow the queue until told to end, then report what both feeds gave out."""
    table = queue_of(store.tenant())
    created, changed = Feed(table, "created", 0), Feed(table, "changed", 0)
    seen: list[str] = []
    status: dict[str, str] = {}
    end = asyncio.create_task(told())
    async with store.watch("queue") as watch:
        while True:
            last = end.done()
            seen += [row.item.id for row in await created.poll()]
            status |= {row.item.id: row.item.status.value for row in await changed.poll()}
            if last:
                break
            news = asyncio.create_task(watch.wait())
            await asyncio.wait([news, end], return_when=asyncio.FIRST_COMPLETED)
            news.cancel()
    tell(seen=seen, status=status)


async def keep_up(store: Store, options: dict[str, Any]) -> None:
    """Upkeep of every table, without rest, until told to end."""
    upkeep, end, rounds = Upkeep(store, RULES, Stderr()), asyncio.create_task(told()), 0
    while not end.done():
        rounds += len(await upkeep.once(force=True))
    tell(rounds=rounds)


async def compact_once(store: Store, options: dict[str, Any]) -> None:
    """One compaction of the queue."""
    await store.tables["queue"].compact(keep=RULES.keep)
    tell(compacted=True)


async def same_keys(store: Store, options: dict[str, Any]) -> None:
    """Use the idempotency keys that other processes use at the same time."""
    db = store.tenant()
    for number in range(options["count"]):
        action = await enqueue(db, NewAction(ActionKind.INPUT, idempotency_key=f"key-{number}", lane="*/00"))
        tell(key=action.idempotency_key, id=action.id)


async def save_agents(store: Store, options: dict[str, Any]) -> None:
    """Save versions of one agent that other processes save at the same time; report which were taken."""
    name, db = options["name"], store.tenant()
    for based_on in range(options["count"]):
        try:
            saved = await save_version(db, NewVersion("sales", "coach", {"by": name}, based_on))
            tell(version=saved.version, by=name)
        except ConflictError as error:
            tell(refused=str(error))


ROLES: dict[str, Role] = {
    function.__name__: function
    for function in (
        append_actions,
        append_steps,
        upsert_states,
        mark_actions,
        write_everything,
        delete_rows,
        trim_steps,
        follow,
        keep_up,
        compact_once,
        same_keys,
        save_agents,
    )
}


async def main(role: str, folder: str, options: dict[str, Any]) -> None:
    """Play `role` on the store in `folder`."""
    crash_point = crash_at(options["crash_at"]) if "crash_at" in options else no_crash
    if "stop_at" in options:
        crash_point = stop_at(*options["stop_at"])
    if options.get("open_late"):
        tell(ready=True)
        await told()
    store_options = StoreOptions(folder, fsync=bool(options.get("fsync")))
    store = await open_store(store_options, clock=SystemClock(), ids=SystemIds(), crash_point=crash_point)
    if not options.get("open_late"):
        tell(ready=True)
        await told()
    await ROLES[role](store, options)
    await store.close()
    tell(end=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
