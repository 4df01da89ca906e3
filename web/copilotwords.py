"""What copilot pages say in words; `web/static/js/copilotwords.js` says the same in the browser.

Whatever a model gave is data here: a word of it is looked up in a closed list, and what is not listed is shown plainly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

Json = dict[str, Any]

#: how soon an insight matters: the key in its metadata, the word for people
ZONES: Final = (("A", "Now"), ("B", "Soon"), ("C", "Good to know"))
_LAST_ZONE: Final = "C"

#: type of an insight -> the word for people, its tone (a CSS class) and its glyph
_KINDS: Final[Mapping[str, tuple[str, str, str]]] = {
    "suggestion": ("suggestion", "running", "bulb"),
    "warning": ("warning", "waiting", "warn"),
    "opportunity": ("opportunity", "done", "spark"),
    "fact": ("fact", "quiet", "info"),
    "praise": ("praise", "sleeping", "heart"),
    "error": ("error", "failed", "cross"),
}
_UNKNOWN_KIND: Final = ("note", "quiet", "info")
#: colours that a model may hint at -> a tone of ours
_HINTS: Final[Mapping[str, str]] = {
    "red": "failed",
    "orange": "waiting",
    "amber": "waiting",
    "yellow": "waiting",
    "green": "done",
    "blue": "running",
    "purple": "sleeping",
    "violet": "sleeping",
    "grey": "quiet",
    "gray": "quiet",
}
_SURE: Final = 0.8
_LIKELY: Final = 0.5
_SECOND_MS: Final = 1_000
#: how the reason of a session begins that waits for words or for a moment, and not for a person
_LISTENS: Final = ("waiting for input", "sleeping until")

_SKIPPED: Final[Mapping[str, str]] = {
    "not_allowed": "is not on the list of this session",
    "group_off": "its group is switched off",
    "trigger_type_mismatch": "does not answer to this trigger",
    "silence": "the silence was not long enough yet",
    "silence_threshold_not_reached": "the silence was not long enough yet",
    "cooldown": "rests after its last run",
    "rate_limit": "has run as often as it may",
    "conditions": "its conditions did not hold",
    "conditions_not_met": "its conditions did not hold",
    "misconfigured": "its configuration cannot be used",
}
_TRIGGERS: Final[Mapping[str, str]] = {
    "turn_based": "somebody spoke",
    "keyword": "a word was said",
    "silence": "it was quiet",
    "interval": "its time had come",
    "event": "something happened",
    "force": "asked for by hand",
}


def zone_of(insight: Mapping[str, Any]) -> str:
    """How soon an insight matters; what says nothing of it that we know is good to know."""
    zone = str(_metadata(insight).get("zone") or "").strip().upper()
    return zone if zone in dict(ZONES) else _LAST_ZONE


def insight_kind(insight: Mapping[str, Any]) -> tuple[str, str, str]:
    """The word, tone and glyph of an insight. Its colour is a hint out of a closed list, else that of its type."""
    word, tone, glyph = _KINDS.get(str(insight.get("type")), _UNKNOWN_KIND)
    return word, _HINTS.get(str(_metadata(insight).get("color") or "").strip().lower(), tone), glyph


def sureness(confidence: Any) -> str:
    """A confidence of 0 to 1 as a word; nothing for what is none."""
    if not isinstance(confidence, int | float) or isinstance(confidence, bool):
        return ""
    return "sure" if confidence >= _SURE else "likely" if confidence >= _LIKELY else "maybe"


def line_to_say(insight: Mapping[str, Any]) -> str:
    """What can be said word for word, if the agent gave it."""
    line = _metadata(insight).get("suggested_response")
    return line.strip() if isinstance(line, str) else ""


def since_start(seconds: Any) -> str:
    """The time since the conversation began: "1:05"."""
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 <= seconds < float("inf"):
        return ""
    whole = int(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def took_words(ms: Any) -> str:
    """How long something took: "420 ms", "1.4 s"; nothing where nobody knows."""
    if not isinstance(ms, int | float) or isinstance(ms, bool):
        return ""
    return f"{ms:.0f} ms" if ms < _SECOND_MS else f"{ms / _SECOND_MS:.1f} s"


def number_words(value: float) -> str:
    """A number as a browser writes it: 1.0 is 1."""
    return str(value).removesuffix(".0")


def skip_words(reason: Any) -> str:
    """Why an agent was not asked."""
    return _SKIPPED.get(str(reason), str(reason).replace("_", " "))


def trigger_words(turn: Mapping[str, Any]) -> str:
    """What a turn of the engine was about: "a word was said: price"."""
    trigger, told = str(turn.get("trigger") or ""), _mapping(turn.get("metadata"))
    words = _TRIGGERS.get(trigger, trigger.replace("_", " "))
    if trigger == "keyword" and told.get("keyword"):
        return f"{words}: {told['keyword']}"
    quiet = told.get("silence_duration")
    if trigger == "silence" and isinstance(quiet, int | float):
        return f"{words} for {quiet:.0f} s"
    return words


def turn_words(turn: Mapping[str, Any]) -> str:
    """Why a turn came, in one line: "a word was said: price, then somebody spoke"."""
    told = ", then ".join(map(trigger_words, mappings(turn.get("turns"))))
    return told or ("not taken up" if turn.get("problem") else "a person decided")


def did_words(run: Mapping[str, Any]) -> str:
    """What came of a run: "1 insight; wrote stage; pushed to objections; emitted question_detected"."""
    found = len(items_of(run.get("insights")))
    parts = (
        ("wrote", list(_mapping(run.get("variables")))),
        ("pushed to", list(_mapping(run.get("queues")))),
        ("learned", [fact_name(fact) for fact in mappings(run.get("facts"))]),
        ("remembers", list(_mapping(run.get("memory")))),
        ("emitted", [str(event) for event in items_of(run.get("events"))]),
    )
    told = [f"{found} insight{'' if found == 1 else 's'}"] if found else []
    told += [f"{verb} {', '.join(names)}" for verb, names in parts if names]
    return "; ".join(["failed", *told] if run.get("failed") else told or ["had nothing to say"])


def as_copilot(session: Mapping[str, Any]) -> Json:
    """A session as its page calls it: one that waits for words or for a moment listens.

    What it asks a person is the reason of a session that waits for the answer.
    """
    reason = str(session.get("reason") or _LISTENS[0])
    listens = session.get("status") == "waiting" and reason.startswith(_LISTENS)
    return {**session, "status": "listening" if listens else session.get("status")}


def fact_name(fact: Mapping[str, Any]) -> str:
    """A fact's place on the board: its type, and its key where it has one."""
    kind, key = str(fact.get("type") or ""), fact.get("key")
    return kind if key in (None, "") else f"{kind} · {key}"


def agent_name(agent_id: Any) -> str:
    """An agent's name, where only its id is known."""
    words = str(agent_id or "").replace("_", " ")
    return words[:1].upper() + words[1:]


def set_title(session: Mapping[str, Any]) -> str:
    """The set that a session was begun with, for people."""
    return agent_name(agent_set_of(session)) or "Own agents"


def agent_set_of(session: Mapping[str, Any]) -> str:
    """The name of that set; empty when the session has agents of its own."""
    return str(_mapping(session.get("config")).get("agent_set") or "")


def is_dry_run(session: Mapping[str, Any]) -> bool:
    """Whether it is a try of an agent, which its page in the studio tells of, and no conversation."""
    return _mapping(session.get("config")).get("dry_run") is True


def items_of(value: Any) -> Sequence[Any]:
    """A list of what was stored, or none."""
    return value if isinstance(value, list | tuple) else ()


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """The objects in a list of what was stored."""
    return [one for one in items_of(value) if isinstance(one, Mapping)]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _metadata(insight: Mapping[str, Any]) -> Mapping[str, Any]:
    return _mapping(insight.get("metadata"))
