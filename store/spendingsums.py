"""What agents, conversations and everybody have spent: sums over the sessions' rows, kept up to date as those change.

The sums are never stored, so nothing can make them differ from what the sessions say. A reader starts with one look at
every session's usage and then reads only the rows that changed; it keeps one record of some 300 bytes a session.
"""

from __future__ import annotations

from store.agent_state import AgentState, states_of
from store.budgets import Scope, scopes_of
from store.changes import Feed
from store.database import TenantStore
from store.ids import AgentId, ConversationId, SessionId
from store.spending import NOTHING_SPENT, Spent, spent_of

_COLUMNS = ("agent_id", "session_id", "conversation_id", "usage")


class SpendingSums:
    """Sums of what was spent, by scope."""

    def __init__(self) -> None:
        self._sessions: dict[SessionId, Spent] = {}
        self._shared: dict[Scope, Spent] = {}

    def note(
        self, session_id: SessionId, agent_id: AgentId, conversation_id: ConversationId | None, spent: Spent
    ) -> None:
        """Take in what one session has spent up to now. What comes late or twice changes nothing."""
        before = self._sessions.get(session_id, NOTHING_SPENT)
        now = before.joined(spent)
        if now == before:
            return
        self._sessions[session_id] = now
        for scope in scopes_of(session_id, agent_id, conversation_id)[1:]:
            self._shared[scope] = self._shared.get(scope, NOTHING_SPENT).plus(now).plus(before, -1)

    def of_session(self, session_id: SessionId) -> Spent:
        """What one session has spent."""
        return self._sessions.get(session_id, NOTHING_SPENT)

    def of(self, scope: Scope) -> Spent:
        """What the sessions of an agent, of a conversation or all of them have spent."""
        return self._shared.get(scope, NOTHING_SPENT)


class FollowedSpending:
    """The sums, kept up to date from the store."""

    def __init__(self, db: TenantStore) -> None:
        self.sums = SpendingSums()
        self._feed: Feed[AgentState] = Feed(states_of(db), "changed", 0)

    async def refresh(self) -> SpendingSums:
        """Take in what changed since the last look. Two looks at once do no harm."""
        for row in await self._feed.poll(columns=_COLUMNS):
            state = row.item
            self.sums.note(state.session_id, state.agent_id, state.conversation_id, spent_of(state.usage))
        return self.sums
