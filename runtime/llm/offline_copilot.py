"""How the offline model plays the agents of the copilot engine: what it hears last, told in their format.

An agent is known by its own words: the events, queues, facts and variables that its prompt names, and what these names
sound like. The same prompt and transcript give the same answer, and every insight says that no model has judged.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.llm.extract import keywords, summary
from runtime.llm.offline_signals import DATE, MONEY, RIVAL, ROLE, SIGNALS, SIZE, Signal, asked_for, heard, mood, phase
from runtime.llm.port import ChatRequest, read_data_block

LABEL = "[offline model]"
MAX_QUOTE_CHARS = 140
RECENT = 6

_KINDS = "event|queue|fact|variable"
#: the names in backticks after "event", "queue", ..., up to the next such word or the end of the line
_NAMED = re.compile(rf"\b({_KINDS})s?\b([^\n]*?)(?=\b(?:{_KINDS})s?\b|\n|$)", re.IGNORECASE)
_CAPITALS = re.compile(r"\b[A-Z][A-Z_]+\b")
_NAME = re.compile(r"`([\w.]+)`")
_SECTION = re.compile(r"^\[([A-Z][A-Z /]+)\]$", re.MULTILINE)
_BLOCK = re.compile(r"<data>\n(.*?)\n</data>", re.DOTALL)
_LINE = re.compile(r"^\s*([^:\n]{1,40}):\s+(\S.*)$", re.MULTILINE)
_SILENT = re.compile(r"a person sees nothing of your answer|say nothing to the person", re.IGNORECASE)
_ZONES = {"warning": ("A", "red"), "opportunity": ("A", "green"), "suggestion": ("B", "blue")}
_OTHER_ZONE = ("C", "grey")
_PAUSES = (
    "A pause of {s} seconds. Let it work, or ask one open question about {t}.",
    "It has been quiet for {s} seconds. Sum up {t} in one sentence and ask what is missing.",
    "{s} seconds without a word: ask what they are thinking about {t}.",
)


@dataclass(frozen=True, slots=True)
class Said:
    """One sentence of the transcript."""

    speaker: str
    text: str

    @property
    def quote(self) -> str:
        words = " ".join(self.text.split())
        return words if len(words) <= MAX_QUOTE_CHARS else f"{words[: MAX_QUOTE_CHARS - 1]}…"


@dataclass(frozen=True, slots=True)
class Asked:
    """What one call asks: the agent's own words and names, why it was woken, and what was said."""

    words: str
    named: Mapping[str, Sequence[str]]
    trigger: Mapping[str, Any]
    memory: Mapping[str, Any]
    said: Sequence[Said]
    form: str

    @property
    def advised(self) -> str:
        """The speaker whom the agent advises: the first that its prompt names in capitals."""
        speakers = {one.speaker for one in self.said}
        return next((word for word in _CAPITALS.findall(self.words) if word in speakers), "")

    @property
    def newest(self) -> Said:
        return self.said[-1] if self.said else Said("", "")

    @property
    def about(self) -> Said:
        """What the agent should look at: what woke it, or the newest sentence."""
        payloads = [_object(_object(event).get("payload")) for event in _list(self.trigger.get("events"))]
        told = next((one for one in payloads if isinstance(one.get("quote"), str)), None)
        return self.newest if told is None else Said(str(told.get("speaker", "")), told["quote"])


def answer(request: ChatRequest) -> str:
    """The answer of an agent, as JSON in the form that its prompt asks for."""
    asked = _asked(request)
    about = asked.about
    wanted = _wanted(asked)
    is_advised = about.speaker == asked.advised if asked.advised else None
    found = [signal for signal in heard(about.text) if signal in wanted and signal.is_of(is_advised)]
    updates = _updates(asked, found)
    insight = _insight(asked, found)
    if found or insight:
        times = asked.memory.get("times")
        updates["memory_updates"] = {"times": (times if isinstance(times, int) else 0) + 1, "last": about.quote}
    return json.dumps(_in_form(asked, insight, updates), ensure_ascii=False)


