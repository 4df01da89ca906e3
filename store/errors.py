"""What can go wrong in the store. Every class says what the caller should believe about the data."""

from __future__ import annotations


class StoreError(Exception):
    """The base of every error this folder raises on purpose."""


class StoreUnavailableError(StoreError):
    """The data folder or bucket could not be written or read in time; nothing was acknowledged."""


class StoreAwayError(StoreUnavailableError):
    """An object store could not be reached; it may be back in a moment, so starting again is worth it."""


class StoreUnsafeError(StoreError):
    """The store would lose what it acknowledged, or nothing here was made for it; it was not opened."""


class StoreTooNewError(StoreError):
    """The store was written by a newer version of Stepwell; opening it would risk its data."""


class StoreDamagedError(StoreError):
    """Files of the store are cut, missing or overwritten; nothing was written. The message names one and the cure."""


class NotFoundError(StoreError):
    """The id is not in the store of this tenant."""

    def __init__(self, noun: str, key: str) -> None:
        super().__init__(f"no {noun} with id {key!r}; list them to see which exist")
        self.noun = noun
        self.key = key


class ConflictError(StoreError):
    """The request contradicts what is stored; nothing was written."""


class BadFilterError(StoreError, ValueError):
    """A filter, order or cursor from outside cannot be used."""


class BadRowError(StoreError, ValueError):
    """One row cannot be stored (text that is not Unicode, a number out of range); other rows were unharmed."""
