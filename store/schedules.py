"""Schedules: actions that are enqueued at moments, again and again.

    next_at ── due ──▶ enqueue with the key `schedule:<id>:<next_at>` ──▶ last_at = next_at, next_at = the one to come

Crash before the enqueue: the next look does it. Between it and the change of the row: the next look enqueues with the
same key, which gives the first action back. Two workers at once: one key, one action; and the row is changed only while
it still has the moment that was fired. Moments that passed while nobody looked are one: the stored `next_at` is
fired, and the next one lies after now. A clock that goes back finds `next_at` ahead and waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from store import filters, paging
from store.actions import Action, ActionKind
from store.codec import RowCodec
from store.database import TenantStore
from store.enqueueing import NewAction, enqueue
from store.errors import ConflictError, NotFoundError
from store.ids import ActionId, AgentId, ConversationId, ScheduleId, SessionId
from store.paging import Page
from store.schema import SCHEDULES
from store.scope import ScopedTable
from store.timetable import Rule, next_moment, rule_of

#: what can be scheduled
SCHEDULABLE = (ActionKind.CREATE, ActionKind.INPUT)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A row of `schedules`. `payload` is {"payload", "conversation_id", "urgency"} of the action to be enqueued."""

    schedule_id: ScheduleId
    rule: Any
    kind: ActionKind
    payload: Any
    enabled: bool
    #: the next moment; None while it is disabled
    next_at: datetime | None
    #: the moment that was fired last
    last_at: datetime | None
    created_at: datetime
    timezone: str
    agent_id: AgentId | None
    session_id: SessionId | None
    last_action_id: ActionId | None


CODEC: RowCodec[Schedule] = RowCodec(
    Schedule, SCHEDULES, json=frozenset({"rule", "payload"}), enums={"kind": ActionKind}
)


def schedules_of(db: TenantStore) -> ScopedTable[Schedule]:
    """This tenant's schedules."""
    return db.table(CODEC)


async def add_schedule(
    db: TenantStore,
    *,
    rule: Rule,
    kind: ActionKind,
    payload: Mapping[str, Any],
    timezone: str = "UTC",
    schedule_id: ScheduleId | None = None,
    agent_id: AgentId | None = None,
    session_id: SessionId | None = None,
    conversation_id: ConversationId | None = None,
    urgency: int = 0,
    enabled: bool = True,
) -> Schedule:
    """Store a schedule; its first moment is the first one after now.

    Raises `BadRuleError` for a rule that cannot be used, `ConflictError` when the id is in use.
    """
    now = db.clock.now()
    first = next_moment(rule, timezone, after=now, last=now)
    if schedule_id is not None and await find_schedule(db, schedule_id) is not None:
        raise ConflictError(f"schedule_id {schedule_id!r} is already in use; leave it out to get a new one")
    schedule = Schedule(
        schedule_id=schedule_id or ScheduleId(db.ids.new()),
        rule=rule.stored(),
        kind=kind,
        payload={"payload": dict(payload), "conversation_id": conversation_id, "urgency": urgency},
        enabled=enabled,
        next_at=first if enabled else None,
        last_at=None,
        created_at=now,
        timezone=timezone,
        agent_id=agent_id,
        session_id=session_id,
        last_action_id=None,
    )
    await schedules_of(db).upsert(schedule)
    return schedule


async def find_schedule(db: TenantStore, schedule_id: ScheduleId) -> Schedule | None:
    """One schedule, if it is there."""
    return await schedules_of(db).first(filters.equals("schedule_id", schedule_id))


async def get_schedule(db: TenantStore, schedule_id: ScheduleId) -> Schedule:
    """One schedule; raises `NotFoundError`."""
    found = await find_schedule(db, schedule_id)
    if found is None:
        raise NotFoundError("schedule", schedule_id)
    return found


async def list_schedules(db: TenantStore, *, limit: int = 100, cursor: str | None = None) -> Page[Schedule]:
    """Schedules, newest first."""
    size = paging.checked_limit(limit)
    after = None
    if cursor is not None:
        last = paging.decode_cursor(cursor, (datetime, str))
        after = filters.beyond(("created_at", "schedule_id"), (last[0], last[1]), descending=True)
    found = await schedules_of(db).find(after, order=[("created_at", True), ("schedule_id", True)], limit=size + 1)
    end = found[size - 1] if len(found) > size else None
    following = None if end is None else paging.encode_cursor((end.created_at, end.schedule_id))
    return Page(tuple(found[:size]), following)


async def list_enabled(db: TenantStore) -> list[Schedule]:
    """Every schedule that will fire, soonest first."""
    found = await schedules_of(db).find(filters.equals("enabled", True))
    return sorted([one for one in found if one.next_at is not None], key=lambda one: (one.next_at, one.schedule_id))


async def enable_schedule(db: TenantStore, schedule_id: ScheduleId, *, enabled: bool) -> Schedule:
    """Let a schedule fire from now on, or no more; what was missed meanwhile is not made up for.

    Raises `NotFoundError`, and `BadRuleError` when its rule can no longer be read.
    """
    schedule = await get_schedule(db, schedule_id)
    if schedule.enabled is enabled:
        return schedule
    now = db.clock.now()
    first = next_moment(rule_of(schedule.rule), schedule.timezone, after=now, last=now) if enabled else None
    await schedules_of(db).change_if(filters.equals("schedule_id", schedule_id), enabled=enabled, next_at=first)
    return await get_schedule(db, schedule_id)


async def delete_schedule(db: TenantStore, schedule_id: ScheduleId) -> None:
    """Forget a schedule; actions that it has enqueued stay. Raises `NotFoundError`."""
    await get_schedule(db, schedule_id)
    await schedules_of(db).delete(filters.equals("schedule_id", schedule_id))


async def fire(db: TenantStore, schedule: Schedule) -> Action | None:
    """Enqueue the action of a due moment and move the schedule on to its next one; None when it is not due.

    See the top of this file for what a crash and a race leave behind. Raises `BadRuleError`.
    """
    now, moment = db.clock.now(), schedule.next_at
    if not schedule.enabled or moment is None or moment > now:
        return None
    following = next_moment(rule_of(schedule.rule), schedule.timezone, after=max(now, moment), last=moment)
    action = await enqueue(db, _action_of(db, schedule, moment))
    await schedules_of(db).change_if(
        filters.equals("schedule_id", schedule.schedule_id),
        filters.equals("next_at", moment),
        next_at=following,
        last_at=moment,
        last_action_id=action.id,
    )
    return action


def _action_of(db: TenantStore, schedule: Schedule, moment: datetime) -> NewAction:
    about = schedule.payload if isinstance(schedule.payload, dict) else {}
    creates = schedule.kind is ActionKind.CREATE
    thread = about.get("conversation_id")
    urgency = int(about.get("urgency") or 0)
    return NewAction(
        kind=schedule.kind,
        agent_id=schedule.agent_id,
        session_id=SessionId(db.ids.new()) if creates else schedule.session_id,
        conversation_id=None if thread is None else ConversationId(thread),
        payload=about.get("payload"),
        metadata={"schedule_id": schedule.schedule_id, "moment": moment.isoformat()},
        idempotency_key=f"schedule:{schedule.schedule_id}:{moment.astimezone(UTC).isoformat()}",
        urgency=urgency,
    )
