"""Conversations: threads, who takes part, and the posts that set sessions in motion."""

from __future__ import annotations

from typing_extensions import TypedDict

from store import (
    Conversation,
    Message,
    Participant,
    PostAs,
    SessionStatus,
    WhenBusy,
    add_participant,
    create_conversation,
    get_conversation,
    list_conversations,
    list_messages,
    list_participants,
    post_to_conversation,
)
from store.agent_state import get_agent_states
from store.ids import ConversationId, SessionId, UserId
from store.posting import pushed_sessions, was_posted
from web.api.control import refuse_busy
from web.lookup import get_known
from web.queries import MessagesQuery, PageQuery
from web.routes import Answer, Api, Many, One, Operation
from web.schemas import AddParticipant, CreateConversation, PostMessage, PostMode
from web.shapes import many, shape


class PostAccepted(TypedDict):
    """A stored message and the actions that bring it to sessions."""

    message: Message
    message_id: str
    action_ids: list[str]


async def open_conversation(api: Api, *, body: CreateConversation) -> Answer:
    """Store a thread; its creator joins it."""
    new_id = None if body.conversation_id is None else ConversationId(body.conversation_id)
    async with api.turns.of(conversation=new_id):
        made = await create_conversation(
            api.db, title=body.title, created_by=body.created_by, tags=body.tags, conversation_id=new_id
        )
    if body.created_by is not None:
        await add_participant(api.db, made.conversation_id, user_id=UserId(body.created_by), role="owner")
    return Answer(shape(made), 201)


async def list_conversations_page(api: Api, *, query: PageQuery) -> Answer:
    """Threads, newest first."""
    page = await list_conversations(api.db, limit=query.limit, cursor=query.cursor)
    return Answer(many(map(shape, page.items), page.next_cursor))


async def show_conversation(api: Api, *, conversation_id: str) -> Answer:
    """One thread."""
    return Answer(shape(await get_conversation(api.db, ConversationId(conversation_id))))


async def join_conversation(api: Api, *, conversation_id: str, body: AddParticipant) -> Answer:
    """Let a user or a session take part; a session's agent is filled in."""
    thread = await get_conversation(api.db, ConversationId(conversation_id))
    session = None if body.session_id is None else await get_known(api.db, SessionId(body.session_id))
    joined = await add_participant(
        api.db,
        thread.conversation_id,
        user_id=None if body.user_id is None else UserId(body.user_id),
        agent_id=None if session is None else session.agent_id,
        session_id=None if session is None else session.session_id,
        role=body.role,
        delivery=body.delivery,
    )
    return Answer(shape(joined), 201)


async def list_conversation_participants(api: Api, *, conversation_id: str) -> Answer:
    """Everybody who takes part now."""
    thread = await get_conversation(api.db, ConversationId(conversation_id))
    return Answer(many(map(shape, await list_participants(api.db, thread.conversation_id))))


async def list_conversation_messages(api: Api, *, conversation_id: str, query: MessagesQuery) -> Answer:
    """The transcript, oldest first unless asked otherwise."""
    thread = await get_conversation(api.db, ConversationId(conversation_id))
    page = await list_messages(
        api.db, thread.conversation_id, order=query.order, limit=query.limit, cursor=query.cursor
    )
    return Answer(many(map(shape, page.items), page.next_cursor))


async def post_conversation_message(api: Api, *, conversation_id: str, body: PostMessage) -> Answer:
    """Store a message and queue an action for every session that it is pushed to."""
    thread = await get_conversation(api.db, ConversationId(conversation_id))
    async with api.turns.of(post=body.idempotency_key):
        post_as = await _post_as(api, thread.conversation_id, body.mode)
        if post_as is PostAs.INPUT:
            await _refuse_busy(api, thread.conversation_id, body)
        posted = await post_to_conversation(
            api.db,
            thread.conversation_id,
            text=body.text,
            data=body.told_data(),
            user_id=None if body.user_id is None else UserId(body.user_id),
            post_as=post_as,
            when_busy=body.when_busy,
            idempotency_key=body.idempotency_key,
        )
    message = posted.message
    ids = [action.id for action in posted.actions]
    return Answer({"message": shape(message), "message_id": message.message_id, "action_ids": ids}, 202)


async def _refuse_busy(api: Api, conversation_id: ConversationId, body: PostMessage) -> None:
    if body.when_busy is not WhenBusy.REJECT or await was_posted(api.db, body.idempotency_key):
        return
    members = await pushed_sessions(api.db, conversation_id)
    sessions = [SessionId(member.session_id) for member, _ in members if member.session_id is not None]
    await refuse_busy(api.db, sessions, body.when_busy, None)


async def _post_as(api: Api, conversation_id: ConversationId, mode: PostMode) -> PostAs:
    """What `mode` comes to. `auto` is guidance only when every live session is at work: an input is never lost."""
    if mode is not PostMode.AUTO:
        return PostAs(mode.value)
    members = await list_participants(api.db, conversation_id)
    states = await get_agent_states(api.db, [member.session_id for member in members if member.session_id])
    live = [state for state in states.values() if not state.ended]
    at_work = bool(live) and all(state.status is SessionStatus.RUNNING for state in live)
    return PostAs.INTERRUPT if at_work else PostAs.INPUT


_ONE = "/api/conversations/{conversation_id}"

POST_MESSAGE = Operation(
    "POST",
    f"{_ONE}/messages",
    post_conversation_message,
    "conversations",
    "Write to a thread",
    One(PostAccepted),
    202,
    body=PostMessage,
    problems=(404, 409),
    enqueues=True,
)

OPERATIONS = (
    Operation(
        "POST",
        "/api/conversations",
        open_conversation,
        "conversations",
        "Open a thread",
        One(Conversation),
        201,
        body=CreateConversation,
        problems=(409,),
    ),
    Operation(
        "GET",
        "/api/conversations",
        list_conversations_page,
        "conversations",
        "List threads, newest first",
        Many(Conversation),
        query=PageQuery,
    ),
    Operation("GET", _ONE, show_conversation, "conversations", "One thread", One(Conversation), problems=(404,)),
    Operation(
        "POST",
        f"{_ONE}/participants",
        join_conversation,
        "conversations",
        "Let a user or a session take part",
        One(Participant),
        201,
        body=AddParticipant,
        problems=(404,),
    ),
    Operation(
        "GET",
        f"{_ONE}/participants",
        list_conversation_participants,
        "conversations",
        "List who takes part",
        Many(Participant),
        problems=(404,),
    ),
    POST_MESSAGE,
    Operation(
        "GET",
        f"{_ONE}/messages",
        list_conversation_messages,
        "conversations",
        "Read a thread",
        Many(Message),
        query=MessagesQuery,
        problems=(404,),
    ),
)
