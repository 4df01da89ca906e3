"""A model behind any endpoint that speaks OpenAI's API: theirs, a proxy's or a local server's.

The SDK sends and closes; retrying, reading the answer and naming the failure are ours, so that a caller sees the closed
`LlmErrorKind` and nothing else. Endpoints differ in what they take (JSON schemas, token limits, temperatures): a 400
is tried again more plainly, and the plainer dialect is kept once it has worked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager

import httpx2
import openai
from pydantic import SecretStr
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, stop_before_delay
from tenacity.wait import wait_random_exponential

from runtime.llm.apikey import ApiKey
from runtime.llm.dialect import Dialect, options, plainer, prompt
from runtime.llm.embedding import in_batches
from runtime.llm.failures import llm_error, worth_retrying
from runtime.llm.port import (
    ChatReply,
    ChatRequest,
    EmbeddingReply,
    LlmError,
    LlmErrorKind,
    Stream,
    StreamEnd,
    StreamPart,
    StreamRestart,
)
from runtime.llm.streaming import until_deadline
from runtime.llm.streamwire import Assembly, read_stream
from runtime.llm.vectorwire import read_vectors
from runtime.llm.wire import read_reply

OPENAI_URL = "https://api.openai.com/v1"
NO_KEY = "none"
CONNECT_TIMEOUT_S = 10.0
MAX_ATTEMPTS = 4
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 20.0

_full_jitter = wait_random_exponential(multiplier=FIRST_WAIT_S, max=LONGEST_WAIT_S)


class OpenAiChat:
    """A model at an OpenAI-compatible endpoint. One instance a process; calls may run side by side.

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
        dialect: Dialect | None = None,
        connect_s: float = CONNECT_TIMEOUT_S,
        read_s: float | None = None,
        dimensions: int | None = None,
    ) -> None:
        self.label = model
        self._attempts = attempts
        self._sleep = sleep
        self._connect_s = connect_s
        #: the longest silence within an answer
        self._read_s = read_s
        self._dimensions = dimensions
        self._key = ApiKey(SecretStr(api_key)) if api_key else None
        self._dialect = dialect or Dialect(limit="max_completion_tokens" if base_url is None else "max_tokens")
        self._stream_usage = True
        self._client = openai.AsyncOpenAI(base_url=base_url or OPENAI_URL, api_key=api_key or NO_KEY, max_retries=0)

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Answer within `request.deadline_s`, trying again when the failure may pass.

        Raises `LlmError`. Its `retry_after_s` is set when the provider asked for more time than the deadline leaves.
        """
        try:
            async with asyncio.timeout(request.deadline_s):
                reply: ChatReply = await self._retrying(request.deadline_s)(self._ask, request)
        except TimeoutError:
            raise self._late(request.deadline_s) from None
        return reply

    async def stream(self, request: ChatRequest, *, restart: bool = False) -> Stream:
        """See `StreamingModel.stream`. The deadline is for the whole answer."""
        loop = asyncio.get_running_loop()
        until = loop.time() + request.deadline_s
        tried = 0
        while True:
            tried += 1
            begun = False
            try:
                async with aclosing(until_deadline(self._parts(request), until, self.label)) as parts:
                    async for part in parts:
                        begun = True
                        yield part
                return
            except LlmError as error:
                pause = self._pause_before_another(error, tried, until - loop.time())
                if pause is None or (begun and not restart):
                    raise
                cut = error.kind
            await self._sleep(pause)
            if begun:
                yield StreamRestart(because=cut)

    async def embed(self, texts: Sequence[str], *, deadline_s: float = 60.0) -> EmbeddingReply:
        """See `EmbeddingModel.embed`; many texts go in several requests, one after another."""

        async def batch(part: Sequence[str]) -> EmbeddingReply:
            reply: EmbeddingReply = await self._retrying(deadline_s)(self._embed, part, deadline_s)
            return reply

        try:
            async with asyncio.timeout(deadline_s):
                return await in_batches(texts, batch, self.label)
        except TimeoutError:
            raise self._late(deadline_s) from None

    async def aclose(self) -> None:
        """Close every connection; calls still running fail."""
        await self._client.close()

    def _retrying(self, deadline_s: float) -> AsyncRetrying:
        return AsyncRetrying(
            retry=retry_if_exception(worth_retrying),
            stop=stop_after_attempt(self._attempts) | stop_before_delay(deadline_s),
            wait=_pause,
            sleep=self._sleep,
            reraise=True,
        )

    def _pause_before_another(self, error: LlmError, tried: int, left_s: float) -> float | None:
        """Seconds until a stream is opened again; None when it is not."""
        if tried >= self._attempts or not worth_retrying(error):
            return None
        state = RetryCallState(self._retrying(1.0), None, (), {})
        state.attempt_number = tried
        pause = error.retry_after_s if error.retry_after_s is not None else _full_jitter(state)
        return pause if pause < left_s else None

    async def _ask(self, request: ChatRequest) -> ChatReply:
        """One attempt, in the plainest dialect that the endpoint turns out to need."""
        dialect = self._dialect
        while True:
            try:
                reply = await self._send(request, dialect)
            except openai.BadRequestError as error:
                dialect = self._plainer(dialect, request, error)
            else:
                self._dialect = dialect
                mode = dialect.format if request.json_schema is not None else None
                return reply.model_copy(update={"json_mode": mode})

    def _plainer(self, dialect: Dialect, request: ChatRequest, error: openai.BadRequestError) -> Dialect:
        simpler = plainer(dialect, request, error)
        if simpler is None:
            raise self._told(error) from self._cause(error)
        return simpler

    async def _send(self, request: ChatRequest, dialect: Dialect) -> ChatReply:
        with self._naming():
            raw = await self._client.chat.completions.with_raw_response.create(
                model=self.label,
                messages=prompt(request, dialect),
                extra_body=options(request, dialect),
                timeout=self._timeout(request.deadline_s),
            )
            return read_reply(raw.http_response.content, self.label)

    async def _parts(self, request: ChatRequest) -> Stream:
        """One attempt of a stream, in the plainest dialect that the endpoint turns out to need."""
        dialect, told = self._dialect, self._stream_usage
        assembly = Assembly(self.label)
        while True:
            try:
                async with self._open(request, dialect, told) as chunks:
                    self._dialect, self._stream_usage = dialect, told
                    async for part in read_stream(chunks, assembly):
                        yield _with_mode(part, request, dialect)
                return
            except openai.BadRequestError as error:
                if told and "stream_options" in f"{error.param} {error.message}":
                    told = False
                else:
                    dialect = self._plainer(dialect, request, error)
            except (openai.OpenAIError, httpx2.HTTPError) as error:
                raise self._told(error).changed(partial=assembly.text) from self._cause(error)
            except LlmError as error:
                raise self._hidden(error).changed(partial=assembly.text) from self._cause(error)

    @asynccontextmanager
    async def _open(self, request: ChatRequest, dialect: Dialect, told: bool) -> AsyncIterator[AsyncIterator[bytes]]:
        body = options(request, dialect)
        if told:
            body["stream_options"] = {"include_usage": True}
        async with self._client.chat.completions.with_streaming_response.create(
            model=self.label,
            messages=prompt(request, dialect),
            stream=True,
            extra_body=body,
            timeout=self._timeout(request.deadline_s),
        ) as response:
            yield response.iter_bytes()

    async def _embed(self, texts: Sequence[str], deadline_s: float) -> EmbeddingReply:
        with self._naming():
            try:
                raw = await self._client.embeddings.with_raw_response.create(
                    model=self.label,
                    input=list(texts),
                    encoding_format="float",
                    timeout=self._timeout(deadline_s),
                )
            except openai.BadRequestError as error:
                raise self._told(error) from self._cause(error)
            return read_vectors(raw.http_response.content, self.label, len(texts), self._dimensions)

    def _timeout(self, seconds: float) -> openai.Timeout:
        return openai.Timeout(min(seconds, self._read_s or seconds), connect=min(seconds, self._connect_s))

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """Turns the client's errors into ours; a 400 goes through, for it may be asked again more plainly."""
        try:
            yield
        except openai.BadRequestError:
            raise
        except (openai.OpenAIError, httpx2.HTTPError) as error:
            raise self._told(error) from self._cause(error)
        except LlmError as error:
            raise self._hidden(error) from self._cause(error)

    def _told(self, error: openai.OpenAIError | httpx2.HTTPError) -> LlmError:
        return self._hidden(llm_error(error, self.label))

    def _hidden(self, error: LlmError) -> LlmError:
        """The failure without the key, which some providers repeat."""
        return error if self._key is None else error.changed(message=self._key.taken_out_of(error.message))

    def _cause(self, error: Exception) -> Exception | None:
        """The error that a traceback may show below ours: not one with the key in it."""
        said = f"{error} {getattr(error, 'body', '')}"
        return error if self._key is None or self._key.taken_out_of(said) == said else None

    def _late(self, seconds: float) -> LlmError:
        return LlmError(LlmErrorKind.TIMEOUT, f"{self.label}: no answer in {seconds:g} s")


def _with_mode(part: StreamPart, request: ChatRequest, dialect: Dialect) -> StreamPart:
    if not isinstance(part, StreamEnd) or request.json_schema is None:
        return part
    return StreamEnd(reply=part.reply.model_copy(update={"json_mode": dialect.format}))


def _pause(state: RetryCallState) -> float:
    """Seconds until the next attempt: what the provider asked for, else full jitter."""
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after_s if isinstance(error, LlmError) else None
    return _full_jitter(state) if asked is None else asked
