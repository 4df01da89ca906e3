"""The model behind the agents: one client for an engine, over the runtime's own model code (runtime/llm).

Without a key and an endpoint the offline model answers, and says that it is no real model. The client of endpoints is
loaded by the first call that needs it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from pydantic import SecretStr, ValidationError

from runtime.llm.direct import close_model, json_model
from runtime.llm.port import ChatMessage, ChatModel, ChatReply, ChatRequest, LlmError, LlmErrorKind, Usage
from runtime.llm.structured import ask_json

#: what the offline model knows the calls of agents by
PURPOSE = "copilot.agent"
DEFAULT_TIMEOUT_S = 30.0
DEFAULT_MAX_RETRIES = 2
DEFAULT_MAX_TOKENS = 1_500
MAX_SHOWN_CHARS = 100

#: an agent's answer: an object, or several of them
_ANSWER = {"type": ["object", "array"]}
_ROLES = frozenset({"system", "user", "assistant"})


@dataclass(frozen=True)
class LLMResult:
    """What a call gave.

    `parsed` is the JSON of the answer, None when there is none; then `error_category` says why, in the words of
    `LlmErrorKind` ("timeout", "rate_limit", "malformed", ...), and `error` in a sentence. `usage` holds `calls`,
    `input_tokens`, `output_tokens`, `cost` (None when it is not known) and `model`.
    """

    parsed: Any = None
    error_category: str | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)
    finish_reason: str | None = None
    error: str = ""
    #: how an answer began that is no JSON
    partial: str = ""


class ModelCallError(Exception):
    """A call to the model gave nothing that can be used; `category` says why."""

    def __init__(self, category: str, said: str) -> None:
        super().__init__(f"{category}: {said}" if said else category)
        self.category = category


class LLMClient:
    """Asks any OpenAI-compatible endpoint for JSON. May be used for several models, and from several event loops.

    `timeout` is seconds for a whole call with its retries. `api_key` and `base_url` may be changed at any time by
    making another client; no setting of the environment is read.
    """

    def __init__(
        self,
        api_key: str | None = None,
        timeout: float = DEFAULT_TIMEOUT_S,
        max_retries: int = DEFAULT_MAX_RETRIES,
        max_tokens: int | None = DEFAULT_MAX_TOKENS,
        base_url: str | None = None,
    ) -> None:
        self.timeout = timeout
        self.max_retries = max_retries
        self.max_tokens = max_tokens
        self.base_url = base_url
        self._key = SecretStr(api_key) if api_key else None
        self._models: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, ChatModel]] = WeakKeyDictionary()

    @property
    def offline(self) -> bool:
        """Whether nobody is asked: there is neither a key nor an endpoint."""
        return self._key is None and self.base_url is None

    async def generate(
        self,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        *,
        max_tokens: int | None = None,
        timeout: float | None = None,
        model_params: Mapping[str, Any] | None = None,
    ) -> LLMResult:
        """The JSON that `model` answers to `messages` (`role`, `content`).

        An answer that is no JSON is mended, and when that fails asked for once more. Never raises for a failed call:
        see `LLMResult.error_category`. Cancelled, it closes its request.
        """
        deadline_s = timeout or self.timeout
        params = {"max_tokens": self.max_tokens, **(model_params or {})}
        if max_tokens:
            params["max_tokens"] = max_tokens
        counted = CountedModel(self._model(model))
        try:
            async with asyncio.timeout(deadline_s):
                return await ask_agent_model(counted, messages, params, deadline_s=deadline_s)
        except TimeoutError:
            said = f"{model}: no answer in {deadline_s:g} s"
            return LLMResult(error_category=LlmErrorKind.TIMEOUT.value, usage=counted.usage(), error=said)

    async def generate_json(self, model: str, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """As `generate`, for agents that want the object alone. Raises `ModelCallError` when there is none."""
        result = await self.generate(model, messages)
        if result.error_category is not None:
            raise ModelCallError(result.error_category, result.error)
        if not isinstance(result.parsed, dict):
            raise ModelCallError(LlmErrorKind.MALFORMED.value, f"the answer is a {type(result.parsed).__name__}")
        return result.parsed

    async def aclose(self) -> None:
        """Close the connections of the running event loop; calls still running in it fail."""
        for chat in self._models.pop(asyncio.get_running_loop(), {}).values():
            await close_model(chat)

    def _model(self, name: str) -> ChatModel:
        """The model of that name for the running loop, whose connections no other loop can use."""
        known = self._models.setdefault(asyncio.get_running_loop(), {})
        if name not in known:
            known[name] = json_model(
                base_url=self.base_url,
                api_key=self._key.get_secret_value() if self._key else None,
                model=name,
                attempts=self.max_retries + 1,
            )
        return known[name]


async def ask_agent_model(
    model: CountedModel, messages: Sequence[Mapping[str, Any]], params: Mapping[str, Any], *, deadline_s: float
) -> LLMResult:
    """The JSON that `model` answers to `messages`, mended where it must be, asked for once more where that fails.

    `params` are `max_tokens`, `temperature` and what else a request may carry; `deadline_s` bounds each call, in
    seconds. A failed call is a result with its `error_category`; whatever else is raised passes.
    """
    told = dict(params)
    try:
        request = ChatRequest(
            purpose=PURPOSE,
            messages=_messages(messages),
            max_tokens=told.pop("max_tokens", None),
            temperature=told.pop("temperature", None),
            deadline_s=deadline_s,
            params=told,
        )
    except ValidationError as error:
        said = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:3])
        return LLMResult(error_category=LlmErrorKind.BAD_REQUEST.value, error=said)
    try:
        answer = await ask_json(model, request, _ANSWER)
    except LlmError as error:
        return LLMResult(
            error_category=error.kind.value,
            usage=model.usage(),
            error=error.message,
            partial=error.partial[:MAX_SHOWN_CHARS],
        )
    return LLMResult(answer.value, usage=model.usage(), finish_reason=answer.replies[-1].finish_reason)


class CountedModel:
    """A model that adds up what it was paid, also for answers that could not be used."""

    def __init__(self, chat: ChatModel) -> None:
        self._chat = chat
        self._replies: list[ChatReply] = []
        self.label = chat.label

    async def chat(self, request: ChatRequest) -> ChatReply:
        reply = await self._chat.chat(request)
        self._replies.append(reply)
        return reply

    def usage(self) -> dict[str, Any]:
        total, costs = Usage(), [reply.cost for reply in self._replies]
        for reply in self._replies:
            total = total.plus(reply.usage)
        known = [cost for cost in costs if cost is not None]
        return {
            "calls": len(self._replies),
            "input_tokens": total.input_tokens,
            "output_tokens": total.output_tokens,
            "cost": float(sum(known)) if known and len(known) == len(costs) else None,
            "model": self._replies[-1].model if self._replies else self.label,
        }


def _messages(messages: Sequence[Mapping[str, Any]]) -> tuple[ChatMessage, ...]:
    """The messages as the port has them; the role "developer" is what others call "system"."""
    return tuple(_message(message) for message in messages)


def _message(message: Mapping[str, Any]) -> ChatMessage:
    role, content = message.get("role"), message.get("content")
    return ChatMessage.model_validate(
        {"role": role if role in _ROLES else "system", "content": content if isinstance(content, str) else str(content)}
    )
