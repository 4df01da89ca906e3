"""What a list's address may ask for. An unknown or repeated parameter, or a value that cannot be read, is a 400."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from store import ActionKind, ActionStatus, SessionStatus, StepStatus
from store.fulltext import MAX_QUESTION_CHARS
from store.memories import MemoryKind
from store.paging import MAX_LIMIT, Order
from store.search import SearchKind
from store.tracing import TraceStatus
from web.ids import MAX_ID_CHARS

_WHOLE: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_LOST_PLUS: Final = re.compile(r"(T.*) (\d\d:?\d\d)$")
_MAX_INT: Final = 2**63 - 1
MAX_NAMED_CHARS: Final = 2_000


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        if not _WHOLE.fullmatch(value):
            raise ValueError("give a whole number")
        return int(value)
    return value


def _moment(value: Any) -> Any:
    """A time from ISO 8601 text, in UTC when it names no zone. A plus sign that came as a blank is mended."""
    if not isinstance(value, str):
        return value
    try:
        moment = datetime.fromisoformat(_LOST_PLUS.sub(r"\1+\2", value))
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError("give a time in ISO 8601, such as 2026-01-31T12:00:00Z") from error


Limit = Annotated[int, Field(ge=1, le=MAX_LIMIT), BeforeValidator(_whole)]
Iteration = Annotated[int, Field(ge=-_MAX_INT, le=_MAX_INT), BeforeValidator(_whole)]
Moment = Annotated[datetime, BeforeValidator(_moment)]
Exactly = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS)]
#: what names a document, an address or a thing: longer than an id, and of any signs
Named = Annotated[str, Field(min_length=1, max_length=MAX_NAMED_CHARS)]
Cursor = Annotated[str, Field(min_length=1, max_length=2000, description="`next_cursor` of the page before")]


class Query(BaseModel):
    """The base of all queries."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PageQuery(Query):
    """Which page of a list."""

    limit: Limit = 100
    cursor: Cursor | None = None


class AgentsQuery(PageQuery):
    """Which agents, and what is told of them."""

    usage: Annotated[bool, Field(description="Add up what the sessions of each agent have used")] = False


class SessionsQuery(PageQuery):
    """Which sessions."""

    status: SessionStatus | None = None
    agent_id: Exactly | None = None
    conversation_id: Exactly | None = None
    moniker: Exactly | None = None


class ApprovalsQuery(PageQuery):
    """Which open questions."""

    session_id: Exactly | None = None
    conversation_id: Exactly | None = None
    kind: Exactly | None = None


def _kinds(value: Any) -> Any:
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


class SearchQuery(PageQuery):
    """What to look for, and where."""

    q: Annotated[str, Field(description="words; any of them will do, and nothing in it is a query language")]
    kinds: Annotated[
        tuple[SearchKind, ...],
        Field(description="what is searched, with commas between: messages,steps,memories"),
        BeforeValidator(_kinds),
    ] = tuple(SearchKind)
    conversation_id: Exactly | None = None
    session_id: Exactly | None = None
    agent_id: Exactly | None = None
    limit: Limit = 20


_Source = Annotated[Named | None, Field(description="where it was learnt; also what was made from that")]


class MemoriesQuery(PageQuery):
    """Which memories. Those bound to a user, an agent or a conversation are named by its id."""

    q: Annotated[
        str | None,
        Field(max_length=MAX_QUESTION_CHARS, description="words; best first then, and the first 500 at most"),
    ] = None
    kind: MemoryKind | None = None
    user_id: Exactly | None = None
    agent_id: Exactly | None = None
    conversation_id: Exactly | None = None
    session_id: Annotated[Exactly | None, Field(description="the session that kept it")] = None
    subject: Named | None = None
    source: _Source = None


class ForgetQuery(Query):
    """What to delete: memories that meet everything named, of which there is at least one."""

    user_id: Exactly | None = None
    agent_id: Exactly | None = None
    conversation_id: Exactly | None = None
    session_id: Annotated[Exactly | None, Field(description="the session that kept it")] = None
    subject: Named | None = None
    source: _Source = None


class ActionsQuery(PageQuery):
    """Which actions."""

    status: ActionStatus | None = None
    kind: ActionKind | None = None
    session_id: Exactly | None = None
    agent_id: Exactly | None = None


class StepsQuery(PageQuery):
    """Which steps."""

    session_id: Exactly | None = None
    agent_id: Exactly | None = None
    min_iteration: Iteration | None = None
    max_iteration: Iteration | None = None
    after_iteration: Iteration | None = None
    since: Annotated[Moment | None, Field(description="steps created at this time or later")] = None
    status: StepStatus | None = None
    order: Order = "asc"


class SessionTracesQuery(PageQuery):
    """Which traces of a session: a page of all, or one whole."""

    trace_id: Annotated[Exactly | None, Field(description="one trace, with its spans")] = None


class TracesQuery(PageQuery):
    """Which traces of all sessions that have ended."""

    agent_id: Exactly | None = None
    status: TraceStatus | None = None
    min_cost: Annotated[float | None, Field(ge=0, allow_inf_nan=False)] = None
    since: Annotated[Moment | None, Field(description="traces begun at this time or later")] = None


class TraceQuery(Query):
    """Whose trace, where a message was pushed to several sessions."""

    session_id: Exactly | None = None


class LatestStepsQuery(Query):
    """Whose newest steps: a session's or an agent's."""

    session_id: Exactly | None = None
    agent_id: Exactly | None = None
    limit: Limit = 20


class MessagesQuery(PageQuery):
    """Which part of a transcript."""

    order: Order = "asc"


class CopilotAgentsQuery(Query):
    """Which set of agents."""

    agent_set: Annotated[
        str, Field(min_length=1, max_length=MAX_ID_CHARS, description="A name of GET /api/copilot/sets")
    ]
