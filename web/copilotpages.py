"""The copilot's pages: the list of its sessions, and one session with what was said, insights, board and turns."""

from __future__ import annotations

from typing import Any, Final, Protocol

from flask import Blueprint, abort, redirect, request, url_for
from werkzeug.wrappers import Response as WerkzeugResponse

from web.copilotwords import (
    ZONES,
    agent_name,
    agent_set_of,
    as_copilot,
    did_words,
    insight_kind,
    line_to_say,
    number_words,
    set_title,
    since_start,
    skip_words,
    sureness,
    took_words,
    trigger_words,
    turn_words,
)
from web.pages import PAGE_LIMIT, render

Json = dict[str, Any]

MONIKER: Final = "copilot"

_HELPERS: Final = (
    agent_name,
    agent_set_of,
    as_copilot,
    did_words,
    insight_kind,
    line_to_say,
    number_words,
    set_title,
    since_start,
    skip_words,
    sureness,
    took_words,
    trigger_words,
    turn_words,
)


class Views(Protocol):
    """What these pages read; `web.copilotviews` has it from the store."""

    def frame(self) -> Json:
        """As in `web.pages.Views`."""
        ...

    def sessions(self, *, cursor: str | None, limit: int) -> Json:
        """`{"items": [session with its thread's `title`], "next_cursor", "live_cursor"}`, newest first."""
        ...

    def session(self, session_id: str) -> Json | None:
        """The session, its thread's title, what `web.copilotshapes` makes of its newest 100 steps, and live cursors.

        None for an unknown id.
        """
        ...


def copilot_blueprint(views: Views) -> Blueprint:
    """The pages over `views`. It uses helpers and templates of `web.pages`, which has to be registered too."""
    pages = Blueprint("copilot_pages", __name__, template_folder="templates")
    for helper in _HELPERS:
        pages.add_app_template_filter(helper)

    @pages.get("/copilot")
    def copilots() -> str:
        found = views.sessions(cursor=request.args.get("cursor"), limit=PAGE_LIMIT)
        return render("copilots.html", views.frame(), found=found)

    @pages.get("/copilot/<session_id>")
    def copilot(session_id: str) -> str | WerkzeugResponse:
        found = views.session(session_id)
        if found is None:
            abort(404, f"There is no session {session_id}.")
        if found["session"]["moniker"] != MONIKER:
            return redirect(url_for("pages.session", session_id=session_id))
        return render("copilot.html", views.frame(), zone_names=ZONES, **found)

    return pages
