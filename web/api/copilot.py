"""The copilot's agents: sets, versions, what is wrong with one, its prompt, a try on a fork; sessions that use them.

No agent runs here. What asks one to run is an action like any other: a create, a fork or an input.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from typing_extensions import TypedDict

from store import AgentState, ConflictError, NotFoundError, create_conversation, get_conversation
from store.actions import find_by_idempotency_key
from store.agent_requests import FirstInput
from store.copilot_agents import NewVersion, save_version
from store.ids import ConversationId, SessionId
from web.api import agents, control
from web.api.agents import SessionAccepted
from web.api.control import ActionAccepted
from web.api.forks import begin_fork
from web.copilotagents import (
    AgentVersion,
    definition_of,
    find_set,
    mistake_shapes,
    named_set,
    newest_agents,
    refuse_mistakes,
    saved_shape,
    versions_of,
)
from web.dryruns import DryRunResult, dry_run_of
from web.lookup import Known, get_known
from web.problems import refused
from web.queries import CopilotAgentsQuery
from web.routes import Answer, Api, Many, One, Operation
from web.schemas import (
    CheckDefinition,
    CreateAgent,
    DecideInsight,
    DryRun,
    Fork,
    Input,
    PreviewPrompt,
    SaveCopilotAgent,
    StartCopilot,
    UseCopilotAgent,
)
from web.shapes import Json, many
from web.workshop import COPILOT, ShippedSet, in_time

#: fields of the moniker's config that a body has in another place
_OURS: Final = frozenset({"agents", "agent_set", "dry_run"})


#: what a dry run changes in a session's config: one turn, and what the agent said a moment ago it may say again
_TRIED: Final = {"dry_run": True, "insight_window_s": 0}


class NamedAgent(TypedDict):
    """An agent of a set, by name."""

    agent_id: str
    name: str


class AgentSet(TypedDict):
    """Agents that ship together; `advised` is the speaker whom they advise."""

    name: str
    title: str
    description: str
    advised: str
    agents: list[NamedAgent]


class Mistake(TypedDict):
    """What is wrong with a field, and what to write."""

    field: str
    message: str


class Checked(TypedDict):
    """What is wrong with a definition; `warnings` are what its author can hardly have meant, though it can run."""

    ok: bool
    errors: list[Mistake]
    warnings: list[Mistake]


class PromptMessage(TypedDict):
    """A message to a model."""

    role: str
    content: str


class Prompt(TypedDict):
    """What a model would be sent."""

    messages: list[PromptMessage]
    characters: int


# --- sets and versions ------------------------------------------------------------------------------------------------


async def list_copilot_sets(api: Api) -> Answer:
    """The sets of agents, each with the newest names of its agents."""
    return Answer(many([await _set_shape(api, one) for one in api.workshop.sets()]))


async def _set_shape(api: Api, of_set: ShippedSet) -> Json:
    newest = await newest_agents(api, of_set)
    named = [{"agent_id": one["agent_id"], "name": _name_of(one["definition"])} for one in newest]
    own = {name: getattr(of_set, name) for name in ("name", "title", "description", "advised")}
    return {**own, "agents": named}


def _name_of(definition: Mapping[str, Any]) -> str:
    return str(definition.get("name") or definition.get("id") or "")


async def list_copilot_agents(api: Api, *, query: CopilotAgentsQuery) -> Answer:
    """The newest version of each agent of a set, in the order in which they are registered."""
    return Answer(many(await newest_agents(api, find_set(api, query.agent_set))))


async def list_copilot_versions(api: Api, *, agent_id: str, query: CopilotAgentsQuery) -> Answer:
    """Every version of an agent, newest first, the one that ships among them."""
    return Answer(many(await versions_of(api, find_set(api, query.agent_set), agent_id)))


async def save_copilot_version(api: Api, *, agent_id: str, body: SaveCopilotAgent) -> Answer:
    """Save the next version of an agent. Of two who changed the same one, one is told that the other was first."""
    of_set = named_set(api, body.agent_set)
    await refuse_mistakes(api, body.definition, agent_id)
    new = NewVersion(of_set.name, agent_id, body.definition, body.based_on, body.note, body.saved_by)
    async with api.turns.of(copilot_agent=f"{of_set.name}/{agent_id}"):
        return Answer(saved_shape(await save_version(api.db, new)), 201)


# --- before it runs ---------------------------------------------------------------------------------------------------


async def check_copilot_agent(api: Api, *, body: CheckDefinition) -> Answer:
    """Every mistake of a definition, its template and its output format."""
    errors = mistake_shapes(await in_time(api.workshop.problems, body.definition))
    warnings = mistake_shapes(await in_time(api.workshop.doubts, body.definition))
    return Answer({"ok": not errors, "errors": errors, "warnings": warnings})


async def preview_copilot_prompt(api: Api, *, body: PreviewPrompt) -> Answer:
    """The prompt as it would be sent now, on the board of a session as far as it is stored."""
    config, state = await _scene(api, body.session_id)
    preview = api.workshop.preview
    draft = await in_time(preview, body.definition, body.session_id or "preview", config, state)
    if draft.problems:
        errors = mistake_shapes(draft.problems, "definition")
        raise refused(422, "there is no prompt of this definition", errors=errors)
    messages = [{"role": one["role"], "content": one["content"]} for one in draft.messages]
    return Answer({"messages": messages, "characters": sum(len(one["content"]) for one in messages)})


async def _scene(api: Api, session_id: str | None) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The config and the newest state of a session; both are empty without one."""
    if session_id is None:
        return {}, {}
    source = (await _copilot_session(api, session_id)).source
    if not isinstance(source, AgentState):
        return _object((source.payload or {}).get("config")), {}
    return _object(_object(source.spec).get("config")), _object(source.context)


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


