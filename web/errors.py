"""Every error of a request becomes problem+json, or a page when a person looks at one."""

from __future__ import annotations

from collections.abc import Callable

import orjson
import structlog
from flask import Flask, Response, request
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import HTTPException

from web.pages import error_page
from web.problems import PROBLEM_TYPE, Problem, problem_of, unforeseen

_log = structlog.get_logger(__name__)


def install_errors(app: Flask, redact: Callable[[str], str]) -> None:
    """Answer every error of `app`, in words that passed `redact`. Redirects that werkzeug raises stay redirects."""

    @app.errorhandler(Exception)
    def answer(error: Exception) -> ResponseReturnValue:
        if isinstance(error, HTTPException) and error.response is not None:
            return error
        problem = problem_of(error)
        if problem is None:
            _log.error("request failed", method=request.method, path=request.path, exc_info=error)
        return answer_problem((problem or unforeseen()).without(redact))


def answer_problem(problem: Problem) -> Response:
    """`problem` for the request at hand."""
    if _wants_page():
        text, _ = error_page(problem.status, problem.title, problem.detail)
        return Response(text, problem.status, problem.headers, mimetype="text/html")
    body = orjson.dumps(problem.body(request.path))
    return Response(body, problem.status, problem.headers, mimetype=PROBLEM_TYPE)


def _wants_page() -> bool:
    """Whether a browser asks for a page: it prefers HTML to JSON, and the address is not the API's."""
    if request.path.startswith("/api/"):
        return False
    choices = ["application/json", "text/html"]  # the first wins when anything is fine
    return request.accept_mimetypes.best_match(choices) == "text/html"
