"""The jokes that the offline model knows; "{s}" is the subject and "{S}" the subject at a sentence's start."""

from __future__ import annotations

import re
from collections.abc import Sequence

JOKES: tuple[str, ...] = (
    "I asked {s} for a straight answer. It came with a footnote.",
    "{S} walks into a bar. The bartender says: we have been expecting you since the last migration.",
    "My doctor told me to avoid stress, so now I read about {s} only before lunch.",
    "Why did {s} bring a ladder? It had heard that the standards were higher upstairs.",
    "I have a great joke about {s}, but it is still waiting in a queue.",
    "{S} and I have an understanding: I do not understand, and {s} does not mind.",
    "What is the difference between {s} and a good excuse? The excuse works on Mondays.",
    "I wrote a diary about {s}. The critics called it moving, because they kept moving away from it.",
    "There are two kinds of people: those who get {s}, and those who explain it at parties.",
    "I tried to teach my cat about {s}. Now one of us sleeps all day and the other one is the cat.",
    "{S} is like a museum gift shop: you see it last, and it is what you remember.",
    "How many experts on {s} does it take to change a bulb? None, they recommend candles.",
    "I put {s} on my CV under hobbies. They asked for a reference; I asked for a moment.",
    "My grandmother never trusted {s}. She had no reason, just excellent timing.",
    "{S} told me to think outside the box. It was a very comfortable box.",
    "I signed up for a course on {s}. The first lesson was about refunds.",
    "Every night I count sheep. Last night they asked me to count {s} and went home early.",
    "{S} has a motto: if at first you succeed, try to look surprised.",
    "I bought a book on {s} in large print. It is one word a page, and still too much plot.",
    "Why does {s} never play hide and seek? Good luck finding something nobody was looking for.",
    "The weather forecast for {s}: cloudy, with a chance of meetings.",
    "I told {s} a secret. It was in three dashboards by noon.",
    "{S} is proof that patience is a virtue, mainly because it leaves you no other.",
    "My neighbour is allergic to {s}. It started the day I bought a megaphone.",
    "I asked for {s} on the side. The waiter brought a chair.",
    "What did {s} say to the deadline? We really must stop meeting like this.",
    "{S} went to therapy. The therapist is doing much better now.",
    "I made a map of {s}. The only road on it is the one out of town.",
    "They say that money cannot buy {s}. I have the receipt that says otherwise.",
    "{S} entered a talent show and came second. It was alone on stage.",
    "The trouble with {s} is that it looks so simple from the car park.",
    "I told my boss that I work best with {s}. She moved my desk to the corridor.",
    "If {s} were a dance, I would be the one holding everybody's coats.",
    "{S} keeps its promises. It keeps them in a drawer, with the batteries.",
    "I have a photographic memory for {s}, but somebody left the lens cap on.",
    "Why did {s} fail the exam? Every answer was correct, for a different question.",
    "My plants listen to me talk about {s}. Two have learned to lean the other way.",
    "{S} is the only thing I ever returned and got a thank-you card for.",
    "I started a podcast about {s}. Our listener sends her regards.",
    "They built a monument to {s}. Pigeons have left the first reviews.",
    "{S} asked me for feedback. I said: louder on the way out.",
    "A friend knows everything about {s}. That is why we only talk about soup.",
    "I set {s} as my password. The site said: too emotional.",
    "{S} called. I said that I was in a tunnel. I live in that tunnel now.",
    "What is brown, sticky and explains {s}? A stick; it has had time to think.",
    "I was going to give up {s} for the new year, but it gave me up first.",
    "Science has three laws about {s}. The fourth asks you not to feed it.",
    "{S} has its own way of saying hello. It arrives, sits down and waits for you to notice.",
)

MAX_SUBJECT_CHARS = 120
_PREFIX_CHARS = 60
_SLOT = re.compile(r"\{[sS]\}")


def tell(subject: str, turn: int, told: Sequence[str]) -> str:
    """The joke whose turn it is, or the next one that `told` does not list by its beginning."""
    subject = " ".join(subject.split())[:MAX_SUBJECT_CHARS] or "nothing in particular"
    beginnings = [joke[:_PREFIX_CHARS] for joke in told]
    candidates = (_about(JOKES[(turn + offset) % len(JOKES)], subject) for offset in range(len(JOKES)))
    fresh = (joke for joke in candidates if joke[:_PREFIX_CHARS] not in beginnings)
    return next(fresh, f"Encore {turn}: I have told every joke about {subject} that I know. That one was new.")


def _about(template: str, subject: str) -> str:
    # one pass, so that a subject which itself says "{s}" stays as it is
    return _SLOT.sub(lambda slot: _capital(subject) if slot[0] == "{S}" else subject, template)


def _capital(subject: str) -> str:
    return subject[:1].upper() + subject[1:]
