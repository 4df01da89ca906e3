"""A chat model without a network: the same prompt gives the same answer, cut from what the prompt says.

It speaks every purpose that the monikers use, so that the whole product can be tried, shown and tested without a key.
It never invents a fact: summaries and findings are sentences of the given text. For other purposes it calls the tools
it is given, fills any JSON Schema, and says that it is no real model.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from runtime.llm import offline_copilot, offline_jokes, offline_steps
from runtime.llm.embedding import in_batches
from runtime.llm.extract import keywords, matching, summary
from runtime.llm.offline_tools import instance_text, tool_call, tool_report
from runtime.llm.offline_vectors import vector_of
from runtime.llm.port import (
    ChatReply,
    ChatRequest,
    EmbeddingReply,
    Stream,
    StreamEnd,
    TextDelta,
    ToolCallDelta,
    Usage,
    read_data_block,
)

OFFLINE_LABEL = "offline"
#: what agents of the copilot engine ask by
COPILOT_PURPOSE = "copilot.agent"
CHARS_PER_TOKEN = 4
#: the word by which the offline model tells a text that a guardian would have doubts about
OFFLINE_CONCERN = "OFFLINE-CONCERN"
#: sentences in a merged summary
MAX_MERGED = 8
_PIECES = re.compile(r"\s*\S+\s*$|\s*\S+|\s+")

Data = Mapping[str, Any]


class OfflineModel:
    """Answers by rule. `label` and every reply's `model` are "offline"."""

    label = OFFLINE_LABEL

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Answer at once; accepts any prompt.

        Raises `LlmError` only for a JSON Schema, of an answer or of a tool, that it finds no value for.
        """
        prompt = "\n".join(message.content for message in request.messages)
        call = tool_call(request)
        text = "" if call else _text(request)
        usage = Usage(
            input_tokens=_tokens(prompt), output_tokens=_tokens(text + (call.arguments if call else "")), calls=1
        )
        return ChatReply(
            text=text,
            model=self.label,
            usage=usage,
            finish_reason="tool_calls" if call else "stop",
            tool_calls=(call,) if call else (),
            cost=Decimal(0),
        )

    async def stream(self, request: ChatRequest, *, restart: bool = False) -> Stream:
        """The same answer word by word; never cut."""
        reply = await self.chat(request)
        for piece in _PIECES.findall(reply.text):
            yield TextDelta(text=piece)
        for index, call in enumerate(reply.tool_calls):
            yield ToolCallDelta(index=index, name=call.name, arguments=call.arguments)
        yield StreamEnd(reply=reply)

    async def embed(self, texts: Sequence[str], *, deadline_s: float = 60.0) -> EmbeddingReply:
        """A vector of length 1 for each text; texts that share words are near. Free of charge."""

        async def batch(part: Sequence[str]) -> EmbeddingReply:
            usage = Usage(input_tokens=_tokens("".join(part)), calls=1)
            vectors = tuple(map(vector_of, part))
            return EmbeddingReply(vectors=vectors, model=self.label, usage=usage, cost=Decimal(0))

        return await in_batches(texts, batch, self.label)


def _text(request: ChatRequest) -> str:
    if request.purpose == COPILOT_PURPOSE:
        return offline_copilot.answer(request)
    known = _ANSWERS.get(request.purpose)
    if known is None and request.json_schema is not None:
        return instance_text(request.json_schema)
    if known is None and (report := tool_report(request)) is not None:
        return report
    data = read_data_block(request.messages)
    return (known or _unknown)(_prompt_as_data(request) if data is None else data)


def _prompt_as_data(request: ChatRequest) -> Data:
    """A prompt without a data block, read as if all that it says were the text to work on."""
    spoken = [message.content for message in request.messages if message.role == "user"]
    text = spoken[-1] if spoken else ""
    return {"text": text, "subject": text, "question": text, "task": text, "purpose": request.purpose}


def _tokens(text: str) -> int:
    return -(-len(text) // CHARS_PER_TOKEN)


def _str(data: Data, key: str) -> str:
    value = data.get(key)
    return value if isinstance(value, str) else ""


def _list(data: Data, key: str) -> list[Any]:
    value = data.get(key)
    return value if isinstance(value, list) else []


def _strs(data: Data, key: str) -> list[str]:
    return [item for item in _list(data, key) if isinstance(item, str)]


def _objects(data: Data, key: str) -> list[dict[str, Any]]:
    return [item for item in _list(data, key) if isinstance(item, dict)]


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:4], "big")


def _joke(data: Data) -> str:
    subject, count = _str(data, "subject"), data.get("count")
    turn = _number(subject) + (count if isinstance(count, int) else 0)
    return offline_jokes.tell(subject, turn, _strs(data, "told"))


def _summarize_section(data: Data) -> str:
    return summary(_str(data, "text"), focus=_strs(data, "guidance")) or "(nothing to summarise)"


def _summarize_merge(data: Data) -> str:
    parts = [_str(part, "summary") for part in _objects(data, "sections")]
    focus = _strs(data, "guidance")
    if 1 < len(parts) <= MAX_MERGED:
        merged = " ".join(summary(part, focus=focus, count=1) for part in parts)
    else:
        merged = summary("\n\n".join(parts), focus=focus, count=MAX_MERGED)
    return merged.strip() or "(nothing to merge)"


def _research_plan(data: Data) -> str:
    question = " ".join(_str(data, "question").split()) or "the question"
    topics = list(dict.fromkeys(keywords(question)))[:3]
    asked = [f"What do the documents say about {topic}?" for topic in topics]
    return json.dumps({"sub_questions": [question, *asked][:4]})


def _research_findings(data: Data) -> str:
    questions = _strs(data, "sub_questions") or [_str(data, "question")]
    quotes = matching(_str(data, "text"), " ".join([*questions, *_strs(data, "guidance")]))
    return json.dumps({"findings": [{"claim": " ".join(quote.split()), "quote": quote} for quote in quotes]})


def _research_report(data: Data) -> str:
    listed = _objects(data, "findings")
    findings = [finding for finding in listed if "error" not in finding]
    unread = [f"- could not be read [{finding.get('document')}]" for finding in listed if "error" in finding]
    if not findings:
        return "\n".join(["The documents do not answer the question.", *unread])
    lines = [f"- {_str(finding, 'claim')} [{finding.get('document')}]" for finding in findings]
    return "\n".join([f"What the documents say about: {_str(data, 'question')}", "", *lines, *unread])


def _judge(data: Data) -> str:
    """The guardian's verdict. No text is judged: only a marked word, which a demonstration may write, is a concern."""
    if OFFLINE_CONCERN not in _str(data, "text"):
        return "<OK/>"
    return f"<CONCERN>[offline model] the text holds the word {OFFLINE_CONCERN}; no model has judged it</CONCERN>"


def _unknown(data: Data) -> str:
    gist = summary(_str(data, "text") or json.dumps(dict(data), ensure_ascii=False), count=1)
    return f"[offline model] I have no rule for this request. It begins: {gist}"


_ANSWERS: Mapping[str, Callable[[Data], str]] = {
    "joke.tell": _joke,
    "summarize.section": _summarize_section,
    "summarize.merge": _summarize_merge,
    "research.plan": _research_plan,
    "research.findings": _research_findings,
    "research.report": _research_report,
    "guard.judge": _judge,
    "stepframe": offline_steps.answer,
}
