"""People at work: each of them starts a session, speaks to it, guides it, waits until it is done, and begins again."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from chaos.client import Client, NoAnswerError
from chaos.ledger import Asked, Ledger, Promise
from chaos.moniker import NAME
from store.clock import SystemClock

_LOOK_EVERY_S = 0.25
_FINAL = frozenset({"done", "stopped", "error"})


@dataclass(frozen=True, slots=True)
class Plan:
    """What one session is asked."""

    session_id: str
    conversation_id: str | None
    steps: int
    turns: int
    interrupts: int
    wait_s: float | None


def plan(chance: random.Random, number: int) -> Plan:
    """The session with this number."""
    name = f"s{number:05d}"
    return Plan(
        session_id=name,
        conversation_id=f"thread-{name}" if chance.random() < 0.4 else None,
        steps=chance.randint(1, 4),
        turns=chance.randint(1, 3),
        interrupts=chance.choice((0, 0, 1, 2)),
        wait_s=chance.uniform(0.2, 2.0) if chance.random() < 0.3 else None,
    )


class Person:
    """Carries plans out, one after the other. `watch` is told of each session before it begins."""

    def __init__(
        self,
        client: Client,
        ledger: Ledger,
        *,
        tool_url: str,
        chance: random.Random,
        watch: Callable[[Plan], Awaitable[None]],
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._tool_url = tool_url
        self._chance = chance
        self._watch = watch

    async def carry_out(self, plan: Plan, *, done_within_s: float) -> None:
        """Take one session from its create to its end; what goes wrong is noted."""
        try:
            await self._watch(plan)
            await self._create(plan)
            await self._speak(plan)
            await self._done(plan, done_within_s)
        except NoAnswerError as error:
            self._ledger.refusals.append(f"{plan.session_id}: {error}")

    async def _create(self, plan: Plan) -> None:
        if plan.conversation_id is not None:
            # A thread has no key but its own id: a refusal says that an earlier try was stored.
            await self._client.post("/api/conversations", {"conversation_id": plan.conversation_id}, fine=(409,))
        wait_at = None if plan.wait_s is None else SystemClock().now() + timedelta(seconds=plan.wait_s)
        config = {
            "tool_url": self._tool_url,
            "steps": plan.steps,
            "turns": plan.turns,
            "wait_at": None if wait_at is None else wait_at.isoformat(),
        }
        body = {
            "moniker": str(NAME),
            "session_id": plan.session_id,
            "agent_id": f"agent-{plan.session_id[-1]}",
            "config": config,
            "idempotency_key": f"create {plan.session_id}",
            **({} if plan.conversation_id is None else {"conversation_id": plan.conversation_id}),
        }
        self._promised(plan, Asked.CREATE, await self._client.post("/api/agents", body))

    async def _speak(self, plan: Plan) -> None:
        """Guidance first: the last input may end the session, and what came after it would rightly be refused."""
        for number in range(plan.interrupts):
            await self._rest()
            said = f"guidance {number} for {plan.session_id}"
            body = {"guidance": said, "idempotency_key": said}
            path = f"/api/sessions/{plan.session_id}/interrupt"
            self._promised(plan, Asked.INTERRUPT, await self._client.post(path, body), said)
        for number in range(plan.turns):
            await self._rest()
            await self._say(plan, f"input {number} for {plan.session_id}")

    async def _say(self, plan: Plan, said: str) -> None:
        body = {"text": said, "idempotency_key": said}
        if plan.conversation_id is None:
            answer = await self._client.post(f"/api/sessions/{plan.session_id}/input", body)
            self._promised(plan, Asked.INPUT, answer, said)
        else:
            answer = await self._client.post(f"/api/conversations/{plan.conversation_id}/messages", body)
            self._promised(plan, Asked.POST, answer, said)

    def _promised(self, plan: Plan, kind: Asked, answer: dict[str, Any], said: str = "") -> None:
        ids = answer["action_ids"] if kind is Asked.POST else [answer["action_id"]]
        thread, message = plan.conversation_id, answer.get("message_id")
        promise = Promise(kind, plan.session_id, tuple(ids), said, thread, message, time.monotonic())
        self._ledger.promises.append(promise)

    async def _rest(self) -> None:
        await asyncio.sleep(self._chance.uniform(0, 0.6))

    async def _done(self, plan: Plan, within_s: float) -> None:
        """Wait for the end. One that does not come is found in the tables."""
        until = time.monotonic() + within_s
        while time.monotonic() < until:
            if (await self._client.get(f"/api/sessions/{plan.session_id}"))["status"] in _FINAL:
                return
            await asyncio.sleep(_LOOK_EVERY_S)
