"""Everything that touches LanceDB.

    open_store(options) ──▶ Store ──tenant()──▶ TenantStore: what every function here takes first
    actions, cancelling, schedules, agents, agent_state, agent_steps, records, agent_events, conversations, messages,
    session_cursors, workers, copilot_agents:
        one noun a file: its frozen dataclass, its table's codec, the questions that are put to it
    agent_requests, enqueueing, marks: how an action gets into the queue, goes on and ends
    table, groupcommit, lock: how rows get in (group commit, one commit at a time a table)
    changes, watch: how a process learns what another one wrote (row versions; inotify)
    upkeep, leftovers: what keeps it fast and small
    fsync, powercut, manifest, repair, probe: what the disk holds, whether it is whole, and what to do if not
    newer: whether another version has taken over

Writes: a function that writes returns when its rows are committed. Killed before: nothing is there. After: all is.
A killed process never leaves half a row or a held lock. A power cut is another matter: see docs/guarantees.md.
"""

from __future__ import annotations

from store import loading as loading  # before all others
from store.actions import (
    Action,
    ActionFilter,
    ActionKind,
    ActionStatus,
    ApprovalDecision,
    WhenBusy,
    count_actions,
    get_action,
    list_actions,
)
from store.agent_requests import (
    agent_create,
    agent_destroy_action,
    agent_input,
    agent_interrupt,
    agent_pause_action,
    agent_resume_action,
    approval_action,
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
from store.cancelling import cancel_action
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
    StoreDamagedError,
    StoreError,
    StoreTooNewError,
    StoreUnavailableError,
)
from store.jsontext import json_dumps, safe_json_loads
from store.marks import mark_action_processed_async, requeue_action
from store.messages import Message, list_messages, post_message
from store.options import StoreOptions
from store.paging import Page
from store.posting import PostAs, Posted, post_to_conversation
from store.schedules import Schedule
from store.workers import Worker, list_workers

__all__ = [
    "Action",
    "ActionFilter",
    "ActionKind",
    "ActionStatus",
    "Agent",
    "AgentState",
    "AgentStep",
    "ApprovalDecision",
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
    "Schedule",
    "SessionFilter",
    "SessionStatus",
    "StepFilter",
    "StepStatus",
    "Store",
    "StoreDamagedError",
    "StoreError",
    "StoreOptions",
    "StoreTooNewError",
    "StoreUnavailableError",
    "TenantStore",
    "WhenBusy",
    "Worker",
    "add_participant",
    "agent_create",
    "agent_destroy_action",
    "agent_input",
    "agent_interrupt",
    "agent_pause_action",
    "agent_resume_action",
    "append_agent_step",
    "approval_action",
    "cancel_action",
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
