"""What can go wrong while actions are carried out."""

from __future__ import annotations


class RuntimeFaultError(Exception):
    """The base of every error this folder raises on purpose."""


class RefusedError(RuntimeFaultError):
    """The action cannot be carried out as asked; trying again will not help. The message is stored on it."""


class SpentError(RuntimeFaultError):
    """The action's tries are used up, or it broke what carried it out: it is dead until a person requeues it."""


class ParkedError(RuntimeFaultError):
    """The action has to wait for its session (a pause, a stopping worker); its row stays open and nothing is stored.

    Whoever lets the session go on reads its open rows again.
    """


class OwnershipLostError(RuntimeFaultError):
    """Another worker has claimed the session's lane: what was done since is not shown, and it goes on over there."""


class StopTimedOutError(RuntimeFaultError):
    """The worker was asked to stop and could not store its last rows in time; the next start repairs them."""


class SettingError(RuntimeFaultError, ValueError):
    """A setting cannot be used; the message names its key."""
