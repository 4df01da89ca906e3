"""Whether a step that failed is worth another try, and when; and what is said of it."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ValidationError

from runtime.contract import MonikerError
from runtime.guard.errors import GateFailedError
from runtime.llm.port import LlmError, LlmErrorKind
from runtime.retries import RetryPolicy
from runtime.session import LiveSession

_PASSING_KINDS = frozenset(
    {LlmErrorKind.TIMEOUT, LlmErrorKind.RATE_LIMIT, LlmErrorKind.SERVER, LlmErrorKind.UNAVAILABLE}
)


@dataclass(frozen=True, slots=True)
class NextTry:
    """A step is tried again after `delay_s` seconds; `tried` tries have failed."""

    tried: int
    delay_s: float


def said_by_moniker(error: BaseException) -> bool:
    """Whether the failure was foreseen: trying again, or looking for a fault of ours, would not help."""
    return isinstance(error, MonikerError | LlmError) and not may_pass(error)


def words_of(error: BaseException) -> str:
    """An error as a failed step's row has it: what a moniker or a model said as it is, anything else with its kind."""
    return str(error) if isinstance(error, MonikerError | LlmError) else f"{type(error).__name__}: {error}"


def may_pass(error: BaseException) -> bool:
    """Whether the same step may well succeed a little later: all but what its moniker or its model has decided."""
    if isinstance(error, LlmError):
        return error.kind in _PASSING_KINDS
    return not isinstance(error, MonikerError | ValidationError)


def next_try(session: LiveSession, error: BaseException, failed_seq: int, policy: RetryPolicy) -> NextTry | None:
    """Count a failed try in `session`; None when there is to be no other."""
    if not may_pass(error):
        return None
    # Where a gate had no verdict, the calls before it did not fail: they are read again, not paid again.
    tried = session.count_try(session.failed_seq if isinstance(error, GateFailedError) else failed_seq)
    delay = policy.next_delay(tried)
    if delay is None:
        return None
    asked = error.retry_after_s if isinstance(error, LlmError) else None
    return NextTry(tried, delay if asked is None else max(delay, asked))
