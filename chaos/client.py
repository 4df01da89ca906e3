"""A client as a careful program would be: it gives keys and tries again until it has an answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import aiohttp

_ONE_TRY_S = 10.0
_PAUSE_S = 0.15
_MAY_PASS = frozenset({408, 429, 500, 502, 503, 504, 507})


class NoAnswerError(Exception):
    """A request got no answer that a client can work with."""


class Client:
    """Speaks to the web process, wherever it is in its life."""

    def __init__(self, session: aiohttp.ClientSession, root: str, *, patience_s: float) -> None:
        self._session = session
        self._root = root
        self._patience_s = patience_s

    async def post(self, path: str, body: dict[str, Any], *, fine: Sequence[int] = ()) -> dict[str, Any]:
        """The answer's JSON; raises `NoAnswerError` when there is none for long, or a refusal that is not `fine`."""
        return await self._ask("POST", path, body, fine)

    async def get(self, path: str) -> dict[str, Any]:
        """The answer's JSON; raises like `post`."""
        return await self._ask("GET", path, None, ())

    async def _ask(self, method: str, path: str, body: dict[str, Any] | None, fine: Sequence[int]) -> dict[str, Any]:
        until, last = time.monotonic() + self._patience_s, "nothing was tried"
        while time.monotonic() < until:
            try:
                status, answer = await self._once(method, path, body)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                last = f"{type(error).__name__}: {error}"
            else:
                if status < 400 or status in fine:
                    return answer
                last = f"{status} {answer.get('detail') or answer}"
                if status not in _MAY_PASS:
                    raise NoAnswerError(f"{method} {path}: {last}")
            await asyncio.sleep(_PAUSE_S)
        raise NoAnswerError(f"{method} {path}: no good answer in {self._patience_s:g} s; the last one: {last}")

    async def _once(self, method: str, path: str, body: dict[str, Any] | None) -> tuple[int, dict[str, Any]]:
        limit = aiohttp.ClientTimeout(total=_ONE_TRY_S)
        async with self._session.request(method, f"{self._root}{path}", json=body, timeout=limit) as response:
            answer = await response.json(content_type=None)
            return response.status, answer if isinstance(answer, dict) else {"detail": str(answer)}
