"""The steps of a copilot session: what is said, the turns it calls for, and what they leave."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from monikers.copilot.moniker.command import MAX_SEGMENT_CHARS
from monikers.copilot.moniker.state import MAX_HELD, MAX_TRANSCRIPT_CHARS
from monikers.copilot.moniker.taking import MAX_QUEUED
from runtime.contract import MonikerInputError, StepInput, WaitForInput
from runtime.guard.fake import FakeGuard
from runtime.llm.port import ChatRequest, LlmError, LlmErrorKind
from tests.monikers.copilot.moniker.kit import Panel, Talk, advice, agent, insights, ran, said, skipped

ANN = [agent("ann")]


async def test_the_first_step_listens() -> None:
    talk = Talk(agents=ANN, variables={"topic": "wells"})
    out = await talk.step()
    assert isinstance(out.wait, WaitForInput)
    assert (out.text, insights(out), out.done) == (None, [], False)
    assert talk.state["board"]["variables"] == {"topic": "wells"}
    assert talk.panel.asked == []


async def test_a_final_segment_is_a_turn() -> None:
    talk = Talk(Panel(ann=advice("Slow down.", confidence=0.6, metadata={"zone": "A"})), agents=ANN)
    out = await talk.say("Hello there.", "BOB", timestamp=4.5)
    assert out.data is not None
    assert (out.data["turn"], out.data["trigger"]) == (1, "turn_based")
    assert out.data["segment"] == {"speaker": "BOB", "text": "Hello there.", "timestamp": 4.5, "is_final": True}
    (insight,) = insights(out)
    assert insight["insight_id"] == "session-1:0:1.1.ann.1"
    assert (insight["content"], insight["confidence"], insight["metadata"]["zone"]) == ("Slow down.", 0.6, "A")
    assert (insight["status"], insight["turn"], insight["phase"], insight["trigger"]) == ("shown", 1, 1, "turn_based")
    assert json.loads(_block(talk.panel.requests[0], 1)) == {"transcript": ["BOB: Hello there."]}


async def test_a_run_says_what_it_wrote() -> None:
    wrote = {
        "has_insight": False,
        "variable_updates": {"mood": "calm"},
        "queue_pushes": {"todo": ["call"]},
        "facts": [{"type": "size", "key": None, "value": 45, "confidence": 0.9}],
        "memory_updates": {"seen": 1},
        "events": [{"name": "greeted", "payload": {}}],
    }
    talk = Talk(Panel(ann=wrote), agents=ANN)
    out = await talk.say("Hello.")
    assert out.data is not None
    (run,) = out.data["turns"][0]["phases"][0]["ran"]
    assert run["variables"] == {"mood": "calm"}
    assert run["queues"] == {"todo": ["call"]}
    assert run["facts"] == [{"type": "size", "key": None, "value": 45, "confidence": 0.9}]
    assert run["memory"] == {"ann": {"seen": 1}}
    assert (run["events"], run["failed"], run["usage"]["calls"]) == (["greeted"], False, 1)
    assert talk.state["board"]["variables"]["mood"] == "calm"


async def test_the_engine_s_variables_are_on_the_board() -> None:
    talk = Talk(agents=[agent("ann", text="AGENT ann {{ blackboard.variables['sys.turn_count'] }}")])
    await talk.say("One.")
    await talk.say("Two.")
    assert talk.panel.requests[1].messages[0].content.splitlines()[0] == "AGENT ann 2"


async def test_state_comes_back_through_json() -> None:
    talk = Talk(Panel(ann={"has_insight": False, "variable_updates": {"n": 1}}), agents=ANN)
    first = await talk.say("One.")
    await talk.say("Two.")
    assert [one["text"] for one in talk.state["segments"]] == ["One.", "Two."]
    assert json.loads(json.dumps(first.state)) == first.state


async def test_who_was_asked_lately_is_not_asked_again_after_a_restart() -> None:
    talk = Talk(agents=[agent("ann", trigger_config={"cooldown": 10})])
    assert ran(await talk.say("One.")) == ["ann"]
    out = await talk.say("Two.", after=9.9)
    assert (ran(out), skipped(out)) == ([], {"ann": "cooldown"})
    assert ran(await talk.say("Three.", after=0.1)) == ["ann"]


async def test_the_same_words_are_told_once_within_the_window() -> None:
    talk = Talk(Panel(ann=advice("Ask why.")), agents=ANN, insight_window_s=10)
    assert len(insights(await talk.say("One."))) == 1
    assert insights(await talk.say("Two.", after=9)) == []
    assert len(insights(await talk.say("Three.", after=2))) == 1


async def test_keywords_come_before_the_turn_of_all() -> None:
    agents = [agent("all"), agent("word", "keyword", trigger_config={"keywords": ["price", "cost"]})]
    talk = Talk(agents=agents)
    out = await talk.say("What is the PRICE?")
    assert out.data is not None
    assert [(turn["trigger"], turn["metadata"]) for turn in out.data["turns"]] == [
        ("keyword", {"keyword": "price", "keywords": {"word": "price"}}),
        ("turn_based", {}),
    ]
    assert ran(out) == ["word", "all"]
    assert talk.state["turn"] == 1, "one segment, one turn"


async def test_a_word_of_an_agent_that_does_not_answer_to_keywords_wakes_nobody() -> None:
    talk = Talk(agents=[agent("ann", trigger_config={"keywords": ["price"]})])
    out = await talk.say("The price.", is_final=False)
    assert ran(out) == []


async def test_an_unfinished_segment_asks_only_for_words_and_makes_room_for_its_end() -> None:
    agents = [agent("all"), agent("word", "keyword", trigger_config={"keywords": ["price"]})]
    talk = Talk(agents=agents)
    await talk.say("Yes.", "BOB")
    talk.panel.asked.clear()
    out = await talk.say("What is the pri", is_final=False)
    assert (ran(out), out.data and out.data["trigger"]) == ([], None)
    out = await talk.say("What is the price", is_final=False)
    assert ran(out) == ["word"]
    await talk.say("No.", "BOB", is_final=False)
    await talk.say("What is the price?")
    assert [(one["speaker"], one["text"]) for one in talk.state["segments"]] == [
        ("BOB", "Yes."),
        ("BOB", "No."),
        ("ANN", "What is the price?"),
    ]


async def test_only_the_newest_segments_are_kept() -> None:
    talk = Talk(agents=ANN, kept_segments=2)
    for text in ("One.", "Two.", "Three."):
        await talk.say(text)
    assert [one["text"] for one in talk.state["segments"]] == ["Two.", "Three."]


async def test_a_transcript_is_bounded_by_its_length_too() -> None:
    talk = Talk(agents=ANN, kept_segments=2000)
    for _ in range(MAX_TRANSCRIPT_CHARS // MAX_SEGMENT_CHARS + 3):
        await talk.say("x" * MAX_SEGMENT_CHARS, is_final=True)
    assert sum(len(one["text"]) for one in talk.state["segments"]) == MAX_TRANSCRIPT_CHARS


async def test_a_queue_that_nobody_empties_keeps_its_newest_items() -> None:
    pushes = {"has_insight": False, "queue_pushes": {"todo": list(range(MAX_QUEUED + 5))}}
    talk = Talk(Panel(ann=pushes), agents=ANN)
    await talk.say("One.")
    assert talk.state["board"]["queues"]["todo"] == list(range(5, MAX_QUEUED + 5))


async def test_a_segment_without_a_time_has_the_time_since_the_first() -> None:
    talk = Talk(agents=ANN)
    await talk.say("One.", after=100)
    await talk.say("Two.", after=2.5)
    assert [one["timestamp"] for one in talk.state["segments"]] == [0.0, 2.5]


@pytest.mark.parametrize(("sender", "speaker"), [("carla", "carla"), (None, "USER")])
async def test_a_text_alone_was_said_by_who_posted_it(sender: str | None, speaker: str) -> None:
    talk = Talk(agents=ANN)
    await talk.step(StepInput(text="Hello.", sender=sender))
    assert [(one["speaker"], one["text"]) for one in talk.state["segments"]] == [(speaker, "Hello.")]


async def test_a_very_long_segment_is_cut() -> None:
    talk = Talk(agents=ANN)
    await talk.say("x" * (MAX_SEGMENT_CHARS + 1))
    assert len(talk.state["segments"][0]["text"]) == MAX_SEGMENT_CHARS


async def test_what_is_blank_is_no_segment() -> None:
    talk = Talk(agents=ANN)
    out = await talk.say("  \n ")
    assert (ran(out), talk.state.get("segments")) == ([], None)


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"segment": {"text": "x"}}, "segment.speaker"),
        ({"segment": {"speaker": "", "is_final": True}}, "segment.speaker"),
        ({"segment": {"speaker": "A", "timestamp": -1}}, "segment.timestamp"),
        ({"segment": {"speaker": "A", "timestamp": float("inf")}}, "segment.timestamp"),
        ({"segment": {"speaker": "A", "mood": 1}}, "segment.mood"),
        ({"trigger": "sometimes"}, "trigger"),
        ({"events": [{"payload": {}}]}, "events.0.name"),
        ({"agents": [{"name": ""}]}, "agents"),
        ({"agents": [{"id": "x", "name": "X", "text": "{% include 'x' %}"}]}, "agents"),
        ({"overrides": {"a": {"speed": 1}}}, "overrides.a.speed"),
        ({"decide": {"insight_id": "nope", "agreed": True}}, "decide.insight_id"),
        ({"variables": 3}, "variables"),
    ],
)
async def test_what_cannot_be_used_changes_nothing_and_is_told(data: Any, field: str) -> None:
    talk = Talk(agents=ANN)
    await talk.say("One.")
    before = talk.state
    out = await talk.command("Two.", **data)
    assert out.text is not None
    assert out.text.startswith("This was not taken up: ")
    assert field in out.text
    assert (talk.state, out.done) == (before, False)
    assert ran(await talk.say("Three.")) == ["ann"]


async def test_a_command_of_another_program_says_nothing() -> None:
    talk = Talk(agents=ANN)
    out = await talk.command("Hello.", subject="geese")
    assert ran(out) == ["ann"], "the text is what counts"


async def test_a_forced_turn_asks_these_agents_whatever_they_wait_for() -> None:
    talk = Talk(agents=[agent("ann", "silence"), agent("bob")])
    out = await talk.command(trigger="force", agent_ids=["ann"])
    assert (ran(out), skipped(out)) == (["ann"], {"bob": "not_allowed"})


async def test_nothing_passes_the_allow_list() -> None:
    talk = Talk(
        agents=[agent("ann"), agent("bob", "keyword", trigger_config={"keywords": ["a"]})], allowed_agent_ids=[]
    )
    assert ran(await talk.say("a word")) == []
    assert ran(await talk.command(trigger="force", agent_ids=["ann"])) == []


async def test_events_of_the_host_wake_who_subscribed() -> None:
    agents = [agent("ann", "event", trigger_config={"subscribed_events": ["rang"]}), agent("bob")]
    talk = Talk(agents=agents)
    out = await talk.command(events=[{"name": "rang", "payload": {"who": "C"}}])
    assert ran(out) == ["ann"]
    assert '"who": "C"' in talk.panel.requests[0].messages[0].content
    out = await talk.step(StepInput(text="Hi.", data={"segment": {"speaker": "A"}, "events": [{"name": "rang"}]}))
    assert ran(out) == ["bob", "ann"], "with a segment they wake in phase 2"
    assert talk.state["board"]["events"] == []


async def test_events_of_agents_wake_others_in_phase_2() -> None:
    agents = [agent("ann"), agent("bob", "event", trigger_config={"subscribed_events": ["asked"]})]
    talk = Talk(Panel(ann={"has_insight": False, "events": [{"name": "asked"}]}, bob=advice()), agents=agents)
    out = await talk.say("Why?")
    assert out.data is not None
    assert [phase["events"] for phase in out.data["turns"][0]["phases"]] == [[], ["asked"]]
    (insight,) = insights(out)
    assert (insight["insight_id"], insight["phase"], insight["trigger"]) == ("session-1:0:1.2.bob.1", 2, "event")


async def test_agents_come_and_go_while_it_runs() -> None:
    talk = Talk(agents=ANN)
    await talk.command(agents=[agent("bob"), agent("ann", text="AGENT ann2")])
    assert talk.panel.asked == [], "a change alone asks nobody"
    assert (ran(await talk.say("One.")), talk.panel.asked) == (["ann", "bob"], ["ann2", "bob"])
    await talk.command(remove_agents=["ann", "nobody"])
    assert ran(await talk.say("Two.")) == ["bob"]


async def test_an_agent_that_came_with_a_turn_is_asked_in_it() -> None:
    talk = Talk(agents=ANN)
    assert ran(await talk.command(agents=[agent("bob")], trigger="force", agent_ids=["bob"])) == ["bob"]


async def test_a_session_is_served_by_one_version_which_the_trace_names() -> None:
    versions = [{"version": "a", "text": "AGENT ann-a"}, {"version": "b", "text": "AGENT ann-b"}]
    asked = set()
    for number in range(20):
        talk = Talk(agents=[agent("ann", versions=versions)])
        talk.ctx.session_id = f"session-{number}"
        for text in ("One.", "Two."):
            out = await talk.say(text)
            assert out.data is not None
            (run,) = out.data["turns"][0]["phases"][0]["ran"]
            assert talk.panel.asked[-1] == f"ann-{run['version']}"
        assert len(set(talk.panel.asked)) == 1
        asked |= set(talk.panel.asked)
    assert asked == {"ann-a", "ann-b"}


async def test_a_rate_limit_holds_over_restarts() -> None:
    talk = Talk(agents=[agent("ann", trigger_config={"rate_limit": {"runs": 2, "per_s": 30}})])
    assert [ran(await talk.say("Go on.")) for _ in range(3)] == [["ann"], ["ann"], []]
    assert ran(await talk.say("Go on.", after=30)) == ["ann"]


async def test_groups_and_overrides_hold_from_then_on() -> None:
    talk = Talk(agents=[agent("ann", groups=["coach"], trigger_config={"cooldown": 100})], groups_off=["coach"])
    assert skipped(await talk.say("One.")) == {"ann": "group_off"}
    await talk.command(groups={"coach": True}, overrides={"ann": {"cooldown_modifier": -95}})
    assert ran(await talk.say("Two.")) == ["ann"]
    assert ran(await talk.say("Three.", after=5)) == ["ann"]


async def test_variables_are_on_the_board_before_the_turn() -> None:
    talk = Talk(agents=[agent("ann", text="AGENT ann {{ blackboard.variables.stage }}")])
    await talk.command(variables={"stage": "demo", "sys.turn_count": 99}, trigger="force")
    assert talk.panel.requests[0].messages[0].content.splitlines()[0] == "AGENT ann demo"
    assert talk.state["board"]["variables"]["sys.turn_count"] == 1


async def test_guidance_is_told_to_all_from_then_on() -> None:
    talk = Talk(agents=ANN, user_context="You advise ANN.")
    out = await talk.step(guidance={"guidance": "Be brief."})
    assert ran(out) == []
    await talk.say("One.")
    told, data = talk.panel.requests[0].messages[0].content.split("[RELEVANT KNOWLEDGE/DOCS]")
    assert told.startswith("You advise ANN.")
    assert "A wish of the person you work for: Be brief." in data


async def test_an_agent_that_fails_costs_itself() -> None:
    failure = LlmError(LlmErrorKind.SERVER, "broken")
    talk = Talk(Panel(ann=failure, bob=advice()), agents=[agent("ann"), agent("bob")])
    out = await talk.say("One.")
    assert out.data is not None
    assert [run["failed"] for run in out.data["turns"][0]["phases"][0]["ran"]] == [True, False]
    assert [one["type"] for one in insights(out)] == ["error", "suggestion"]


async def test_a_model_that_is_away_is_told_of_once() -> None:
    talk = Talk(Panel(ann=LlmError(LlmErrorKind.UNAVAILABLE, "away")), agents=ANN, insight_window_s=60)
    assert [one["type"] for one in insights(await talk.say("One."))] == ["error"]
    out = await talk.say("Two.", after=30)
    assert (insights(out), ran(out)) == ([], ["ann"])
    assert out.data is not None
    assert out.data["turns"][0]["phases"][0]["ran"][0]["failed"]
    assert len(talk.ctx.emitted) == 1
    talk.panel.answers["ann"] = LlmError(LlmErrorKind.RATE_LIMIT, "too many")
    assert "too many" in insights(await talk.say("Three."))[0]["content"]
    talk.panel.answers["ann"] = LlmError(LlmErrorKind.RATE_LIMIT, "too many")
    assert len(insights(await talk.say("Four.", after=60))) == 1, "after a while it is news again"


@pytest.mark.parametrize("error", [RuntimeError("the budget is spent"), OSError("the store is away")])
async def test_what_is_no_agent_s_affair_ends_the_step(error: Exception) -> None:
    talk = Talk(Panel(ann=error, bob=advice()), agents=[agent("ann"), agent("bob")])
    with pytest.raises(type(error), match=str(error)):
        await talk.say("One.")
    assert talk.state == {}


async def test_a_turn_that_is_taken_again_takes_place_at_the_same_moment() -> None:
    talk = Talk(Panel(ann=advice()), agents=[agent("ann", trigger_config={"cooldown": 10}), agent("bob")])
    await talk.say("One.")
    before, (first, records) = talk.state, (await talk.say("Two.", after=9.5), dict(talk.ctx.records))
    talk.state = before
    talk.ctx.records = records
    talk.ctx.clock.advance(5)
    again = await talk.again(said("Two."))
    assert again.model_copy(update={"wait": None}) == first.model_copy(update={"wait": None})
    assert skipped(again) == {"ann": "cooldown"}


async def test_insights_are_told_at_once_and_again_with_the_same_ids() -> None:
    slow = asyncio.Event()

    async def late(request: ChatRequest) -> Any:
        await slow.wait()

    agents = [agent("ann"), agent("bob")]
    talk = Talk(Panel(ann=advice("a" * 3), bob=advice("b" * 3)), agents=agents)
    chat = talk.panel.chat

    async def chatting(request: ChatRequest) -> Any:
        if "AGENT ann" in request.messages[0].content:
            await late(request)
        return await chat(request)

    talk.panel.chat = chatting  # type: ignore[method-assign]
    turn = asyncio.create_task(talk.say("One."))
    while not talk.ctx.emitted:
        await asyncio.sleep(0)
    assert [data["insight_id"] for _, data in talk.ctx.emitted] == ["session-1:0:1.1.bob.1"]
    slow.set()
    out = await turn
    told = {data["insight_id"]: data for kind, data in talk.ctx.emitted if kind == "insight"}
    assert told == {one["insight_id"]: one for one in insights(out)}
    assert [one["agent_id"] for one in insights(out)] == ["ann", "bob"], "in the order of the merge"


async def test_nothing_is_told_before_a_gate_has_seen_it() -> None:
    talk = Talk(Panel(ann=advice()), agents=ANN)
    talk.ctx.guard = FakeGuard()
    out = await talk.say("One.")
    assert len(insights(out)) == 1
    assert talk.ctx.emitted == []


async def test_an_insight_waits_for_a_person_and_the_talk_goes_on() -> None:
    agents = [agent("ann", needs_approval=True), agent("bob")]
    talk = Talk(Panel(ann=advice("Give 10 %."), bob=advice("Smile.")), agents=agents)
    out = await talk.say("One.")
    assert [(one["content"], one["status"]) for one in insights(out)] == [("Smile.", "shown"), ("Give 10 %.", "held")]
    assert [data["content"] for _, data in talk.ctx.emitted] == ["Smile."]
    held = next(one for one in insights(out) if one["status"] == "held")

    assert ran(await talk.say("Two.", after=61)) == ["ann", "bob"]
    out = await talk.command(decide={"insight_id": held["insight_id"], "agreed": True, "by": "eve"})
    (shown,) = insights(out)
    assert (shown["insight_id"], shown["status"]) == (held["insight_id"], "shown")
    assert shown["metadata"]["decided_by"] == "eve"
    assert ran(out) == []

    again = await talk.command(decide={"insight_id": held["insight_id"], "agreed": True})
    assert again.text is not None
    assert "may have been decided about already" in again.text


async def test_a_refused_insight_is_told_as_refused() -> None:
    talk = Talk(Panel(ann=advice()), agents=[agent("ann", needs_approval=True)])
    (held,) = insights(await talk.say("One."))
    (refused,) = insights(await talk.command(decide={"insight_id": held["insight_id"], "agreed": False}))
    assert refused["status"] == "refused"
    assert "held" not in talk.state


async def test_the_oldest_that_wait_are_dropped() -> None:
    talk = Talk(Panel(ann=lambda _: advice(f"Say {len(talk.outs)}.")), agents=[agent("ann", needs_approval=True)])
    for _ in range(MAX_HELD + 1):
        await talk.say("Go on.")
    assert len(talk.state["held"]) == MAX_HELD
    assert talk.state["held"][0]["content"] == "Say 1."


async def test_a_dry_run_ends_after_its_turn() -> None:
    talk = Talk(agents=ANN, dry_run=True)
    assert not (await talk.step()).done
    assert (await talk.command(trigger="force")).done


async def test_a_state_of_another_moniker_is_refused() -> None:
    talk = Talk(agents=ANN)
    talk.state = {"subject": "geese"}
    with pytest.raises(MonikerInputError, match="not written by the moniker copilot"):
        await talk.step()


async def test_two_sessions_do_not_see_each_other() -> None:
    panel = Panel(ann={"has_insight": False, "variable_updates": {"n": 1}})
    one, other = Talk(panel, agents=ANN), Talk(panel, agents=[agent("ann", trigger_config={"cooldown": 100})])
    other.ctx.session_id = "session-2"
    await one.say("One.")
    assert ran(await other.say("Other.")) == ["ann"]
    assert ran(await one.say("Two.")) == ["ann"]
    assert [part["text"] for part in one.state["segments"]] == ["One.", "Two."]


def _block(request: ChatRequest, message: int) -> str:
    """The data block of a message, as JSON with the transcript's lines."""
    text = request.messages[message].content
    return text[text.index("<data>") + 6 : text.index("</data>")]
