"""What can be wrong with a guard's settings and use. A text at a gate never raises any of these."""

from __future__ import annotations

from dataclasses import dataclass


class GuardError(Exception):
    """The base of all."""


class GateFailedError(Exception):
    """A gate that fails closed has no verdict: the text is neither passed nor lost, and the step is tried again.

    It is no `GuardError`: nothing is wrong with the settings, and the next try may well succeed.
    """


class MarkingError(GuardError):
    """A nonce that is none, or a block of data that is not whole."""


class PatternError(GuardError):
    """A regular expression that the guard does not run; says where and what to write instead."""


class SecretError(GuardError):
    """A configured secret that cannot be looked for. Never quotes it."""


class MissingExtra(GuardError):
    """A rule is on whose library is not installed."""


class WeightsError(GuardError):
    """The shipped weights of the classifier are missing or damaged."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One mistake in a file: its line, counted from 1, the place in dots, and what to do."""

    line: int
    place: str
    what: str


class GovernanceError(GuardError):
    """`governance.yaml` cannot be used; `faults` are all the mistakes found."""

    def __init__(self, name: str, faults: tuple[Fault, ...]) -> None:
        lines = (f"{name}:{fault.line}: {f'{fault.place}: ' if fault.place else ''}{fault.what}" for fault in faults)
        super().__init__("\n".join(lines))
        self.faults = faults
