"""Search: one question to messages, steps and memories."""

from __future__ import annotations

from store.search import SearchPage, Sought, search
from web.queries import SearchQuery
from web.routes import Answer, Api, One, Operation
from web.shapes import Json, shape


async def find(api: Api, *, query: SearchQuery) -> Answer:
    """What holds words of `q`, best first; words are whole, in any case, with or without accents.

    `snippet` is plain text and `matches` the places of words in it. A page may hold fewer items than asked for;
    `incomplete` names the kinds that did not answer in time.
    """
    sought = Sought(query.q, query.kinds, query.conversation_id, query.session_id, query.agent_id)
    return Answer(search_shape(await search(api.db, sought, limit=query.limit, cursor=query.cursor)))


def search_shape(page: SearchPage) -> Json:
    """A page of results as JSON has it."""
    return {
        "items": [{**shape(item), "matches": [list(place) for place in item.matches]} for item in page.items],
        "next_cursor": page.next_cursor,
        "incomplete": [kind.value for kind in page.incomplete],
    }


OPERATIONS = (
    Operation(
        "GET",
        "/api/search",
        find,
        "search",
        "Search messages, steps and memories",
        One(SearchPage),
        query=SearchQuery,
    ),
)