async def dry_run_copilot_agent(api: Api, *, body: DryRun) -> Answer:
    """Fork a session and have this agent, and no other, take one turn there. The session itself hears nothing of it.

    The fork is in no thread, ends after that turn, and its second step says what came of it.
    """
    await _copilot_session(api, body.session_id)
    await refuse_mistakes(api, body.definition)
    agent_id = body.definition["id"]
    said = {"agents": [body.definition], "trigger": "force", "agent_ids": [agent_id]}
    fork = Fork(config=_TRIED, idempotency_key=body.idempotency_key)
    first = FirstInput(f"Dry run of {agent_id}", said)
    return Answer(await begin_fork(api, body.session_id, fork, first_input=first, stop_on_done=True), 202)


async def show_copilot_dry_run(api: Api, *, session_id: str) -> Answer:
    """What came of a dry run, by its fork. `step` is null until the turn is stored."""
    return Answer(await dry_run_of(api, await get_known(api.db, SessionId(session_id))))


# --- sessions ---------------------------------------------------------------------------------------------------------


async def start_copilot_session(api: Api, *, body: StartCopilot) -> Answer:
    """Begin a session with the newest version of each agent of a set; its config holds their definitions whole.

    Without a thread one is opened for it. Crash in between: an empty thread stays, and the key begins the session.
    """
    create = CreateAgent(
        moniker=COPILOT, config=await _config(api, body), budget=body.budget, idempotency_key=body.idempotency_key
    )
    agents.spec_of(api, create)  # what is wrong is told before a thread is opened
    async with api.turns.of(copilot=body.idempotency_key):
        thread = await _thread(api, body)
        return await agents.create_agent(api, body=create.model_copy(update={"conversation_id": thread}))


async def _config(api: Api, body: StartCopilot) -> Json:
    given = body.config or {}
    if misplaced := sorted(_OURS & given.keys()):
        wrong = [{"field": f"config.{name}", "message": "stands in the body, not in its config"} for name in misplaced]
        raise refused(422, f"config cannot hold {misplaced[0]!r} here", errors=wrong)
    newest = await newest_agents(api, named_set(api, body.agent_set))
    chosen = {one["agent_id"]: one["definition"] for one in newest}
    more = {str(one.get("id") or f"agents.{place}"): one for place, one in enumerate(body.agents)}
    return {**given, "agent_set": body.agent_set, "agents": [*{**chosen, **more}.values()]}


async def _thread(api: Api, body: StartCopilot) -> str | None:
    """The thread's id. A request that comes again has the one that it was given before."""
    if body.conversation_id is not None:
        return (await get_conversation(api.db, ConversationId(body.conversation_id))).conversation_id
    if body.idempotency_key is not None and (await find_by_idempotency_key(api.db, body.idempotency_key)) is not None:
        return None
    title = body.title or named_set(api, body.agent_set).title
    return (await create_conversation(api.db, title=title)).conversation_id


