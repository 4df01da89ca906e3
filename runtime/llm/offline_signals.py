"""What the offline model hears in a sentence of a conversation: a closed list of signals, found by words alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Signal:
    """One thing that people do when they talk.

    `keys` are pieces of the names by which agents ask for it, `said` what to tell about it ("{q}" is the sentence).
    """

    name: str
    keys: tuple[str, ...]
    pattern: re.Pattern[str]
    type: str
    severity: str
    said: tuple[str, ...]
    response: str

    def is_of(self, is_advised: bool | None) -> bool:
        """Whether it counts when the person who is advised says it, or somebody else; None when nobody knows."""
        if is_advised is None:
            return True
        return self.name not in (_OF_OTHERS if is_advised else _OF_THE_ADVISED)


#: what matters when somebody else says it, and what matters when the person says it who is advised
_OF_OTHERS = frozenset({"question", "objection", "frustration", "buying_signal", "competitor", "pain", "price"})
_OF_THE_ADVISED = frozenset({"grammar", "hedging", "example"})


def _signal(name: str, keys: str, pattern: str, type: str, severity: str, response: str, *said: str) -> Signal:
    return Signal(name, tuple(keys.split()), re.compile(pattern, re.IGNORECASE), type, severity, said, response)


MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
MONEY = re.compile(
    r"[$€£]\s?\d[\d.,]*\s?(?:k\b|m\b|thousand|million)?|\b\d[\d.,]*\s?(?:k|thousand|million)?\s?(?:dollars|euros|"
    r"pounds)\b",
    re.IGNORECASE,
)
DATE = re.compile(
    rf"\b(?:by|in|before|until|from|end of|next|this|within) (?:the )?(?:end of )?(?:{MONTHS}|q[1-4]|quarter|month|"
    rf"week|year|"
    r"spring|summer|autumn|winter|monday|tuesday|wednesday|thursday|friday|(?:\d+|two|three|four|six|"
    r"eight) (?:days|weeks|months))\b",
    re.IGNORECASE,
)
ROLE = re.compile(
    r"\b(?:cfo|ceo|cto|coo|vp of \w+|head of \w+|director(?: of \w+)?|procurement|legal team|my (?:boss|manager|"
    r"partner))\b",
    re.IGNORECASE,
)
SIZE = re.compile(
    r"\b(\d{1,5}) (?:people|users|seats|agents|reps|employees|licences|drivers|stores|sites)\b", re.IGNORECASE
)
RIVAL = re.compile(
    r"\b(?:using|quote from|offer from|looking at|compared (?:to|with)|switch(?:ing)? from|talking to|with) "
    r"([A-Z]\w+(?: [A-Z]\w+)?)"
)

#: the more urgent ones first: of several that are heard the first is told
SIGNALS: tuple[Signal, ...] = (
    _signal(
        "frustration",
        "frustrat escalat anger upset churn",
        r"frustrat|ridiculous|unacceptable|(?:second|third|fourth) time|fed up|disappoint|waste of|cancel (?:my|"
        r"our|the)|"
        r"speak to (?:a|your) (?:manager|supervisor)|nobody (?:called|answered|helps)|angry",
        "warning",
        "high",
        "I am sorry. I take this on myself now, and I will tell you what happens next and when.",
        "Tension is rising: “{q}”. Slow down, name the feeling and say what you do next.",
        "This person is losing patience: “{q}”. Apologise once, plainly, before any question.",
    ),
    _signal(
        "objection",
        "objection pushback concern doubt",
        r"too (?:expensive|much|high|risky|complicated)|more than we|not (?:sure|convinced)|concern|worr(?:y|ied)|"
        r"hesita|"
        r"can't justify|over (?:our )?budget|don't (?:see|need)|already have|burned before|bad experience",
        "warning",
        "high",
        "That is fair. What would have to be true for this to be worth it to you?",
        "An objection: “{q}”. Agree with what is right in it, ask what lies behind it, then answer.",
        "Do not argue with “{q}”. Ask for the number or the event behind it first.",
    ),
    _signal(
        "concession",
        "concession anchor position walk bottom_line",
        r"best (?:i|we) can|final offer|meet (?:you|me|us)? ?(?:half ?way|in the middle)|if you .{0,40}\b(?:we|"
        r"i) (?:can|could|would)|"
        r"take it or leave|walk away|throw in|lower (?:the|your)|\d+ ?(?:%|percent) off|come down",
        "suggestion",
        "high",
        "I can look at that. What could you move on in return?",
        "A move at the table: “{q}”. Give nothing without getting something; ask for the trade.",
        "Write down the position “{q}” and wait before you answer: silence works for you here.",
    ),
    _signal(
        "buying_signal",
        "buying signal interest opportunity closing",
        r"send (?:me|us|over)? ?(?:the|a)? ?(?:contract|proposal|quote|paperwork)|sounds (?:good|great|right)|"
        r"that would (?:help|work|save)|"
        r"how (?:soon|quickly|fast)|when (?:can|could) (?:we|you) start|move forward|next steps?|pilot|i like|"
        r"love (?:it|that)",
        "opportunity",
        "high",
        "Good. Shall we put a date on the first step while we are both here?",
        "They lean in: “{q}”. Answer in one sentence and propose a date.",
        "A sign of interest: “{q}”. Stop selling and agree on the next step.",
    ),
    _signal(
        "price",
        "price pricing discount cost money budget offer",
        r"\bpric|\bcosts?\b|discount|budget|per (?:seat|user|month|year)|[$€£]\s?\d|\bfees?\b|cheaper|invoice",
        "suggestion",
        "medium",
        "Before we talk about the price: what does the problem cost you today?",
        "Money is on the table: “{q}”. Tie the price to what they told you it is worth.",
        "“{q}”: say the number once, calmly, and then say nothing.",
    ),
    _signal(
        "competitor",
        "competitor rival alternative comparison",
        r"competitor|alternative|other (?:vendor|supplier|tool|offer)s?|compared (?:to|with)|switch(?:ing)? from|"
        r"quote from|"
        r"talking to (?:two|three|some) others|also looking at",
        "opportunity",
        "medium",
        "They are good at that. May I ask what made you keep looking?",
        "Somebody else is in the race: “{q}”. Ask what they miss there; do not run it down.",
    ),
    _signal(
        "commitment",
        "commit action promise follow todo task owner next_step pending_actions",
        r"\b(?:i'll|i will|we'll|we will|let me|i can|can you|could you) (?:\w+ )?(?:send|share|prepare|check|"
        r"schedule|set up|follow|"
        r"call|draft|book|update|review|write|bring|ask|introduce|invite|take care|look into|own)\b",
        "fact",
        "medium",
        "So that we have it: who does it, and by when?",
        "A promise was made: “{q}”. Say back who does it and by when.",
        "Note for afterwards: “{q}”.",
    ),
    _signal(
        "decision",
        "decision decided agreement agreed outcome",
        r"we (?:have )?(?:decided|agreed)|let's go with|agreed\b|we go with|that is settled|final decision|"
        r"we'll go ahead|deal\b",
        "fact",
        "medium",
        "Let me say it back, so that we mean the same.",
        "That was a decision: “{q}”. Say it back in one sentence and name who carries it out.",
    ),
    _signal(
        "grammar",
        "grammar mistake correction language error_made",
        r"\b(?:he|she|it) (?:go|have|do|want|like|say)\b|\bi am agree|more (?:better|easier|cheaper)|"
        r"\bdidn't \w+ed\b|informations|advices|"
        r"\bsince (?:two|three|five|\d+) (?:years|months|days)|people is|i have \d+ years\b|depends of|explain me|"
        r"yesterday i (?:go|see|eat|buy)",
        "suggestion",
        "low",
        "Say it once more, slowly, with the corrected form.",
        "One thing to correct in “{q}”: look at the verb or the preposition, and repeat the sentence.",
        "“{q}” was clear. Its form can be better: try it again with the right tense.",
    ),
    _signal(
        "example",
        "star example answer result metric strength",
        r"\b(?:i|we) (?:\w+ )?(?:led|built|improved|reduced|increased|managed|launched|introduced|cut|saved|"
        r"delivered|organised)\b|for example|"
        r"in my last (?:job|role)",
        "praise",
        "low",
        "The result was a change of … within … months.",
        "A concrete example: “{q}”. Finish it with a number and what changed for the business.",
        "Good, that is action rather than opinion: “{q}”. Name your own part in it.",
    ),
    _signal(
        "stakeholder",
        "stakeholder decision_maker people champion",
        r"\b(?:cfo|ceo|cto|coo|vp)\b|head of|director|procurement|legal team|my (?:boss|manager|partner)|"
        r"sign(?:s)? off|approv",
        "fact",
        "medium",
        "Who else should be in the room when this is decided?",
        "Somebody else has a say: “{q}”. Ask what they care about and invite them.",
    ),
    _signal(
        "timeline",
        "timeline deadline date schedule urgency",
        rf"\b(?:{MONTHS}|q[1-4])\b|quarter|deadline|go(?:es)? live|roll ?out|next (?:week|month|year)|by (?:monday|"
        rf"friday|the end)|how long|weeks",
        "fact",
        "medium",
        "What happens if it is not there by then?",
        "A date: “{q}”. Ask what depends on it.",
    ),
    _signal(
        "pain",
        "pain need problem issue symptom",
        r"problem|struggl|takes (?:us )?(?:hours|days|forever|too long)|manual|spreadsheet|slow|broken|error|"
        r"doesn't work|crash|fail|lose|losing|stuck|missed",
        "suggestion",
        "medium",
        "What does that cost you in a normal week?",
        "This hurts them: “{q}”. Ask what it costs, in hours or money, before you offer anything.",
        "A need in their own words: “{q}”. Use these words later.",
    ),
    _signal(
        "gratitude",
        "praise gratitude rapport solved resolved",
        r"thank|appreciate|that helps|very helpful|perfect|great,|works now|wonderful",
        "praise",
        "low",
        "Glad to hear it. Is there anything else before we close?",
        "That landed: “{q}”. Say what happens next and close warmly.",
    ),
    _signal(
        "drift",
        "drift agenda topic off_topic time",
        r"by the way|anyway|speaking of|off topic|weekend|football|weather|holiday|one more thing|while we are at it",
        "suggestion",
        "low",
        "Let us park that and come back to it at the end.",
        "This leaves the agenda: “{q}”. Park it in one sentence.",
    ),
    _signal(
        "hedging",
        "filler hedg clarity pace confidence_of",
        r"\b(?:um+|uh+|er+m|you know|sort of|kind of|basically|i guess|i think maybe|maybe|probably)\b",
        "suggestion",
        "low",
        "Make the point first, then the reason.",
        "Soft words in “{q}”. Say it again without them: one claim, one reason.",
    ),
    _signal(
        "question",
        "question ask answer",
        r"\?",
        "suggestion",
        "medium",
        "Good question. The short answer is …",
        "A question to answer: “{q}”. Answer it first, explain second.",
        "They asked: “{q}”. If you do not know, say so and say when you will.",
        "“{q}”: one sentence is enough. Then ask what makes it matter to them.",
        "Before you answer “{q}”, check that you understood it: say it back in your words.",
    ),
)

_GOOD = "good great love like perfect thanks thank helpful happy agree yes exactly works wonderful glad right".split()
_BAD = (
    "bad expensive risky frustrated problem broken slow angry cancel unacceptable worried concern disappointed "
    "waste wrong "
    "never no not hate ridiculous fed fail failed late"
).split()
_PHASES = (
    ("closing", ("contract", "sign", "start date", "next step", "move forward", "paperwork")),
    ("negotiation", ("discount", "price", "terms", "offer", "per seat", "budget", "percent")),
    ("solution", ("demo", "feature", "how does", "integrat", "show you", "works with")),
    ("discovery", ("problem", "today", "tell me", "how do you", "currently", "spreadsheet", "goal")),
)


def heard(text: str) -> list[Signal]:
    """The signals in a sentence, the more urgent first."""
    return [signal for signal in SIGNALS if signal.pattern.search(text)]


def asked_for(names: str) -> list[Signal]:
    """The signals that an agent's words or names ask for."""
    words = names.casefold()
    return [signal for signal in SIGNALS if any(key in words for key in signal.keys)]


def mood(texts: Sequence[str]) -> float:
    """How friendly some sentences are, from -1 to 1, by counting words; one decimal."""
    words = [word.strip(".,!?") for text in texts for word in text.casefold().split()]
    good, bad = (sum(word in some for word in words) for some in (_GOOD, _BAD))
    return round((good - bad) / max(3, good + bad), 1)


def phase(texts: Sequence[str]) -> str:
    """Which part of a conversation some sentences belong to; of several the later one."""
    said = " ".join(texts).casefold()
    return next((name for name, words in _PHASES if any(word in said for word in words)), "opening")
