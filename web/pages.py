"""The HTML pages: what a person sees before the first script has run.

A page asks `Views` for plain dictionaries in the wire shapes of `docs/architecture.md`, renders them with Jinja and
adds the live cursor of that very snapshot, so that the scripts continue where the server stopped. Nothing here writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, Protocol

from flask import Blueprint, Response, abort, current_app, jsonify, redirect, render_template, request, url_for
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup
from werkzeug.wrappers import Response as WerkzeugResponse

from store.clock import SystemClock
from web.budgetwords import LIMIT_TITLES, budget_bars, budget_line, budget_words
from web.names import ADJECTIVES, NOUNS, session_name, short_id
from web.remembering import FILTERS, KINDS_OF_MEMORY, asked_for, memory_path, preview, scope_of, whom_for
from web.searching import KINDS, grouped
from web.toolwords import approver, changed_words, parameter_names, tool_state, tool_words
from web.words import (
    cost_of,
    next_moment,
    one_line,
    step_line,
    steps_taken_back,
    taken_back,
    takes_back,
    tokens_of,
    tries,
)

Json = dict[str, Any]

PAGE_LIMIT: Final = 50
SEARCH_LIMIT: Final = 20
ASSET_MAX_AGE_S: Final = 365 * 24 * 3600
HASH_CHARS: Final = 10
SHORT_S: Final = 10


class Views(Protocol):
    """What the pages read. Every answer is JSON-ready and holds the wire shapes of the HTTP API.

    `live_cursor` is the Socket.IO cursor that is valid for the rows of the same answer, or None when there is none.
    """

    def frame(self) -> Json:
        """`{"model": {"label", "offline"}, "worker": {"alive", "count"}, "badges": {page key: int}, "version"}`."""
        ...

    def sessions(self, *, statuses: Sequence[str], cursor: str | None, limit: int) -> Json:
        """`{"items": [session], "next_cursor", "counts": {status: int}, "live_cursor"}`, newest first.

        An empty `statuses` means all; `counts` is over all sessions. An item may carry `last_text`.
        """
        ...

    def session(self, session_id: str) -> Json | None:
        """`{"session", "steps": [the newest 100, oldest first], "budgets", "live_cursor"}`; None for an unknown id."""
        ...

    def conversations(self, *, cursor: str | None, limit: int) -> Json:
        """`{"items": [conversation], "next_cursor"}`, newest first."""
        ...

    def conversation(self, conversation_id: str) -> Json | None:
        """`{"conversation", "messages": [the newest 100, oldest first], "participants", "sessions", "live_cursor"}`.

        `sessions` are those that take part; None when the id is unknown.
        """
        ...

    def queue(self, *, statuses: Sequence[str], cursor: str | None, limit: int) -> Json:
        """`{"items": [action], "next_cursor", "counts": {status: int}, "live_cursor"}`, newest first."""
        ...

    def budgets(self, *, cursor: str | None, limit: int) -> Json:
        """`{"items": [budget], "next_cursor", "live_cursor"}`, by scope."""
        ...

    def memories(self, asked: Mapping[str, str], *, cursor: str | None, limit: int) -> Json:
        """`{"items": [memory], "next_cursor", "live_cursor"}`, newest first, or best first where words are asked for.

        `asked` are fields of the API's query that have a value.
        """
        ...

    def approvals(self, *, limit: int) -> Json:
        """`{"items": [approval], "next_cursor", "live_cursor"}`: open questions, the oldest first."""
        ...

    def tools(self) -> Json:
        """`{"items": [tool], "next_cursor", "live_cursor"}`, by server and name."""
        ...

    def search(self, q: str, *, kind: str, cursor: str | None, limit: int) -> Json:
        """`{"items": [result], "next_cursor", "incomplete": [kind]}`, best first."""
        ...

    def monikers(self) -> list[Json]:
        """`[{"name", "summary", "config_schema", "example", "task_field"}]`, in the order to offer them."""
        ...

    def openapi(self) -> Json:
        """The OpenAPI document."""
        ...


@dataclass(frozen=True, slots=True)
class Page:
    """One entry of the navigation. `key` is also the name of its badge and of its icon."""

    key: str
    title: str
    path: str
    shortcut: str


@dataclass(frozen=True, slots=True)
class Tab:
    """One filter of a list: a word for people and the statuses it stands for. No statuses means all."""

    key: str
    title: str
    statuses: tuple[str, ...] = ()


PAGES: Final = (
    Page("sessions", "Sessions", "/sessions", "g s"),
    Page("copilot", "Copilot", "/copilot", "g l"),
    Page("conversations", "Conversations", "/conversations", "g c"),
    Page("approvals", "Approvals", "/approvals", "g p"),
    Page("queue", "Queue", "/queue", "g q"),
    Page("budgets", "Budgets", "/budgets", "g b"),
    Page("tools", "Tools", "/tools", "g o"),
    Page("memories", "Memories", "/memories", "g m"),
    Page("search", "Search", "/search", "g f"),
    Page("api", "API", "/docs", "g a"),
)

SESSION_TABS: Final = (
    Tab("all", "All"),
    Tab("running", "Running", ("created", "running", "stopping")),
    Tab("waiting", "Waiting", ("waiting",)),
    Tab("paused", "Paused", ("paused",)),
    Tab("failed", "Failed", ("error",)),
    Tab("done", "Done", ("done", "stopped")),
)

QUEUE_TABS: Final = (
    Tab("all", "All"),
    Tab("pending", "Pending", ("pending",)),
    Tab("claimed", "Claimed", ("claimed",)),
    Tab("failed", "Failed", ("failed",)),
    Tab("dead", "Dead", ("dead",)),
    Tab("done", "Done", ("done",)),
)

#: status of a session, step or action -> the word for people, its tone (a CSS class) and its glyph
STATES: Final[Mapping[str, tuple[str, str, str]]] = {
    "created": ("queued", "queued", "queued"),
    "running": ("running", "running", "running"),
    "waiting": ("waiting", "waiting", "hand"),
    "sleeping": ("sleeping", "sleeping", "moon"),
    "listening": ("listening", "done", "listening"),
    "paused": ("paused", "queued", "paused"),
    "stopping": ("stopping", "queued", "running"),
    "stopped": ("stopped", "queued", "stopped"),
    "done": ("done", "done", "check"),
    "error": ("failed", "failed", "cross"),
    "pending": ("pending", "queued", "queued"),
    "claimed": ("claimed", "running", "running"),
    "failed": ("failed", "failed", "cross"),
    "dead": ("dead", "failed", "cross"),
}

FINAL_STATUSES: Final = frozenset({"stopped", "done", "error"})

EMPTY_FRAME: Final[Mapping[str, Any]] = {
    "model": {"label": "", "offline": False},
    "worker": {"alive": True, "count": 0},
    "badges": {},
    "version": "",
}


def pages_blueprint(views: Views) -> Blueprint:
    """All pages over `views`. Unknown ids abort with 404, which the app answers through `error_page`."""
    pages = Blueprint("pages", __name__, template_folder="templates")
    _add_lists(pages, views)
    _add_search(pages, views)
    _add_memories(pages, views)
    _add_records(pages, views)
    _add_rest(pages, views)
    _add_helpers(pages)
    return pages


def error_page(status: int, title: str, detail: str) -> tuple[str, int]:
    """The HTML answer for an error. It reads nothing from the store, so it works when the store does not."""
    return render("error.html", EMPTY_FRAME, status=status, title=title, detail=detail), status


def static_url(path: str) -> str:
    """The address of a static file with a hash of its content: it changes when the file does, and only then."""
    folder = current_app.static_folder
    digest = _digest_of(Path(folder) / path) if folder else ""
    return url_for("static", filename=path, v=digest)


def _add_lists(pages: Blueprint, views: Views) -> None:
    @pages.get("/sessions")
    def sessions() -> str:
        tab = _chosen(SESSION_TABS)
        found = views.sessions(statuses=tab.statuses, cursor=request.args.get("cursor"), limit=PAGE_LIMIT)
        monikers = views.monikers()
        return render(
            "sessions.html",
            views.frame(),
            found=found,
            tab=tab,
            tabs=_counted(SESSION_TABS, found["counts"]),
            monikers=monikers,
            demo=_demo(monikers),
        )

    @pages.get("/sessions.json")
    def sessions_json() -> Response:
        """The list as JSON, with the last text of each session: an open list asks for it when rows change."""
        tab = _chosen(SESSION_TABS)
        return jsonify(views.sessions(statuses=tab.statuses, cursor=request.args.get("cursor"), limit=PAGE_LIMIT))

    @pages.get("/conversations")
    def conversations() -> str:
        found = views.conversations(cursor=request.args.get("cursor"), limit=PAGE_LIMIT)
        return render("conversations.html", views.frame(), found=found)

    @pages.get("/approvals")
    def approvals() -> str:
        return render("approvals.html", views.frame(), found=views.approvals(limit=PAGE_LIMIT))

    @pages.get("/queue")
    def queue() -> str:
        tab = _chosen(QUEUE_TABS)
        found = views.queue(statuses=tab.statuses, cursor=request.args.get("cursor"), limit=PAGE_LIMIT)
        tabs = _counted(QUEUE_TABS, found["counts"])
        return render("queue.html", views.frame(), found=found, tab=tab, tabs=tabs)

    @pages.get("/budgets")
    def budgets() -> str:
        found = views.budgets(cursor=request.args.get("cursor"), limit=PAGE_LIMIT)
        return render("budgets.html", views.frame(), found=found, limits=LIMIT_TITLES)

    @pages.get("/tools")
    def tools() -> str:
        found = views.tools()
        servers = [(server, list(items)) for server, items in groupby(found["items"], itemgetter("server"))]
        return render("tools.html", views.frame(), found=found, servers=servers)


def _add_search(pages: Blueprint, views: Views) -> None:
    @pages.get("/search")
    def search() -> str:
        q, kind = request.args.get("q", ""), request.args.get("kind", "all")
        cursor = request.args.get("cursor")
        found = views.search(q, kind=kind, cursor=cursor, limit=SEARCH_LIMIT) if q.strip() else None
        groups = grouped(found["items"] if found else [])
        return render("search.html", views.frame(), q=q, kind=kind, kinds=KINDS, found=found, groups=groups)


def _add_memories(pages: Blueprint, views: Views) -> None:
    @pages.get("/memories")
    def memories() -> str:
        asked = asked_for(request.args)
        found = views.memories(asked, cursor=request.args.get("cursor"), limit=PAGE_LIMIT)
        scope, kinds = scope_of(asked), KINDS_OF_MEMORY
        return render(
            "memories.html", views.frame(), found=found, asked=asked, scope=scope, kinds=kinds, filters=FILTERS
        )


def _add_records(pages: Blueprint, views: Views) -> None:
    @pages.get("/sessions/<session_id>")
    def session(session_id: str) -> str:
        found = views.session(session_id)
        if found is None:
            abort(404, f"There is no session {session_id}.")
        return render("session.html", views.frame(), **found)

    @pages.get("/conversations/<conversation_id>")
    def conversation(conversation_id: str) -> str:
        found = views.conversation(conversation_id)
        if found is None:
            abort(404, f"There is no conversation {conversation_id}.")
        return render("conversation.html", views.frame(), **found)


def _add_rest(pages: Blueprint, views: Views) -> None:
    @pages.get("/")
    def home() -> WerkzeugResponse:
        return redirect("/sessions")

    @pages.get("/docs")
    def docs() -> str:
        document = views.openapi()
        return render("docs.html", views.frame(), openapi=document, groups=_operations_by_tag(document))

    @pages.get("/frame")
    def frame() -> Response:
        """What surrounds every page, as JSON: an open page asks for it now and then."""
        return jsonify(views.frame())


def _add_helpers(pages: Blueprint) -> None:
    for helper in (
        ago,
        approver,
        budget_bars,
        budget_line,
        budget_words,
        changed_words,
        elapsed,
        next_moment,
        memory_path,
        one_line,
        parameter_names,
        pretty,
        preview,
        step_count,
        step_line,
        tokens_of,
        cost_of,
        steps_taken_back,
        state_of,
        schema_name,
        script_json,
        taken_back,
        takes_back,
        tool_state,
        tool_words,
        tries,
        whom_for,
    ):
        pages.add_app_template_filter(helper)
    pages.add_app_template_filter(session_name)
    pages.add_app_template_filter(short_id)
    pages.add_app_template_global(static_url)

    @pages.after_app_request
    def cache_hashed_assets(response: Response) -> Response:
        if request.endpoint == "static" and "v" in request.args and response.status_code == 200:
            response.headers["Cache-Control"] = f"public, max-age={ASSET_MAX_AGE_S}, immutable"
        return response


def render(template: str, frame: Mapping[str, Any], **context: Any) -> str:
    """A page out of a template, in the frame that surrounds every page."""
    vocabulary = {"states": STATES, "final": sorted(FINAL_STATUSES), "names": [ADJECTIVES, NOUNS]}
    return render_template(template, frame=frame, nav=PAGES, vocabulary=vocabulary, **context)


def _chosen(tabs: Sequence[Tab]) -> Tab:
    """The tab named in the address; an unknown name shows everything."""
    key = request.args.get("status", "all")
    return next((tab for tab in tabs if tab.key == key), tabs[0])


def _counted(tabs: Sequence[Tab], counts: Mapping[str, int]) -> list[tuple[Tab, int]]:
    everything = sum(counts.values())
    return [(tab, sum(counts.get(one, 0) for one in tab.statuses) if tab.statuses else everything) for tab in tabs]


def _demo(monikers: Sequence[Json]) -> Json | None:
    """The request behind the empty list's one button, or None when no moniker tells jokes."""
    joke = next((one for one in monikers if "joke" in one["name"]), None)
    if joke is None:
        return None
    return {"moniker": joke["name"], "task": "queues", "config": {}, "max_steps": 12}


