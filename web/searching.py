"""What the search page shows of a result: where it leads, what it is called, and its words marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from web.names import session_name

Json = dict[str, Any]

#: the kinds in the order of the page; "all" is every kind
KINDS: Final[Mapping[str, str]] = {
    "all": "Everything",
    "messages": "Messages",
    "steps": "Steps",
    "memories": "Memories",
}


def grouped(items: Sequence[Json]) -> dict[str, list[Json]]:
    """The results of each kind, as the page shows them."""
    groups: dict[str, list[Json]] = {kind: [] for kind in KINDS}
    for item in items:
        groups[item["kind"]].append({**item, **_place(item), "parts": parts(item["snippet"], item["matches"])})
    return groups


def parts(snippet: str, matches: Sequence[Sequence[int]]) -> list[tuple[str, bool]]:
    """A snippet cut where words begin and end: (text, whether it is a word that was looked for)."""
    found: list[tuple[str, bool]] = []
    at = 0
    for start, end in matches:
        found += [(snippet[at:start], False), (snippet[start:end], True)]
        at = end
    return [(text, matched) for text, matched in [*found, (snippet[at:], False)] if text]


def _place(item: Json) -> Json:
    session_id, thread = item["session_id"], item["conversation_id"]
    name = session_name(session_id) if session_id else "a person" if item["kind"] == "messages" else item["id"]
    if item["kind"] == "messages" and thread:
        return {"href": f"/conversations/{quote(thread, safe='')}", "name": name, "where": "in a conversation"}
    iteration = item["iteration"]
    where = f"step {iteration}" if iteration is not None else "remembered by this session" if session_id else ""
    anchor = "" if iteration is None else f"#step-{iteration}"
    return {
        "href": f"/sessions/{quote(session_id, safe='')}{anchor}" if session_id else "",
        "name": name,
        "where": where,
    }
