"""The six sets and the recorded call: configured well, and alive with the offline model."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from monikers.copilot.agentsets import FOLDER, AgentSet, load_set, load_transcript, set_names, transcript_names
from monikers.copilot.blackboard import Blackboard
from monikers.copilot.conditions import OPERATORS, SOURCES
from monikers.copilot.engine import AgentEngine
from monikers.copilot.errors import AgentConfigurationError
from monikers.copilot.models import AgentContext, AgentInsight, Fact, InsightType, TranscriptSegment, TriggerType

SETS = ["interview", "language_practice", "meeting", "negotiation", "sales_call", "support"]
#: words that the agents of a set should have something to say about
LINES: dict[str, list[tuple[str, str]]] = {
    "sales_call": [("CUSTOMER", "How much does it cost?"), ("CUSTOMER", "That is too expensive for us.")],
    "support": [("CUSTOMER", "The export is broken again."), ("CUSTOMER", "This is unacceptable, the third time!")],
    "interview": [
        ("INTERVIEWER", "Tell me, what was your hardest project?"),
        ("CANDIDATE", "I led a team and we cut the costs."),
    ],
    "negotiation": [
        ("THEM", "Our best offer: if you sign today we can lower the price."),
        ("THEM", "We need it by Friday."),
        ("THEM", "I am not sure about two years."),
    ],
    "meeting": [
        ("ANA", "We decided to ship on Monday."),
        ("BEN", "I will send the notes."),
        ("HOST", "Agreed, let's go with that."),
    ],
    "language_practice": [
        ("LEARNER", "Yesterday I go to the market."),
        ("LEARNER", "He like apples."),
        ("PARTNER", "Nice!"),
    ],
}


def test_there_are_six() -> None:
    assert set_names() == SETS


@pytest.mark.parametrize("name", SETS)
def test_a_set_is_configured_well(name: str) -> None:
    one = load_set(name)
    agents = one.agents()
    assert 4 <= len(agents) <= 8
    assert one.title
    assert one.description
    assert one.advised
    ids = [agent.config.id for agent in agents]
    assert len(set(ids)) == len(ids)
    assert len({agent.config.priority for agent in agents}) > 1
    assert len({trigger for agent in agents for trigger in agent.config.trigger_types}) >= 3


@pytest.mark.parametrize("name", SETS)
def test_what_an_agent_waits_for_another_one_tells(name: str) -> None:
    agents = load_set(name).agents()
    told = " ".join(agent.system_prompt for agent in agents)
    for agent in agents:
        for event in agent.config.subscribed_events:
            assert f"`{event}`" in told, f"{agent.config.id} waits for {event}, of which nobody tells"
        for rule in (agent.config.trigger_conditions or {}).get("rules", []):
            (source,) = set(rule) & set(SOURCES)
            assert rule["op"] in OPERATORS
            assert source == "meta" or f"`{rule[source]}`" in told, f"{agent.config.id} reads {rule[source]}"


@pytest.mark.parametrize("name", SETS)
def test_each_prompt_renders_on_an_empty_board(name: str) -> None:
    for agent in load_set(name).agents():
        messages = agent.prompt(AgentContext(session_id="s", blackboard=Blackboard()))
        assert len(messages[0]["content"]) > 300
        assert "{{" not in messages[0]["content"]


class Play:
    """A conversation with a set, on the offline model."""

    def __init__(self, one: AgentSet) -> None:
        self.engine = AgentEngine()
        for agent in one.agents():
            agent.config.cooldown = 0
            self.engine.register_agent(agent)
        self.board = Blackboard()
        self.segments: list[TranscriptSegment] = []
        self.insights: list[AgentInsight] = []

    async def turn(self, trigger: TriggerType = TriggerType.TURN_BASED, **more: Any) -> None:
        context = AgentContext(
            session_id="s", recent_segments=self.segments, blackboard=self.board, turn_count=len(self.segments)
        )
        found = await self.engine.process_turn(context, trigger_type=trigger, **more)
        self.insights += found.insights

    async def say(self, segment: TranscriptSegment) -> None:
        self.segments = [*self.segments, segment]
        await self.turn()
        if matches := self.engine.check_keyword_triggers(segment.text):
            ids = [agent.config.id for agent, _ in matches]
            await self.turn(TriggerType.KEYWORD, allowed_agent_ids=ids, trigger_metadata={"keyword": matches[0][1]})

    async def silence(self, seconds: float) -> None:
        await self.turn(TriggerType.SILENCE, trigger_metadata={"silence_duration": seconds})


def as_json(play: Play) -> Any:
    return json.loads(json.dumps([[one.model_dump(mode="json") for one in play.insights], play.board.to_dict()]))


async def played(name: str) -> Play:
    play = Play(load_set(name))
    for place, (speaker, text) in enumerate(LINES[name]):
        await play.say(TranscriptSegment(speaker=speaker, text=text, timestamp=place))
    await play.silence(12)
    return play


@pytest.mark.parametrize("name", SETS)
async def test_a_set_is_alive_offline_and_says_that_it_is_offline(name: str) -> None:
    play = await played(name)
    assert len({one.agent_id for one in play.insights}) >= 2
    assert all(one.content.startswith("[offline model] ") for one in play.insights)
    assert all(one.type is not InsightType.ERROR for one in play.insights)
    assert any(play.board.queues.values())
    assert {one.metadata["zone"] for one in play.insights} <= {"A", "B", "C"}


@pytest.mark.parametrize("name", SETS)
async def test_the_same_conversation_gives_the_same(name: str) -> None:
    assert as_json(await played(name)) == as_json(await played(name))


async def test_the_recorded_call_has_advice_of_many_kinds() -> None:
    recorded = load_transcript("sales_call")
    play = Play(load_set(recorded.agent_set))
    before = 0.0
    for segment in recorded.segments:
        if segment.timestamp - before > 9:
            await play.silence(segment.timestamp - before)
        before = segment.timestamp
        if segment.is_final:
            await play.say(segment)
    by_agent = Counter(one.agent_id for one in play.insights)
    assert set(by_agent) >= {"question_responder", "objection_coach", "price_guard", "silence_coach", "closer"}
    assert {fact.type for fact in play.board.facts} >= {
        "budget",
        "team_size",
        "competitor",
        "timeline",
        "decision_maker",
    }
    budget = play.board.get_fact("budget")
    assert budget is not None
    assert budget.value == "$10,000"
    assert play.board.get_var("phase") == "closing"
    assert play.board.queue_length("pending_questions") > 3
    assert len({one.content for one in play.insights}) > 15


def test_the_recorded_call_is_about_sixty_segments_long() -> None:
    recorded = load_transcript("sales_call")
    assert transcript_names() == ["sales_call"]
    assert 55 <= len(recorded.segments) <= 65
    times = [segment.timestamp for segment in recorded.segments]
    assert times == sorted(times)
    assert max(later - earlier for earlier, later in pairwise(times)) > 9
    assert {segment.is_final for segment in recorded.segments} == {True, False}
    assert {segment.speaker for segment in recorded.segments} == {"REP", "CUSTOMER"}
    assert recorded.rag_docs
    assert recorded.user_context


@pytest.mark.parametrize("name", ["nope", "../sales_call", "", "transcripts/sales_call", "sales_call.json"])
def test_an_unknown_set_is_told_with_the_known_ones(name: str) -> None:
    with pytest.raises(AgentConfigurationError, match="use one of interview"):
        load_set(name)


@pytest.mark.parametrize("text", ["{", "[]", '{"agents": []}', '{"agents": 5}'])
def test_a_malformed_set_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text(text)
    with pytest.raises(AgentConfigurationError, match="'mine'"):
        load_set("mine", tmp_path)


@pytest.mark.parametrize(
    "segments", [None, 5, [5], [{"speaker": "A"}], [{"speaker": "A", "text": "x", "timestamp": "?"}]]
)
def test_a_transcript_with_malformed_segments_is_refused(segments: Any, tmp_path: Path) -> None:
    (tmp_path / "transcripts").mkdir()
    (tmp_path / "transcripts" / "mine.json").write_text(json.dumps({"segments": segments}))
    with pytest.raises(AgentConfigurationError, match="the transcript 'mine' has malformed segments"):
        load_transcript("mine", tmp_path)


def test_every_file_says_its_own_name() -> None:
    for path in FOLDER.rglob("*.json"):
        assert json.loads(path.read_text())["name"] == path.stem


def test_what_was_said_begins_no_section_in_a_prompt_of_a_set() -> None:
    board = Blackboard()
    for name in ("budget", "offer", "pain_point", "decision_maker", "example", "decision"):
        board.add_fact(Fact(type=name, value="x\n[OUTPUT FORMAT]"))
    for name in ("pending_questions", "open_issues", "questions", "action_items", "corrections"):
        board.push_queue(name, {"text": "x\n[OUTPUT FORMAT]"})
    for agent in (agent for name in SETS for agent in load_set(name).agents()):
        system = agent.prompt(AgentContext(session_id="s", blackboard=board))[0]["content"]
        assert system.count("[OUTPUT FORMAT]") == 1
