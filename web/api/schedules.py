"""Schedules: actions that come again and again, by a cron expression or an interval."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from typing_extensions import TypedDict

from store import ActionKind, Schedule
from store.conversations import get_conversation
from store.ids import AgentId, ConversationId, ScheduleId, SessionId
from store.schedules import add_schedule, delete_schedule, enable_schedule, get_schedule, list_schedules
from store.timetable import BadRuleError, Rule, rule_of, upcoming
from web.api.agents import spec_of
from web.lookup import get_known, require_agent
from web.problems import refused
from web.queries import PageQuery
from web.routes import Answer, Api, Many, One, Operation
from web.schemas import CreateAgent, CreateSchedule, PatchSchedule, ScheduledInput
from web.shapes import Json, many, shape, time_of

_SHOWN_MOMENTS = 3


class ShownSchedule(TypedDict):
    """A schedule and its next moments."""

    schedule_id: str
    rule: Any
    kind: ActionKind
    payload: Any
    enabled: bool
    next_at: datetime | None
    last_at: datetime | None
    created_at: datetime
    timezone: str
    agent_id: str | None
    session_id: str | None
    last_action_id: str | None
    upcoming: list[datetime]


class Deleted(TypedDict):
    """What is gone."""

    schedule_id: str
    deleted: bool


async def create_schedule(api: Api, *, body: CreateSchedule) -> Answer:
    """Store a schedule. Of moments that pass while no worker runs, one is made up for."""
    async with api.turns.of(schedule=body.schedule_id):
        try:
            made = await _add(api, body)
        except BadRuleError as error:
            raise refused(422, str(error), errors=[{"field": error.field, "message": str(error)}]) from error
    return Answer(_shown(made), 201)


async def _add(api: Api, body: CreateSchedule) -> Schedule:
    how: dict[str, Any] = {
        "rule": Rule(cron=body.cron, every_s=body.every_s),
        "timezone": body.timezone,
        "schedule_id": None if body.schedule_id is None else ScheduleId(body.schedule_id),
        "enabled": body.enabled,
    }
    what = await _creating(api, body.agent_create) if body.agent_create else await _saying(api, body.agent_input)
    return await add_schedule(api.db, **how, **what)


async def _creating(api: Api, create: CreateAgent) -> dict[str, Any]:
    """What is stored for a session that begins anew each time."""
    thread = None if create.conversation_id is None else ConversationId(create.conversation_id)
    if thread is not None:
        await get_conversation(api.db, thread)
    return {
        "kind": ActionKind.CREATE,
        "payload": {"moniker": create.moniker, **spec_of(api, create), "urgency": create.urgency},
        "agent_id": AgentId(create.agent_id or create.moniker),
        "conversation_id": thread,
        "urgency": create.urgency,
    }


async def _saying(api: Api, say: ScheduledInput | None) -> dict[str, Any]:
    """What is stored for an input to a session, or to the latest one of an agent at that time."""
    if say is None:
        raise refused(422, "give either agent_create or agent_input")
    session = None if say.session_id is None else await get_known(api.db, SessionId(say.session_id))
    if say.agent_id is not None:
        await require_agent(api.db, AgentId(say.agent_id))
    named = None if say.agent_id is None else AgentId(say.agent_id)
    return {
        "kind": ActionKind.INPUT,
        "payload": {"text": say.text, "data": say.data},
        "agent_id": named if session is None else session.agent_id,
        "session_id": None if session is None else session.session_id,
        "urgency": say.urgency,
    }


async def list_schedules_page(api: Api, *, query: PageQuery) -> Answer:
    """Schedules, newest first."""
    page = await list_schedules(api.db, limit=query.limit, cursor=query.cursor)
    return Answer(many(map(_shown, page.items), page.next_cursor))


async def show_schedule(api: Api, *, schedule_id: str) -> Answer:
    """One schedule."""
    return Answer(_shown(await get_schedule(api.db, ScheduleId(schedule_id))))


async def patch_schedule(api: Api, *, schedule_id: str, body: PatchSchedule) -> Answer:
    """Let it fire from now on, or no more."""
    return Answer(_shown(await enable_schedule(api.db, ScheduleId(schedule_id), enabled=body.enabled)))


async def remove_schedule(api: Api, *, schedule_id: str) -> Answer:
    """Forget it; what it has put into the queue stays."""
    await delete_schedule(api.db, ScheduleId(schedule_id))
    return Answer({"schedule_id": schedule_id, "deleted": True})


def _shown(schedule: Schedule) -> Json:
    try:
        moments = upcoming(rule_of(schedule.rule), schedule.timezone, schedule.next_at, count=_SHOWN_MOMENTS)
    except BadRuleError:  # a newer version's rule, or a zone that this machine does not have
        moments = []
    return {**shape(schedule), "upcoming": [time_of(moment) for moment in moments]}


OPERATIONS = (
    Operation(
        "POST",
        "/api/schedules",
        create_schedule,
        "schedules",
        "Schedule a new session or an input",
        One(ShownSchedule),
        201,
        body=CreateSchedule,
        problems=(404, 409),
    ),
    Operation(
        "GET",
        "/api/schedules",
        list_schedules_page,
        "schedules",
        "List schedules, newest first",
        Many(ShownSchedule),
        query=PageQuery,
    ),
    Operation(
        "GET",
        "/api/schedules/{schedule_id}",
        show_schedule,
        "schedules",
        "One schedule",
        One(ShownSchedule),
        problems=(404,),
    ),
    Operation(
        "PATCH",
        "/api/schedules/{schedule_id}",
        patch_schedule,
        "schedules",
        "Enable or disable a schedule",
        One(ShownSchedule),
        body=PatchSchedule,
        problems=(404,),
    ),
    Operation(
        "DELETE",
        "/api/schedules/{schedule_id}",
        remove_schedule,
        "schedules",
        "Delete a schedule",
        One(Deleted),
        problems=(404,),
    ),
)
