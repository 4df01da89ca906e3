"""What is known of a step's calls before it is tried: results to read, calls of which nobody knows how they ended.

A step's tries share their calls: those of the same iteration (a crash, a passing failure) and those of the failed
iterations before it. Rows are taken in the order of tries; of two rows for one key the later one counts, and a row of
a later owner (a higher epoch) counts more than one of an earlier owner.

    intent ──▶ tool          the call was made: its result is read
    intent                   it may have been made: a person is asked
    intent ──▶ repeat        a person said to make it (again)
    intent ──▶ done          a person said that it was made, and how it ended
    intent ──▶ fail          a person said to give up: this try fails, a later one asks again
    asked ──▶ answer         a person was asked, and answered
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from runtime.usage import Used, used_as_told
from store.records import Record


class RecordKind(StrEnum):
    """What a row of `records` says. A tool may name its own kind; every other word is a result."""

    MODEL = "model"
    EMBED = "embed"  # vectors of texts
    TOOL = "tool"
    INTENT = "intent"  # a call that must not be made twice is about to be made
    REPEAT = "repeat"  # a person: make it
    DONE = "done"  # a person: it was made, with this result
    FAIL = "fail"  # a person: give up
    ASKED = "asked"  # a question to a person
    ANSWER = "answer"  # a person's, or the time's, answer to it
    SANDBOX = "sandbox"  # a program's run up to its end, or to a call that a person has to allow
    RECALL = "recall"  # what was found in the memory
    REMEMBER = "remember"  # something was put into the memory, or taken out of it
    BUDGET = "budget"  # what was left of the budgets
    GATE = "gate"  # what the guard decided about a text
    FAILED = "failed"  # a call that raised; told in traces, and never read as a result


#: records of calls that may have asked a model: what that took stands in their `usage`
PAID_KINDS = (
    RecordKind.MODEL,
    RecordKind.EMBED,
    RecordKind.GATE,
    RecordKind.RECALL,
    RecordKind.REMEMBER,
    RecordKind.FAILED,
)


@dataclass(slots=True)
class KnownCalls:
    """The calls of a step's earlier tries."""

    results: dict[str, Record] = field(default_factory=dict)
    #: calls that may have been made, by key
    in_flight: dict[str, Record] = field(default_factory=dict)
    #: calls that a person gave up, by key
    given_up: set[str] = field(default_factory=set)
    #: the questions that were put to a person, by key
    asked: dict[str, Record] = field(default_factory=dict)
    #: what this iteration's calls used whose answers are not read again
    wasted: Used = field(default_factory=Used)
    last_seq: int = 0

    def _take(self, row: Record, iteration: int) -> None:
        match row.kind:
            case RecordKind.INTENT:
                self.results.pop(row.key, None)
                self.in_flight[row.key] = row
            case RecordKind.REPEAT:
                self.in_flight.pop(row.key, None)
            case RecordKind.FAIL:
                if row.iteration == iteration:
                    self.in_flight.pop(row.key, None)
                    self.given_up.add(row.key)
            case RecordKind.ASKED:
                self.asked[row.key] = row
            case RecordKind.FAILED:
                pass
            case _:
                self.in_flight.pop(row.key, None)
                self.results[row.key] = row


def known_calls(rows: Iterable[Record], iteration: int, failed_seq: int = 0) -> KnownCalls:
    """Fold `rows`, in the order of tries, for a try of `iteration`.

    Model calls behind the last tool call of a failed try are left out: their answer may be why it failed. Tries of
    earlier iterations failed; those of this one failed up to the call numbered `failed_seq`.
    """
    found, listed = KnownCalls(), list(rows)
    dropped = _trailing_model_calls(listed, iteration, failed_seq)
    for position, row in enumerate(listed):
        if row.iteration == iteration:
            found.last_seq = max(found.last_seq, row.event_seq)
        if position not in dropped:
            found._take(row, iteration)
    for row in listed:
        if row.iteration == iteration and found.results.get(row.key) is not row:
            found.wasted = found.wasted.plus(used_by(row))
    return found


def used_by(row: Record) -> Used:
    """What the model calls of a row used and cost; nothing for a row that asked none."""
    return used_as_told(row.usage) if row.kind in PAID_KINDS else Used()


def _trailing_model_calls(rows: list[Record], iteration: int, failed_seq: int) -> set[int]:
    """The places of the model calls that no other call of a failed try followed."""
    failed = [
        place
        for place, row in enumerate(rows)
        if row.kind != RecordKind.FAILED and (row.iteration < iteration or row.event_seq <= failed_seq)
    ]
    trailing: set[int] = set()
    for place in reversed(failed):
        if rows[place].kind in (RecordKind.EMBED, RecordKind.GATE):  # says nothing of whether an answer was of use
            continue
        if rows[place].kind != RecordKind.MODEL:
            break
        trailing.add(place)
    return trailing