async def use_copilot_agent(api: Api, *, session_id: str, body: UseCopilotAgent) -> Answer:
    """Have a session use a version of an agent from its next turn on: an input that holds the definition whole."""
    session = await _copilot_session(api, session_id)
    definition = await definition_of(api, named_set(api, body.agent_set), body.agent_id, body.version)
    text = f"Use version {body.version} of {body.agent_id} ({body.agent_set})"
    said = Input(text=text, data={"agents": [dict(definition)]}, idempotency_key=body.idempotency_key)
    return await control.say(api, session, said)


async def decide_insight(api: Api, *, session_id: str, insight_id: str, body: DecideInsight) -> Answer:
    """Show or drop an insight that waits for a person. The decision is a turn of the session, once."""
    session = await _copilot_session(api, session_id)
    if not insight_id.startswith(f"{session_id}:"):
        raise NotFoundError(f"insight of session {session_id!r}", insight_id)
    decision = {"insight_id": insight_id, "agreed": body.agreed, **({} if body.by is None else {"by": body.by})}
    text = "Show the insight" if body.agreed else "Drop the insight"
    return await control.say(
        api, session, Input(text=text, data={"decide": decision}, idempotency_key=body.idempotency_key)
    )


async def _copilot_session(api: Api, session_id: str) -> Known:
    """A session of the copilot; raises `NotFoundError`, and `ConflictError` for one of another moniker."""
    known = await get_known(api.db, SessionId(session_id))
    source = known.source
    moniker = source.moniker if isinstance(source, AgentState) else _object(source.payload).get("moniker")
    if moniker != COPILOT:
        raise ConflictError(f"session {session_id!r} is one of {moniker!r}; only those of {COPILOT!r} have such agents")
    return known


_VERSIONS: Final = "/api/copilot/agents/{agent_id}/versions"
_SESSION: Final = "/api/copilot/sessions/{session_id}"
_TAG: Final = "copilot"

OPERATIONS = (
    Operation("GET", "/api/copilot/sets", list_copilot_sets, _TAG, "List the sets of agents", Many(AgentSet)),
    Operation(
        "GET",
        "/api/copilot/agents",
        list_copilot_agents,
        _TAG,
        "List the agents of a set",
        Many(AgentVersion),
        query=CopilotAgentsQuery,
        problems=(404,),
    ),
    Operation(
        "GET",
        _VERSIONS,
        list_copilot_versions,
        _TAG,
        "List the versions of an agent",
        Many(AgentVersion),
        query=CopilotAgentsQuery,
        problems=(404,),
    ),
    Operation(
        "POST",
        _VERSIONS,
        save_copilot_version,
        _TAG,
        "Save a version of an agent",
        One(AgentVersion),
        201,
        body=SaveCopilotAgent,
        problems=(409,),
    ),
    Operation(
        "POST",
        "/api/copilot/check",
        check_copilot_agent,
        _TAG,
        "Find the mistakes of a definition",
        One(Checked),
        body=CheckDefinition,
    ),
    Operation(
        "POST",
        "/api/copilot/preview",
        preview_copilot_prompt,
        _TAG,
        "Show the prompt of a definition",
        One(Prompt),
        body=PreviewPrompt,
        problems=(404, 409),
    ),
    Operation(
        "POST",
        "/api/copilot/dry-runs",
        dry_run_copilot_agent,
        _TAG,
        "Try a definition on a fork of a session",
        One(ActionAccepted),
        202,
        body=DryRun,
        problems=(404, 409),
        enqueues=True,
    ),
    Operation(
        "GET",
        "/api/copilot/dry-runs/{session_id}",
        show_copilot_dry_run,
        _TAG,
        "Show what came of a dry run",
        One(DryRunResult),
        problems=(404,),
    ),
    Operation(
        "POST",
        "/api/copilot/sessions",
        start_copilot_session,
        _TAG,
        "Start a session with the agents of a set",
        One(SessionAccepted),
        202,
        body=StartCopilot,
        problems=(404, 409),
        enqueues=True,
    ),
    Operation(
        "POST",
        f"{_SESSION}/agents",
        use_copilot_agent,
        _TAG,
        "Use a version of an agent in a session",
        One(ActionAccepted),
        202,
        body=UseCopilotAgent,
        problems=(404, 409),
        enqueues=True,
    ),
    Operation(
        "POST",
        f"{_SESSION}/insights/{{insight_id}}",
        decide_insight,
        _TAG,
        "Show or drop an insight that waits",
        One(ActionAccepted),
        202,
        body=DecideInsight,
        problems=(404, 409),
        enqueues=True,
    ),
)