# --- words and numbers for the templates; `web/static/js/time.js` and `dom.js` say the same in the browser ------------


def state_of(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """The word, tone and glyph for a row with a status. A wait for a moment is called sleeping."""
    status = row.get("status") or ""
    if status == "waiting" and row.get("wake_at"):
        status = "sleeping"
    return STATES.get(status, (status or "unknown", "queued", "queued"))


def step_count(session: Mapping[str, Any]) -> int:
    """How many steps a session has stored: iterations start at 0, and one without a token has none yet."""
    iteration = session.get("iteration")
    if iteration is None or not session.get("step_token"):
        return 0
    return int(iteration) + 1


def pretty(value: Any) -> str:
    """JSON for people; plain text as it is."""
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=str)


def script_json(value: Any) -> Markup:
    """JSON for a data block of the page, safe inside `<script>`; keys keep their order: it is the order of a form."""
    return htmlsafe_json_dumps(value, dumps=json.dumps)


def ago(moment: str | None) -> str:
    """How long ago a moment was: "4 min"."""
    return _coarse(_seconds_between(moment, None)) if moment else ""


def elapsed(start: str | None, end: str | None = None) -> str:
    """The time between two moments, or until now: "2 min 03 s". What ended soon is given more exactly: "0.4 s"."""
    if not start:
        return ""
    exact = _seconds_between(start, end)
    if end and exact < SHORT_S:
        return f"{exact:.1f} s"
    seconds = int(exact)
    minutes, hours = seconds // 60, seconds // 3600
    if seconds < 60:
        return f"{seconds} s"
    return f"{minutes} min {seconds % 60:02} s" if minutes < 60 else f"{hours} h {minutes % 60:02} min"


