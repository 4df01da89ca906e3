"""What can go wrong with tools: wrong definitions, wrong arguments, and the failures that a tool raises on purpose."""

from __future__ import annotations


class ToolsError(Exception):
    """The base of every error this folder raises on purpose."""


class ToolDefinitionError(ToolsError, TypeError):
    """A function cannot become a tool, or tools cannot become a toolbox; the message names it and the cure."""


class ArgumentsError(ToolsError, ValueError):
    """The arguments of a call do not fit the tool; `problems` has one sentence for each mistake."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class ToolFailed(ToolsError):
    """A tool could not do what it was asked, and asking again will not help. The message goes to the model."""


class MayPass(ToolFailed):
    """A tool could not do what it was asked now; it may well be able to a little later.

    `retry_after_s` is the least time to wait in seconds, when somebody named one.
    """

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
