"""How the offline model plays the agents of the copilot engine: by their names, by what is said, in their format."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.llm.offline import COPILOT_PURPOSE, OfflineModel
from runtime.llm.offline_signals import SIGNALS, heard, mood, phase
from runtime.llm.port import ChatMessage, ChatRequest, data_block
from tests.support import examples

FLAT = 'Answer with one JSON object: {"has_insight": true or false, "content": "..."}'
RAW = 'Answer with one JSON object: {"insight": null or {"content": "..."}}'
WIDGETS = 'Answer with one JSON object: {"ui_actions": [...], "insight": null}'


def request(words: str, *lines: str, form: str = FLAT, trigger: dict[str, Any] | None = None) -> ChatRequest:
    """A call as an agent makes it."""
    told = f"[TRIGGER]\n{data_block(trigger or {'agent': 'Coach', 'why': 'turn_based'})}"
    system = ChatMessage(role="system", content=f"{words}\n\n{told}\n\n[OUTPUT FORMAT]\n{form}")
    user = ChatMessage(role="user", content=f"### TRANSCRIPT:\n{data_block({'transcript': lines})}")
    return ChatRequest(purpose=COPILOT_PURPOSE, messages=(system, user))


async def answered(asked: ChatRequest) -> Any:
    return json.loads((await OfflineModel().chat(asked)).text)


async def test_named_things_are_told_when_they_are_heard() -> None:
    words = (
        "Report the event `question_detected` and push it to the queue `pending_questions`. "
        "Facts: `budget` (an amount), `timeline`."
    )
    found = await answered(request(words, "C: Can we do it for $5,000 by Friday?"))
    quote = {"quote": "Can we do it for $5,000 by Friday?", "speaker": "C"}
    assert found["events"] == [{"name": "question_detected", "payload": {**quote, "category": "question"}}]
    assert found["queue_pushes"] == {"pending_questions": [{"text": quote["quote"], "speaker": "C"}]}
    assert {fact["type"]: fact["value"] for fact in found["facts"]} == {"budget": "$5,000", "timeline": "by Friday"}


async def test_what_is_not_heard_is_not_told() -> None:
    found = await answered(request("Report the event `question_detected`.", "C: It is raining."))
    assert found == {"has_insight": False}


async def test_an_insight_is_labelled_and_quotes_what_was_said() -> None:
    found = await answered(request("Tell about objections.", "C: That is too expensive."))
    assert found["has_insight"] is True
    assert found["content"].startswith("[offline model] ")
    assert "That is too expensive." in found["content"]
    assert (found["type"], found["metadata"]["zone"], found["metadata"]["offline"]) == ("warning", "A", True)
    assert 0 <= found["confidence"] <= 1


async def test_who_is_told_not_to_speak_says_nothing() -> None:
    found = await answered(request("Say nothing to the person. Event `objection_raised`.", "C: That is too expensive."))
    assert found["has_insight"] is False
    assert found["events"]


async def test_questions_of_the_person_who_is_advised_need_no_answer() -> None:
    words = "You listen to REP, whom we advise. Event `question_detected`."
    assert "events" not in await answered(request(words, "C: Hello.", "REP: How are you?"))
    assert "events" in await answered(request(words, "REP: Hello.", "C: How are you?"))


async def test_what_woke_an_agent_is_what_it_speaks_about() -> None:
    woken = {
        "agent": "Coach",
        "why": "event",
        "events": [{"name": "x", "payload": {"quote": "Too risky!", "speaker": "C"}}],
    }
    found = await answered(request("Tell about objections.", "C: Fine.", trigger=woken))
    assert "Too risky!" in found["content"]


async def test_a_silence_is_told_with_its_length() -> None:
    quiet = {"agent": "Coach", "why": "silence", "about": {"silence_duration": 7.4}}
    found = await answered(request("Help.", "C: We plan with a spreadsheet.", trigger=quiet))
    assert "7 seconds" in found["content"]


@pytest.mark.parametrize(("form", "key"), [(FLAT, "has_insight"), (RAW, "insight"), (WIDGETS, "ui_actions")])
async def test_the_form_is_the_one_that_is_asked_for(form: str, key: str) -> None:
    found = await answered(
        request("Tell about objections. Variable `sentiment`.", "C: That is too expensive.", form=form)
    )
    assert key in found
    assert ("has_insight" in found) is (form == FLAT)


async def test_an_agent_that_writes_its_own_messages_is_understood() -> None:
    messages = (
        ChatMessage(role="system", content="You help with objections."),
        ChatMessage(role="user", content="### TRANSCRIPT:\nREP: Hi\nCUSTOMER: It is too expensive."),
    )
    found = await answered(ChatRequest(purpose=COPILOT_PURPOSE, messages=messages))
    assert "It is too expensive." in found["content"]


@given(st.text(), st.lists(st.text(), max_size=4), st.sampled_from([FLAT, RAW, WIDGETS]), st.text())
@examples(150)
async def test_any_prompt_gives_one_object_and_always_the_same(
    words: str, lines: list[str], form: str, tail: str
) -> None:
    asked = request(words, *lines, form=form + tail)
    first = await answered(asked)
    assert isinstance(first, dict)
    assert await answered(asked) == first


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("That is too expensive.", "objection"),
        ("This is the third time I call!", "frustration"),
        ("Could you send us the contract?", "buying_signal"),
        ("What is the price per seat?", "price"),
        ("We are also looking at others.", "competitor"),
        ("I'll send the notes.", "commitment"),
        ("We decided to wait.", "decision"),
        ("He like apples.", "grammar"),
        ("We reduced the costs by half.", "example"),
        ("Our CFO has to sign.", "stakeholder"),
        ("We go live in March.", "timeline"),
        ("It takes us hours.", "pain"),
        ("Thank you so much.", "gratitude"),
        ("By the way, nice weather.", "drift"),
        ("I guess, you know, maybe.", "hedging"),
        ("Why?", "question"),
        ("If you sign today, we can talk.", "concession"),
    ],
)
def test_a_signal_is_heard(text: str, name: str) -> None:
    assert name in [signal.name for signal in heard(text)]


def test_every_signal_can_be_told() -> None:
    assert len({signal.name for signal in SIGNALS}) == len(SIGNALS)
    for signal in SIGNALS:
        assert all("{q}" in said for said in signal.said)
        assert signal.type in ("suggestion", "warning", "opportunity", "fact", "praise")


def test_mood_and_phase_follow_the_words() -> None:
    assert mood(["This is great, thanks!"]) > 0 > mood(["The problem is bad and the support slow."])
    assert mood([]) == 0
    assert phase(["Hello"]) == "opening"
    assert phase(["What problem do you have today?"]) == "discovery"
    assert phase(["Send the contract"]) == "closing"
