"""Keys that are left alone: those that are not accepted, and those that were asked to come back later."""

from __future__ import annotations

from runtime.llm.apikey import ApiKey
from runtime.llm.port import LlmErrorKind

#: a provider's word keeps a key away for so long at most
LONGEST_REST_S = 3_600.0


class Quarantine:
    """Until when each key rests. Time is passed in, as seconds that never go back."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}
        self._why: dict[str, LlmErrorKind] = {}

    def rest(self, key: ApiKey | None, provider: str, seconds: float, now: float, why: LlmErrorKind) -> float:
        """Leave the key alone for `seconds`, at most an hour; gives the seconds that it rests now."""
        name = _name(key, provider)
        until = max(self._until.get(name, now), now + min(max(0.0, seconds), LONGEST_REST_S))
        self._until[name] = until
        self._why[name] = why
        return until - now

    def left_s(self, key: ApiKey | None, provider: str, now: float) -> float:
        """Seconds that the key still rests; 0 when it may be used."""
        return max(0.0, self._until.get(_name(key, provider), now) - now)

    def why(self, key: ApiKey | None, provider: str) -> LlmErrorKind | None:
        """What the key rests for, or rested for last."""
        return self._why.get(_name(key, provider))


def _name(key: ApiKey | None, provider: str) -> str:
    # one key at two providers is two keys: each judges for itself
    return f"{provider}:{key.fingerprint if key else ''}"
