"""How monikers ask a model: fixed instructions first, then everything that people and files said as data."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from monikers.replies import BadReplyError, read_object
from monikers.words import clip
from runtime.contract import Json, MonikerError
from runtime.llm.port import ChatMessage, ChatModel, ChatReply, ChatRequest, Model, data_block

T = TypeVar("T")

_SHOWN_REPLY_CHARS = 8_000


class UnusableReplyError(MonikerError):
    """The model answered nothing usable twice; `problem` says what was wrong with its second answer."""

    def __init__(self, model: str, purpose: str, problem: str) -> None:
        super().__init__(f"the model {model} gave no usable answer for {purpose}, even when told why: {problem}")
        self.problem = problem


def request(purpose: str, instructions: str, data: dict[str, Any], **options: Any) -> ChatRequest:
    """A call whose `data` the model sees in a block of its own; `options` are further fields of `ChatRequest`."""
    system = ChatMessage(role="system", content=instructions)
    user = ChatMessage(role="user", content=data_block(data))
    return ChatRequest(purpose=purpose, messages=(system, user), **options)


async def ask_text(llm: ChatModel, asked: ChatRequest, max_chars: int) -> str:
    """The answer without white space around it, in at most `max_chars`.

    Raises `MonikerError` when it is blank, `LlmError` when the model cannot be reached.
    """
    return _words(await llm.chat(asked), asked, max_chars)


async def ask_aloud(llm: Model, asked: ChatRequest, max_chars: int) -> str:
    """As `ask_text`; the answer is shown while it comes."""
    return _words(await llm.live(asked), asked, max_chars)


def _words(reply: ChatReply, asked: ChatRequest, max_chars: int) -> str:
    if not (text := clip(reply.text.strip(), max_chars)):
        raise MonikerError(f"the model {reply.model} answered {asked.purpose} with nothing")
    return text


async def ask_json(llm: ChatModel, asked: ChatRequest, read: Callable[[Json], T]) -> T:
    """Ask, and give what `read` makes of the object in the answer.

    `read` refuses an object by raising `ValueError`; the model is then asked once more and told why.
    Raises `UnusableReplyError` when the second answer is no better, `LlmError` when the model cannot be reached.
    """
    reply = await llm.chat(asked)
    try:
        return await _read(reply.text, read)
    except BadReplyError as error:
        corrected = _correction(asked, reply.text, str(error))
    reply = await llm.chat(corrected)
    try:
        return await _read(reply.text, read)
    except BadReplyError as error:
        raise UnusableReplyError(reply.model, asked.purpose, str(error)) from error


async def _read(text: str, read: Callable[[Json], T]) -> T:
    # in a thread, for mending an answer made of nothing but braces takes a second or two
    return await asyncio.to_thread(read_object, text, read)


def _correction(asked: ChatRequest, answer: str, problem: str) -> ChatRequest:
    told = f"That answer cannot be used: {problem}\nAnswer again, with the corrected JSON object alone."
    more = (
        ChatMessage(role="assistant", content=clip(answer, _SHOWN_REPLY_CHARS) or "(nothing)"),
        ChatMessage(role="user", content=told),
    )
    return asked.model_copy(update={"messages": (*asked.messages, *more)})
