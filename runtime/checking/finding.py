"""What a check of a store can find: each fault with its place, how bad it is, and its cure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum

#: mends a fault and says what it did
Mend = Callable[[], Awaitable[str]]


class FindingKind(StrEnum):
    """What is wrong."""

    GAP = "gap"  # a session's iterations jump
    DOUBLED = "doubled"  # a key is there twice
    STATE_MISSING = "state_missing"  # steps without a session
    STATE_BEHIND = "state_behind"  # the session's row lacks steps that it should have
    STATE_AHEAD = "state_ahead"  # the session's row knows steps that are not there
    STATE_DIFFERS = "state_differs"  # the session's row contradicts its last step
    CHAIN_BROKEN = "chain_broken"  # a step's state cannot be rebuilt from its changes
    MESSAGE_MISSING = "message_missing"  # a step said something that its thread does not have
    ACTION_OF_ENDED = "action_of_ended"  # an open action of a session that has ended
    FLAG = "flag"  # an action's `processed` contradicts its status
    PARTICIPANT = "participant"  # somebody takes part in a thread that is not there
    CURSOR = "cursor"  # a place in a table that the table has not reached
    UNOWNED = "unowned"  # a running session that no worker owns
    UNREADABLE = "unreadable"  # a row that cannot be understood
    LEFTOVER = "leftover"  # a file that no version of a table names
    DAMAGED = "damaged"  # a file that cannot be read


class Level(StrEnum):
    """How bad it is."""

    HARMLESS = "harmless"  # nobody sees it
    WRONG = "wrong"  # something is shown or done wrongly; nothing is lost
    LOST = "lost"  # something is gone that cannot be made again from what is there


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault."""

    kind: FindingKind
    level: Level
    #: the table or file
    where: str
    #: the row, session or version in it
    what: str
    problem: str
    cure: str
    mend: Mend | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Mended:
    """A fault and what was done about it; None where nothing can be done safely."""

    finding: Finding
    deed: str | None
