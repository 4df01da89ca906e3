"""A suspended program as text for a store, and the seal that ties it to its session, its program and its call.

The bytes of a snapshot are read by an interpreter that trusts them. So nothing is loaded unless the seal, an HMAC over
every field, holds: who can write to the store but lacks the key cannot make the sandbox load other bytes, nor carry an
approval over to other arguments, another session or another program.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import asdict, replace

from pydantic import TypeAdapter, ValidationError

from runtime.sandbox.errors import SandboxMisuseError, SnapshotRefusedError
from runtime.sandbox.fingerprint import canonical
from runtime.sandbox.port import Answer, Binding, Suspended

MIN_KEY_BYTES = 32

_SUSPENDED = TypeAdapter(Suspended)


class Sealer:
    """Seals suspended programs with a secret key, which the caller keeps outside the store."""

    def __init__(self, key: bytes) -> None:
        if len(key) < MIN_KEY_BYTES:
            raise SandboxMisuseError(f"a key of {len(key)} bytes: give at least {MIN_KEY_BYTES} random ones")
        self._key = key

    def seal(self, suspended: Suspended) -> Suspended:
        """The same with its seal."""
        return replace(suspended, seal=self._seal(suspended))

    def check(self, suspended: Suspended, binding: Binding, engine: str, answer: Answer) -> None:
        """Raise SnapshotRefusedError unless all of it is as it was sealed, for this session, engine and answer."""
        if not hmac.compare_digest(self._seal(suspended).encode(), suspended.seal.encode(errors="replace")):
            raise SnapshotRefusedError("the suspended program was changed, or sealed with another key; run it again")
        if suspended.binding != binding:
            message = f"the suspended program belongs to {suspended.binding!r}, not to {binding!r}; run it again here"
            raise SnapshotRefusedError(message)
        if suspended.engine != engine:
            raise SnapshotRefusedError(f"suspended by {suspended.engine}, but this is {engine}; run the program again")
        if answer.fingerprint != suspended.fingerprint:
            message = f"the answer is for call {answer.fingerprint[:12]}, the program waits at"
            raise SnapshotRefusedError(f"{message} {suspended.fingerprint[:12]} ({suspended.call.name}); ask again")

    def _seal(self, suspended: Suspended) -> str:
        return hmac.new(self._key, canonical(_plain(replace(suspended, seal=""))), hashlib.sha256).hexdigest()


def to_json(suspended: Suspended) -> str:
    """`suspended` as text that `from_json` reads. It holds the program's memory: guard it like the session's state."""
    return json.dumps(_plain(suspended))


def from_json(text: str | bytes) -> Suspended:
    """The suspended program in `text`. Raises SnapshotRefusedError for any other text; the seal is not checked here."""
    try:
        fields = json.loads(text)
        fields["snapshot"] = base64.b64decode(fields["snapshot"], validate=True)
        return _SUSPENDED.validate_python(fields)
    except (ValidationError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise SnapshotRefusedError(f"this is no suspended program ({type(error).__name__}); run it again") from error


def _plain(suspended: Suspended) -> dict[str, object]:
    return {**asdict(suspended), "snapshot": base64.b64encode(suspended.snapshot).decode()}
