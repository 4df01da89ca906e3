"""The studio's page: agents of the copilot are written there, checked, tried on a session, and saved."""

from __future__ import annotations

from typing import Any, Protocol

from flask import Blueprint, abort, request

from web.pages import render

Json = dict[str, Any]


class Views(Protocol):
    """What the page reads; `web.studioviews` has it from the store."""

    def frame(self) -> Json:
        """As in `web.pages.Views`."""
        ...

    def studio(self, agent_set: str, agent_id: str, session_id: str) -> Json | None:
        """`{"sets", "chosen", "sessions", "session", "asked_session"}`; None for a set or an agent that is not there.

        An empty argument is what the address leaves out. `chosen` has `{"agent_set", "set_title", "agent_id", "name",
        "definition", "based_on", "versions", "running"}`; it is None when no set ships.
        """
        ...


def studio_blueprint(views: Views) -> Blueprint:
    """The page over `views`. It uses helpers and templates of `web.pages`, which has to be registered too."""
    pages = Blueprint("studio", __name__, template_folder="templates")

    @pages.get("/copilot/studio")
    def studio() -> str:
        agent_set, agent_id, session_id = (
            request.args.get(name, "") for name in ("agent_set", "agent_id", "session_id")
        )
        found = views.studio(agent_set, agent_id, session_id)
        if found is None:
            abort(404, f"There is no agent {agent_id} in the set {agent_set}.")
        return render("studio.html", views.frame(), **found)

    return pages
