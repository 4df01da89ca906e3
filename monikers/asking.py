"""How monikers ask a model: fixed instructions first, then everything that people and files said as data."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from monikers.replies import read_object
from monikers.words import clip
from runtime.contract import Json, MonikerError
from runtime.llm.port import ChatMessage, ChatModel, ChatReply, ChatRequest, Model, data_block
from runtime.llm.structured import UnfitReplyError, ask_as

T = TypeVar("T")


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
    try:
        return (await ask_as(llm, asked, partial(read_object, read=read), form="JSON object")).value
    except UnfitReplyError as error:
        raise UnusableReplyError(error.model, asked.purpose, error.problem) from error
