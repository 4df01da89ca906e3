"""A chat model without a network: the same prompt gives the same answer, cut from what the prompt says.

It speaks every purpose that the monikers use, so that the whole product can be tried, shown and tested without a key.
It never invents a fact: summaries and findings are sentences of the given text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from runtime.llm import offline_jokes, offline_steps
from runtime.llm.extract import keywords, matching, summary
from runtime.llm.port import ChatReply, ChatRequest, Usage, read_data_block

OFFLINE_LABEL = "offline"
CHARS_PER_TOKEN = 4
#: sentences in a merged summary
MAX_MERGED = 8

Data = Mapping[str, Any]


class OfflineModel:
    """Answers by rule. `label` and every reply's `model` are "offline"."""

    label = OFFLINE_LABEL

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Answer at once; accepts any prompt and never fails."""
        prompt = "\n".join(message.content for message in request.messages)
        data = read_data_block(request.messages)
        answer = _ANSWERS.get(request.purpose, _unknown)
        text = answer(_prompt_as_data(request) if data is None else data)
        usage = Usage(input_tokens=_tokens(prompt), output_tokens=_tokens(text), calls=1)
        return ChatReply(text=text, model=self.label, usage=usage)


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
    findings = _objects(data, "findings")
    if not findings:
        return "The documents do not answer the question."
    lines = [f"- {_str(finding, 'claim')} [{finding.get('document')}]" for finding in findings]
    return "\n".join([f"What the documents say about: {_str(data, 'question')}", "", *lines])


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
    "stepframe": offline_steps.answer,
}
