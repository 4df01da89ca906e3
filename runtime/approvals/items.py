"""Questions as a session keeps them while it waits: approval items, each with an id that no other question ever has.

An id names its session and the iteration that asked, of which the journal has one. `digest` is a hash of all that a
person agrees to: an answer counts for this digest only. What is stored is what is shown, and the moment at which the
time for an answer is over; a restart reads both and works nothing out anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from pydantic import ValidationError

from runtime.approvals.port import Question, QuestionKind
from runtime.ports import Json, MonikerError
from store.answers import question_digest

MAX_KEY_CHARS = 200
#: what a moniker may say of an item beside its question
_NAMES = ("key", "id")


def item_id(session_id: str, iteration: int, number: int) -> str:
    """The id of an item: its last two parts are numbers, so it names one session whatever that is called."""
    return f"{session_id}:{iteration}:{number}"


def words_of(question: Question) -> Json:
    """A question as JSON has it. Raises `MonikerError` for one that only the runtime asks, or that JSON cannot hold."""
    if question.kind is QuestionKind.UNSAFE_CALL:
        raise MonikerError("a question of kind 'unsafe_call' is asked by the runtime only; give another kind")
    try:
        return question.model_dump(mode="json")
    except ValueError as error:  # pydantic's own error for a value that it cannot write
        raise MonikerError(f"the question {question.question[:80]!r} holds what JSON cannot: {error}") from error


def asked_item(words: Mapping[str, Any], *, key: str, asked_at: datetime, epoch: int) -> Json:
    """The item of a question that was put at `asked_at` by the owner of `epoch`; it gets its id where it is put."""
    timeout_s = words.get("timeout_s")
    ends = None if timeout_s is None else asked_at + timedelta(seconds=float(timeout_s))
    return {
        **words,
        "key": key,
        "asked_at": asked_at.isoformat(),
        "expires_at": None if ends is None else ends.isoformat(),
        "epoch": epoch,
        "digest": question_digest(words),
    }


def wait_items(
    items: Sequence[Json], *, session_id: str, iteration: int, asked_at: datetime, epoch: int
) -> tuple[Json, ...]:
    """The items of a `WaitForApproval` that a step answered, as they are stored and shown.

    An item is a `Question` with a `key` under which the next step finds the answer (its place in the list when left
    out). Raises `MonikerError` for one that is none: the step fails and says which.
    """
    if not items:
        raise MonikerError("the step waits for an approval of nothing; give WaitForApproval at least one item")
    keys = [_key_of(item, number) for number, item in enumerate(items)]
    if twice := sorted({key for key in keys if keys.count(key) > 1}):
        raise MonikerError(f"two items of WaitForApproval have the key {twice[0]!r}; give each its own")
    return tuple(
        {
            "id": item_id(session_id, iteration, number),
            **asked_item(_words_of_item(item, number), key=key, asked_at=asked_at, epoch=epoch),
        }
        for number, (key, item) in enumerate(zip(keys, items, strict=True))
    )


def bare(items: Iterable[Any]) -> list[Any]:
    """What of some items a moniker decides, without what is added when they are put: for comparing."""
    return [_bare(item, number) for number, item in enumerate(items)]


def _bare(item: Any, number: int) -> Any:
    try:
        return {"key": _key_of(item, number), **_words_of_item(_own(item), number)}
    except MonikerError:
        return item


def _own(item: Json) -> Json:
    """A stored item without what was added to it."""
    names = {*Question.model_fields, *_NAMES}
    return {name: value for name, value in item.items() if name in names}


def _key_of(item: Any, number: int) -> str:
    if not isinstance(item, dict):
        raise MonikerError(f"item {number} of WaitForApproval is no object but {item!r}; give a question")
    key = item.get("key", item.get("id", str(number)))
    if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY_CHARS:
        raise MonikerError(f"item {number} of WaitForApproval has the key {key!r}; give 1 to {MAX_KEY_CHARS} letters")
    return key


def _words_of_item(item: Json, number: int) -> Json:
    words = {name: value for name, value in item.items() if name not in _NAMES}
    try:
        return words_of(Question.model_validate(words))
    except ValidationError as error:
        found = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise MonikerError(f"item {number} of WaitForApproval is no question: {found}") from error
