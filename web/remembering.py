"""What the page of memories shows: what was asked for, whom a memory is for, where it was kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from store.memories import MemoryKind
from web.names import session_name
from web.queries import ForgetQuery, MemoriesQuery

Json = dict[str, Any]

PREVIEW_CHARS: Final = 600
#: the kinds in the order of the page; "" is every kind
KINDS_OF_MEMORY: Final[Mapping[str, str]] = {
    "": "Everything",
    MemoryKind.FACT: "Facts",
    MemoryKind.EPISODE: "Episodes",
    MemoryKind.TERM: "Terms",
}
#: the fields of the filter, with what stands before each
FILTERS: Final[Mapping[str, str]] = {
    "user_id": "User",
    "agent_id": "Agent",
    "conversation_id": "Conversation",
    "source": "Source",
}
_SCOPES: Final[Mapping[str, str]] = {**FILTERS, "session_id": "Session", "subject": "Subject"}


def asked_for(given: Mapping[str, str]) -> dict[str, str]:
    """The fields of the address that the list can be asked for, and that are filled in. An unknown kind is any."""
    known = {
        name: given.get(name, "").strip() for name in MemoriesQuery.model_fields if name not in {"limit", "cursor"}
    }
    kinds = {kind.value for kind in MemoryKind}
    return {name: value for name, value in known.items() if value and (name != "kind" or value in kinds)}


def scope_of(asked: Mapping[str, str]) -> Json | None:
    """What can be deleted as a whole: `{query, words}` where a scope is asked for and nothing but scopes."""
    if not asked or not asked.keys() <= ForgetQuery.model_fields.keys():
        return None
    words = ", ".join(f"{_SCOPES[name].lower()} {value}" for name, value in asked.items())
    return {"query": urlencode(asked), "words": words}


def whom_for(memory: Mapping[str, Any]) -> str:
    """Whom a memory is for."""
    bound = {name: memory[name] for name in ("user_id", "agent_id", "conversation_id") if memory[name]}
    return " and ".join(f"{FILTERS[name].lower()} {value}" for name, value in bound.items()) or "anybody"


def memory_path(memory: Mapping[str, Any]) -> Json | None:
    """Where it was kept: `{href, name}` of the session's step; None for one that no session kept."""
    session_id, iteration = memory["session_id"], memory["iteration"]
    if not session_id:
        return None
    step = "" if iteration is None else f", step {iteration}"
    anchor = "" if iteration is None else f"#step-{iteration}"
    return {"href": f"/sessions/{quote(session_id, safe='')}{anchor}", "name": f"{session_name(session_id)}{step}"}


def preview(text: str) -> str:
    """The beginning of a text, and a sign where there is more."""
    return text if len(text) <= PREVIEW_CHARS else f"{text[:PREVIEW_CHARS].rstrip()} …"
