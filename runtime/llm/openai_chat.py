"""A chat model behind any endpoint that speaks OpenAI's chat completions: theirs, a proxy's or a local server's.

The SDK sends and closes; retrying, reading the answer and naming the failure are ours, so that a caller sees the closed
`LlmErrorKind` and nothing else. Endpoints differ in what they take (JSON schemas, token limits, temperatures): a 400
is tried again more plainly, and the plainer dialect is kept once it has worked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import openai
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, stop_before_delay
from tenacity.wait import wait_random_exponential

from runtime.llm.dialect import Dialect, options, plainer, prompt
from runtime.llm.failures import llm_error, worth_retrying
from runtime.llm.port import ChatReply, ChatRequest, LlmError, LlmErrorKind
from runtime.llm.wire import read_reply

NO_KEY = "none"
CONNECT_TIMEOUT_S = 10.0
MAX_ATTEMPTS = 4
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 20.0

_full_jitter = wait_random_exponential(multiplier=FIRST_WAIT_S, max=LONGEST_WAIT_S)


class OpenAiChat:
    """A chat model at an OpenAI-compatible endpoint. One instance a process; calls may run side by side.

    A cancelled call closes its connection. `aclose` ends the connections that are kept for reuse.
    """

    def __init__(
        self,
        *,
        base_url: str | None,
        api_key: str | None,
        model: str,
        attempts: int = MAX_ATTEMPTS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.label = model
        self._attempts = attempts
        self._sleep = sleep
        self._dialect = Dialect(limit="max_completion_tokens" if base_url is None else "max_tokens")
        self._client = openai.AsyncOpenAI(
            base_url=base_url or "https://api.openai.com/v1", api_key=api_key or NO_KEY, max_retries=0
        )

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Answer within `request.deadline_s`, trying again when the failure may pass.

        Raises `LlmError`. Its `retry_after_s` is set when the provider asked for more time than the deadline leaves.
        """
        retrying = AsyncRetrying(
            retry=retry_if_exception(worth_retrying),
            stop=stop_after_attempt(self._attempts) | stop_before_delay(request.deadline_s),
            wait=_pause,
            sleep=self._sleep,
            reraise=True,
        )
        try:
            async with asyncio.timeout(request.deadline_s):
                reply: ChatReply = await retrying(self._ask, request)
        except TimeoutError:
            raise LlmError(LlmErrorKind.TIMEOUT, f"{self.label}: no answer in {request.deadline_s} s") from None
        return reply

    async def aclose(self) -> None:
        """Close every connection; calls still running fail."""
        await self._client.close()

    async def _ask(self, request: ChatRequest) -> ChatReply:
        """One attempt, in the plainest dialect that the endpoint turns out to need."""
        dialect = self._dialect
        while True:
            try:
                reply = await self._send(request, dialect)
            except openai.BadRequestError as error:
                simpler = plainer(dialect, request, error)
                if simpler is None:
                    raise llm_error(error, self.label) from error
                dialect = simpler
            else:
                self._dialect = dialect
                return reply

    async def _send(self, request: ChatRequest, dialect: Dialect) -> ChatReply:
        try:
            raw = await self._client.chat.completions.with_raw_response.create(
                model=self.label,
                messages=prompt(request, dialect),
                extra_body=options(request, dialect),
                timeout=openai.Timeout(request.deadline_s, connect=CONNECT_TIMEOUT_S),
            )
        except openai.BadRequestError:
            raise
        except openai.APIError as error:
            raise llm_error(error, self.label) from error
        return read_reply(raw.http_response.content, self.label)


def _pause(state: RetryCallState) -> float:
    """Seconds until the next attempt: what the provider asked for, else full jitter."""
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after_s if isinstance(error, LlmError) else None
    return _full_jitter(state) if asked is None else asked
