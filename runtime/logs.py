"""Structured log lines: one sentence that says what happens next, and fields with ids. No secret stands in one.

Whatever leaves the process on standard error passes `redact` first: our lines, those of libraries that use `logging`,
and the traceback of an error that nobody caught.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from datetime import date
from types import TracebackType
from typing import Any, Literal

import structlog
from structlog.tracebacks import ExceptionDictTransformer

Redact = Callable[[str], str]

_PLAIN = (bool, int, float, date, type(None))


def configure_logs(log_format: Literal["text", "json"], level: str, redact: Redact | None = None) -> Any:
    """Set the process's logging up and return its logger. Lines go to standard error, without what `redact` takes out.

    Without `redact` only our own lines are set up: nothing is done to `logging` and to uncaught errors.
    """
    # Local variables of a traceback may hold anything, cut in the middle: they are left out.
    as_json = log_format == "json"
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    )
    transformer = ExceptionDictTransformer(show_locals=False)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            structlog.processors.ExceptionRenderer(transformer) if as_json else structlog.processors.format_exc_info,
            *([_Redacting(redact)] if redact else []),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    if redact is not None:
        _redact_the_rest(redact)
    return structlog.get_logger()


class _Redacting:
    """The step of a line's way that takes secrets out of every field, however deep."""

    def __init__(self, redact: Redact) -> None:
        self._redact = redact

    def __call__(self, _logger: Any, _name: str, event: Any) -> Any:
        return {self._clean(key): self._clean(value) for key, value in event.items()}

    def _clean(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._redact(value)
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, Mapping):
            return {self._clean(key): self._clean(item) for key, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self._clean(item) for item in value]
        return self._redact(repr(value))


class _RedactingFormatter(logging.Formatter):
    def __init__(self, redact: Redact) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        return self._redact(super().format(record))


def _redact_the_rest(redact: Redact) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_RedactingFormatter(redact))
    handler.setLevel(logging.WARNING)
    logging.getLogger().handlers = [handler]

    def uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        sys.stderr.write(redact("".join(traceback.format_exception(kind, error, trace))))

    def uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None and not issubclass(args.exc_type, SystemExit):
            uncaught(args.exc_type, args.exc_value, args.exc_traceback)

    sys.excepthook = uncaught
    threading.excepthook = uncaught_in_thread
