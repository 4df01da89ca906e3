"""Everything that touches LanceDB.

    open_store(options) ──▶ Store ──tenant()──▶ TenantStore: what every function here takes first
    actions, agents, agent_state, agent_steps, records, agent_events, conversations, messages, session_cursors, workers:
        one noun a file: its frozen dataclass, its table's codec, the questions that are put to it
    table, groupcommit, lock: how rows get in (group commit, one commit at a time a table)
    changes, watch: how a process learns what another one wrote (row versions; inotify)
    upkeep: what keeps it fast

Writes: a function that writes returns when its rows are committed. Killed before: nothing is there. After: all is.
A killed process never leaves half a row or a held lock. A power cut is another matter: see docs/guarantees.md.
"""

from __future__ import annotations

from store.actions import (
    Action,
    ActionFilter,
    ActionKind,
    ActionStatus,
    agent_create,
    agent_destroy_action,
    agent_input,
    agent_interrupt,
    agent_pause_action,
    agent_resume_action,
    count_actions,
    get_action,
    list_actions,
    mark_action_processed_async,
    requeue_action,
)
from store.agent_state import (
    AgentState,
    SessionFilter,
    SessionStatus,
    count_sessions,
    get_agent_state,
    list_sessions,
    list_sessions_for_agent,
    upsert_agent_state,
)
from store.agent_steps import (
    AgentStep,
    StepFilter,
    StepStatus,
    append_agent_step,
    list_agent_steps,
    list_agent_steps_latest,
    list_agent_steps_since_iteration,
)
from store.agents import Agent, get_agent, list_agents, save_agent
from store.conversations import (
    Conversation,
    Delivery,
    Participant,
    add_participant,
    create_conversation,
    get_conversation,
    list_conversations,
    list_participants,
)
from store.database import Store, TenantStore, open_store
from store.errors import (
    BadFilterError,
    BadRowError,
    ConflictError,
    NotFoundError,
    StoreError,
    StoreTooNewError,
    StoreUnavailableError,
)
from store.jsontext import json_dumps, safe_json_loads
from store.messages import Message, list_messages, post_message
from store.options import StoreOptions
from store.paging import Page
from store.posting import PostAs, Posted, post_to_conversation
from store.workers import Worker, list_workers

__all__ = [
    "Action",
    "ActionFilter",
    "ActionKind",
    "ActionStatus",
    "Agent",
    "AgentState",
    "AgentStep",
    "BadFilterError",
    "BadRowError",
    "ConflictError",
    "Conversation",
    "Delivery",
    "Message",
    "NotFoundError",
    "Page",
    "Participant",
    "PostAs",
    "Posted",
    "SessionFilter",
    "SessionStatus",
    "StepFilter",
    "StepStatus",
    "Store",
    "StoreError",
    "StoreOptions",
    "StoreTooNewError",
    "StoreUnavailableError",
    "TenantStore",
    "Worker",
    "add_participant",
    "agent_create",
    "agent_destroy_action",
    "agent_input",
    "agent_interrupt",
    "agent_pause_action",
    "agent_resume_action",
    "append_agent_step",
    "count_actions",
    "count_sessions",
    "create_conversation",
    "get_action",
    "get_agent",
    "get_agent_state",
    "get_conversation",
    "json_dumps",
    "list_actions",
    "list_agent_steps",
    "list_agent_steps_latest",
    "list_agent_steps_since_iteration",
    "list_agents",
    "list_conversations",
    "list_messages",
    "list_participants",
    "list_sessions",
    "list_sessions_for_agent",
    "list_workers",
    "mark_action_processed_async",
    "open_store",
    "post_message",
    "post_to_conversation",
    "requeue_action",
    "safe_json_loads",
    "save_agent",
    "upsert_agent_state",
]