def schema_name(schema: Mapping[str, Any]) -> str:
    """A JSON Schema's type in a few words: "string", "array of Document", "integer or null"."""
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        return " or ".join(schema_name(one) for one in choices)
    if "enum" in schema:
        return " | ".join(str(one) for one in schema["enum"])
    if schema.get("type") == "array":
        return f"array of {schema_name(schema.get('items') or {})}"
    kind = schema.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _seconds_between(start: str | None, end: str | None) -> float:
    last = datetime.fromisoformat(end) if end else SystemClock().now()
    first = datetime.fromisoformat(start) if start else last
    return max(0.0, (last - first).total_seconds())


def _coarse(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def _operations_by_tag(document: Json) -> dict[str, list[Json]]:
    """The operations of an OpenAPI document under their first tag, in the document's order, references resolved."""
    groups: dict[str, list[Json]] = {}
    for path, item in document.get("paths", {}).items():
        for method, operation in item.items():
            if method in {"get", "post", "put", "patch", "delete"}:
                tag = (operation.get("tags") or ["other"])[0]
                groups.setdefault(tag, []).append(_operation(document, path, method, item, operation))
    return groups


def _operation(document: Json, path: str, method: str, item: Json, operation: Json) -> Json:
    parameters = [*item.get("parameters", []), *operation.get("parameters", [])]
    body = (operation.get("requestBody") or {}).get("content", {}).get("application/json", {}).get("schema")
    return {
        **operation,
        "path": path,
        "method": method,
        "anchor": re.sub(r"[^a-z0-9]+", "-", f"{method}{path}".lower()).strip("-"),
        "parameters": [_resolved(document, one) for one in parameters],
        "body": _resolved(document, body) if body else None,
        "responses": {code: _resolved(document, one) for code, one in operation.get("responses", {}).items()},
    }


def _resolved(document: Json, value: Json) -> Json:
    """The object behind a local `$ref`; a reference that leads nowhere stays as it is."""
    reference = value.get("$ref", "")
    if not reference.startswith("#/"):
        return value
    found: Any = document
    for part in reference[2:].split("/"):
        found = found.get(part) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else value


def _digest_of(path: Path) -> str:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return "missing"
    return _digest(path, stat.st_mtime_ns)


@lru_cache(maxsize=256)
def _digest(path: Path, _modified_ns: int) -> str:
    return blake2b(path.read_bytes()).hexdigest()[:HASH_CHARS]
