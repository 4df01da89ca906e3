"""Steps: the journal of the sessions."""

from __future__ import annotations

from store import AgentStep, StepFilter, list_agent_steps, list_agent_steps_latest
from store.ids import AgentId, SessionId
from web.queries import LatestStepsQuery, StepsQuery
from web.routes import Answer, Api, Many, Operation
from web.shapes import many, shape


async def list_steps(api: Api, *, query: StepsQuery) -> Answer:
    """Steps by iteration within a session, else by time."""
    wanted = StepFilter(
        session_id=_session(query.session_id),
        agent_id=_agent(query.agent_id),
        min_iteration=query.min_iteration,
        max_iteration=query.max_iteration,
        after_iteration=query.after_iteration,
        since_created_at=query.since,
        status=query.status,
    )
    page = await list_agent_steps(api.db, wanted, order=query.order, limit=query.limit, cursor=query.cursor)
    return Answer(many(map(shape, page.items), page.next_cursor))


async def list_latest_steps(api: Api, *, query: LatestStepsQuery) -> Answer:
    """The newest steps of a session or an agent, newest first."""
    found = await list_agent_steps_latest(
        api.db, session_id=_session(query.session_id), agent_id=_agent(query.agent_id), limit=query.limit
    )
    return Answer(many(map(shape, found)))


def _session(value: str | None) -> SessionId | None:
    return None if value is None else SessionId(value)


def _agent(value: str | None) -> AgentId | None:
    return None if value is None else AgentId(value)


OPERATIONS = (
    Operation("GET", "/api/agent-steps", list_steps, "steps", "List steps", Many(AgentStep), query=StepsQuery),
    Operation(
        "GET",
        "/api/agent-steps/latest",
        list_latest_steps,
        "steps",
        "The newest steps of a session or an agent",
        Many(AgentStep),
        query=LatestStepsQuery,
    ),
)