def _wanted(asked: Asked) -> Sequence[Signal]:
    """What an agent listens for: by the names that its prompt gives, else by its own name, else by all its words."""
    names = " ".join(name for kind in asked.named.values() for name in kind)
    called = str(asked.trigger.get("agent", ""))
    return asked_for(names) or asked_for(called) or asked_for(asked.words) or SIGNALS


# --- reading the call ------------------------------------------------------------------------------------------------


def _asked(request: ChatRequest) -> Asked:
    prompt = "\n\n".join(message.content for message in request.messages if message.role == "system")
    words, *rest = _SECTION.split(prompt)
    sections = dict(zip(rest[::2], rest[1::2], strict=False))
    named: dict[str, list[str]] = {"event": [], "queue": [], "fact": [], "variable": []}
    for kind, names in _NAMED.findall(words):
        named[kind.casefold()] += [name for name in _NAME.findall(names) if name not in named[kind.casefold()]]
    return Asked(
        words=words,
        named=named,
        trigger=_data(sections.get("TRIGGER", "")),
        memory=_object(_data(sections.get("YOUR MEMORY / SCRATCHPAD", "")).get("memory")),
        said=_said(request),
        form=sections.get("OUTPUT FORMAT", prompt),
    )


def _said(request: ChatRequest) -> list[Said]:
    data = read_data_block(request.messages)
    if data is not None:
        text = "\n".join(" ".join(line.split()) for line in _list(data.get("transcript")) if isinstance(line, str))
    else:
        text = next((message.content for message in reversed(request.messages) if message.role == "user"), "")
    return [Said(speaker.strip("# "), words) for speaker, words in _LINE.findall(text)]


def _data(section: str) -> Mapping[str, Any]:
    block = _BLOCK.search(section)
    try:
        return _object(json.loads(block[1])) if block else {}
    except (ValueError, RecursionError):
        return {}


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:4], "big")


# --- what is told ----------------------------------------------------------------------------------------------------


def _insight(asked: Asked, found: Sequence[Signal]) -> dict[str, Any] | None:
    if _SILENT.search(f"{asked.words}\n{asked.form}"):
        return None
    if asked.trigger.get("why") == "silence":
        return _of_silence(asked)
    if asked.trigger.get("why") == "interval" and asked.said:
        words = summary(" ".join(one.text for one in asked.said[-RECENT:]), count=1)
        return _told(asked, f"So far: {words}", "fact", "recap", "low", "")
    if not found:
        return None
    signal, quote = found[0], asked.about.quote
    said = signal.said[_number(quote) % len(signal.said)].format(q=quote)
    return _told(asked, said, signal.type, signal.name, signal.severity, signal.response)


def _of_silence(asked: Asked) -> dict[str, Any]:
    length = _object(asked.trigger.get("about")).get("silence_duration")
    topic = max(keywords(asked.newest.text), key=len, default="what was said")
    shape = _PAUSES[_number(asked.newest.text) % len(_PAUSES)]
    seconds = round(length) if isinstance(length, int | float) else "some"
    return _told(asked, shape.format(s=seconds, t=topic), "suggestion", "silence", "low", "What do you make of it?")


def _told(asked: Asked, said: str, type: str, category: str, severity: str, response: str) -> dict[str, Any]:
    zone, color = _ZONES.get(type, _OTHER_ZONE)
    metadata = {"category": category, "severity": severity, "zone": zone, "color": color, "offline": True}
    return {
        "content": f"{LABEL} {said}",
        "type": type,
        "confidence": round(0.6 + _number(f"{category}{asked.about.text}") % 36 / 100, 2),
        "metadata": {**metadata, **({"suggested_response": response} if response else {})},
    }


def _updates(asked: Asked, found: Sequence[Signal]) -> dict[str, Any]:
    about = asked.about
    heard_of = {"quote": about.quote, "speaker": about.speaker}
    events = [
        {"name": name, "payload": {**heard_of, "category": signal.name}}
        for name in asked.named["event"]
        for signal in _first(found, name)
    ]
    queues = {
        name: [{"text": about.quote, "speaker": about.speaker}] for name in asked.named["queue"] if _first(found, name)
    }
    facts = [fact for name in asked.named["fact"] for fact in _facts(name, about, found)]
    variables = {
        name: value for name in asked.named["variable"] if (value := _variable(name, asked, found)) is not None
    }
    updates = {"events": events, "queue_pushes": queues, "facts": facts, "variable_updates": variables}
    return {name: value for name, value in updates.items() if value}


def _first(found: Sequence[Signal], name: str) -> list[Signal]:
    """The first signal that a name sounds like, if it was heard."""
    return [signal for signal in found if any(key in name.casefold() for key in signal.keys)][:1]


_VALUES: tuple[tuple[tuple[str, ...], re.Pattern[str]], ...] = (
    (("budget", "price", "offer", "amount", "anchor"), MONEY),
    (("timeline", "deadline", "date"), DATE),
    (("decision_maker", "stakeholder"), ROLE),
    (("size", "seats", "users", "team"), SIZE),
    (("competitor", "rival", "alternative"), RIVAL),
)


def _facts(name: str, about: Said, found: Sequence[Signal]) -> list[dict[str, Any]]:
    """A fact of that type, when the sentence holds a value for it."""
    sure = round(0.7 + _number(name + about.text) % 26 / 100, 2)
    pattern = next((pattern for keys, pattern in _VALUES if any(key in name for key in keys)), None)
    if pattern is None:
        return [{"type": name, "value": about.quote, "confidence": sure}] if _first(found, name) else []
    match = pattern.search(about.text)
    if match is None:
        return []
    value = match[match.lastindex or 0].strip(" .,")
    key = value.casefold().replace(" ", "_") if pattern is ROLE or pattern is RIVAL else None
    return [{"type": name, "key": key, "value": value, "confidence": sure}]


def _variable(name: str, asked: Asked, found: Sequence[Signal]) -> Any:
    recent = [one.text for one in asked.said[-RECENT:]]
    sounds: tuple[tuple[tuple[str, ...], Callable[[], Any]], ...] = (
        (("phase", "stage"), lambda: phase(recent)),
        (("sentiment", "mood", "tone", "rapport", "tension"), lambda: mood(recent)),
        (("summary", "context", "recap"), lambda: summary(" ".join(one.text for one in asked.said), count=2)),
        (("share", "ratio"), lambda: _share(asked.said)),
        (("topic",), lambda: max(keywords(asked.newest.text), key=len, default=None)),
        (("flag", "risk"), lambda: True if found else None),
    )
    for keys, value in sounds:
        if any(key in name.casefold() for key in keys):
            return value() if asked.said else None
    return asked.about.quote if _first(found, name) else None


def _share(said: Sequence[Said]) -> float:
    """How much of the talking the first speaker did, from 0 to 1."""
    counts = [(one.speaker, len(one.text.split())) for one in said]
    return round(
        sum(count for speaker, count in counts if speaker == said[0].speaker) / max(1, sum(c for _, c in counts)), 2
    )


def _in_form(asked: Asked, insight: dict[str, Any] | None, updates: dict[str, Any]) -> dict[str, Any]:
    if '"ui_actions"' in asked.form:
        payload = {"quote": asked.about.quote, **updates.get("variable_updates", {})}
        widget = next(iter(asked.named["variable"]), "notes")
        actions = [{"target_widget": widget, "action": "update", "payload": payload}] if insight or updates else []
        return {"ui_actions": actions, "insight": insight, **updates}
    if '"insight"' in asked.form:
        return {"insight": insight, **updates}
    return {"has_insight": insight is not None, **(insight or {}), **updates}
