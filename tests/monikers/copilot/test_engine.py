"""The engine's own interface (spec 2 §4.1, §12.2) and what else it offers (§14.2, §14.3, §15.1)."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import monikers.copilot
from monikers.copilot import (
    AgentConfigurationError,
    AgentContext,
    AgentEngine,
    AgentInsight,
    AgentResponse,
    HeldInsight,
    InsightType,
    TriggerType,
    Version,
    VersionedAgent,
)
from monikers.copilot.costs import Usage
from monikers.copilot.deduplication import news
from tests.monikers.copilot.agents import Heard, Scripted, StillClock, answering, context_of, engine_of, listener, says

# --- registration -----------------------------------------------------------------------------------------------------


def test_the_signatures() -> None:
    def positional(function: Any) -> list[str]:
        parameters = inspect.signature(function).parameters
        return [name for name, one in parameters.items() if one.kind is one.POSITIONAL_OR_KEYWORD]

    llm = ["llm_timeout", "llm_max_retries", "llm_max_tokens", "llm_base_url"]
    assert positional(AgentEngine) == ["api_key", "callbacks", "max_phases", *llm]
    turn = ["self", "context", "allowed_agent_ids", "trigger_type", "trigger_metadata"]
    assert positional(AgentEngine.process_turn) == turn


def test_every_public_name_is_there() -> None:
    assert [name for name in monikers.copilot.__all__ if not hasattr(monikers.copilot, name)] == []


NAMES = (
    "AgentEngine AgentConfigurationError AgentConfig DynamicAgent BaseAgent Blackboard Event Fact AgentContext "
    "AgentConfigOverride AgentResponse AgentInsight InsightType TriggerType TranscriptSegment ConditionEvaluator "
    "AgentCallbackHandler LLMClient LLMResult StructuredLogTracer load_set set_names load_transcript transcript_names "
    "output_schema PromptTemplateError"
).split()


@pytest.mark.parametrize("name", NAMES)
def test_what_hosts_import_is_public(name: str) -> None:
    assert name in monikers.copilot.__all__


def test_a_duplicate_id_is_refused() -> None:
    engine = engine_of(Scripted("a"))
    with pytest.raises(AgentConfigurationError, match="two agents have the id 'a'"):
        engine.register_agent(Scripted("a"))
    with pytest.raises(ValueError, match="has no id"):
        engine.register_agent(Scripted(""))
    assert len(engine.agents) == 1


def test_the_list_of_agents_is_rebound_and_never_changed() -> None:
    engine = engine_of(Scripted("a"))
    before = engine.agents
    engine.register_agent(Scripted("b"))
    assert [agent.config.id for agent in before] == ["a"]
    assert engine.unregister_agent("a")
    assert not engine.unregister_agent("a")
    assert [agent.config.id for agent in engine.agents] == ["b"]


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        *(("agent_timeout", bad) for bad in (0, -1, float("nan"))),
        *((name, bad) for name in ("callback_timeout", "insight_window") for bad in (-1, float("nan"))),
    ],
)
def test_a_time_that_is_none_is_refused(name: str, seconds: float) -> None:
    """A deadline that is no number would never come, and never let the event loop go on."""
    options: dict[str, Any] = {name: seconds}
    with pytest.raises(ValueError, match=f"{name}=.*: give seconds"):
        AgentEngine(**options)


def test_replacing_agents_is_all_or_nothing() -> None:
    engine = engine_of(Scripted("a"))
    with pytest.raises(AgentConfigurationError):
        engine.replace_agents([Scripted("b"), Scripted("b")])
    assert [agent.config.id for agent in engine.agents] == ["a"]
    engine.replace_agents([Scripted("c"), Scripted("b")])
    assert [agent.config.id for agent in engine.agents] == ["c", "b"]
    engine.agents = []
    assert engine.agents == []


class Client:
    """A model client that knows what it was made with."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings


def test_a_new_key_keeps_the_settings_and_spares_agents_with_a_model_of_their_own() -> None:
    own = Scripted("own")
    own.llm = "own"
    engine = engine_of(
        own, agent := Scripted("agent"), api_key="old", llm_timeout=5, llm_base_url="u", new_client=Client
    )
    assert agent.llm is engine.llm_client
    engine.update_api_key("new")
    assert engine.llm_client.settings == {"api_key": "new", "timeout": 5, "base_url": "u"}
    assert agent.llm is engine.llm_client
    assert own.llm == "own"


def test_questions_about_agents() -> None:
    words = Scripted("words", trigger_types=[TriggerType.KEYWORD], trigger_keywords=["Discount", "price"])
    other = Scripted("other", trigger_keywords=["price"])
    quiet = Scripted("quiet", trigger_types=[TriggerType.SILENCE], silence_threshold=0)
    woken, deaf = listener("woken", "e", "f"), Scripted("deaf", subscribed_events=["e"])
    engine = engine_of(words, other, quiet, woken, deaf)
    assert engine.get_agents_by_trigger_type(TriggerType.KEYWORD) == [words]
    assert engine.get_agents_with_keywords() == [words, other]
    assert engine.get_agents_with_silence_threshold() == [quiet]
    assert engine.get_event_subscribers(["f", "e"]) == [woken]
    assert engine.get_event_subscribers([]) == []
    assert engine.check_keyword_triggers("What PRICE, what discount?") == [(words, "Discount"), (other, "price")]
    assert engine.check_keyword_triggers("price", ["other"]) == [(other, "price")]
    assert engine.check_keyword_triggers("price", []) == []
    assert engine.check_keyword_triggers("nothing") == []


async def test_nothing_is_kept_for_agents_that_a_session_never_asked() -> None:
    engine = engine_of(*[Scripted(f"a{number}") for number in range(50)])
    await engine.process_turn(context_of(), ["a3"])
    assert list(engine.export_session("session")["agents"]) == ["a3"]


async def test_agents_may_change_in_the_middle_of_a_turn() -> None:
    late = Scripted("late")

    def registers(agent: Any, context: AgentContext) -> None:
        engine.register_agent(late)
        engine.unregister_agent("other")

    engine = engine_of(Scripted("agent", registers), other := Scripted("other"))
    await engine.process_turn(context_of())
    assert (late.runs, other.runs) == (0, 1)
    await engine.process_turn(context_of(), allowed_agent_ids=["late"])
    assert late.runs == 1


# --- groups -----------------------------------------------------------------------------------------------------------


async def test_groups_are_an_allow_list_or_switched_off() -> None:
    agents = [Scripted("a", groups=["x"]), Scripted("b", groups=["x", "y"]), Scripted("c")]
    engine = engine_of(*agents)
    assert engine.ids_of_groups("x") == ["a", "b"]
    assert engine.ids_of_groups("y", "z") == ["b"]
    engine.groups.switch("x", on=False)
    assert engine.groups.off == ["x"]
    await engine.process_turn(context_of())
    assert [agent.runs for agent in agents] == [0, 1, 1]
    engine.groups.switch("x", on=True)
    await engine.process_turn(context_of())
    assert [agent.runs for agent in agents] == [1, 2, 2]


# --- saying things twice ----------------------------------------------------------------------------------------------


async def test_the_same_words_of_the_same_agent_count_once_within_the_window() -> None:
    clock, heard = StillClock(), Heard()
    agents = [Scripted("a", lambda a, c: says(a, "Slow  DOWN")), Scripted("b", lambda a, c: says(a, "slow down"))]
    engine = engine_of(*agents, clock=clock, insight_window=30, callbacks=[heard])
    counts = []
    for seconds, session in ((0, "s"), (29, "s"), (0, "t"), (1, "s")):
        clock.move(seconds)
        counts.append(len((await engine.process_turn(context_of(session_id=session))).insights))
    assert counts == [2, 0, 2, 2]
    assert len(heard.of("on_insight")) == 6


def test_errors_are_never_held_back_and_old_words_are_forgotten() -> None:
    said: dict[str, float] = {}
    error = AgentInsight(agent_id="a", agent_name="a", type=InsightType.ERROR, content="boom")
    hint = error.model_copy(update={"type": InsightType.SUGGESTION, "content": "hint"})
    assert news([error, error, hint, hint], said, 0.0, 10.0) == [error, error, hint]
    assert news([], said, 10.0, 10.0) == []
    assert said == {}


# --- what it costs ----------------------------------------------------------------------------------------------------


async def test_usage_is_counted_by_agent_and_session() -> None:
    engine = engine_of(
        Scripted("a", answering(usage={"calls": 1, "cost": 0.5, "model": "m"})),
        Scripted("b", answering(usage={"calls": 2})),
    )
    for session in ("s", "s", "t"):
        await engine.process_turn(context_of(session_id=session))
    assert engine.usage("s") == {"calls": 6, "cost": 1.0}
    assert engine.usage("s", "a") == {"calls": 2, "cost": 1.0}
    assert engine.usage("t", "b") == {"calls": 2}
    assert engine.usage("none") == {}


@pytest.mark.parametrize(
    "told",
    [None, "no", [1], {"x": "no", "y": float("nan"), "z": True, "w": float("-inf")}, {"x": 10**400, "y": 1e300}],
)
def test_what_is_no_number_is_not_counted(told: Any) -> None:
    usage = Usage(x=1)
    usage.add(told)
    assert usage == {"x": 1}


# --- versions ---------------------------------------------------------------------------------------------------------


def versioned(*shares: float, **config: Any) -> VersionedAgent:
    return VersionedAgent(
        [
            Version(name, saying(f"{name} says", **config), share)
            for name, share in zip(["v0", "v1"], shares, strict=True)
        ]
    )


def saying(content: str, **config: Any) -> Scripted:
    return Scripted("coach", lambda agent, context: says(agent, content), **config)


async def test_a_session_keeps_its_version_and_versions_get_their_shares() -> None:
    agent = versioned(1, 3)
    chosen = [agent.version_for(f"session {number}").name for number in range(2_000)]
    assert 0.2 < chosen.count("v0") / len(chosen) < 0.3
    again = versioned(1, 3)
    assert chosen == [again.version_for(f"session {number}").name for number in range(2_000)]
    engine = engine_of(again)
    for number in range(20):
        response = await engine.process_turn(context_of(session_id=f"session {number}"))
        assert [insight.content for insight in response.insights] == [f"{chosen[number]} says"]


async def test_a_version_is_asked_as_an_agent_of_its_own() -> None:
    """Its triggers, its cooldown; its model is the engine's."""
    old = Scripted("coach", lambda a, c: says(a, "old"), cooldown=10)
    new = Scripted("coach", trigger_types=[TriggerType.SILENCE])
    engine = engine_of(VersionedAgent([Version("old", old, 1), Version("new", new, 0)]), new_client=Client)
    for _ in range(2):
        await engine.process_turn(context_of())
    assert (old.runs, new.runs) == (1, 0)
    assert old.llm is new.llm is engine.llm_client


@pytest.mark.parametrize(
    ("versions", "words"),
    [
        ([Version("a", Scripted("x")), Version("b", Scripted("y"))], "one id"),
        ([Version("a", Scripted("x")), Version("a", Scripted("x"))], "one name"),
        ([Version("a", Scripted("x"), 0)], "shares"),
        ([Version("a", Scripted("x"), 2), Version("b", Scripted("x"), -1)], "shares"),
        ([], "one id"),
    ],
)
def test_versions_that_make_no_sense_are_refused(versions: list[Version], words: str) -> None:
    with pytest.raises(AgentConfigurationError, match=words):
        VersionedAgent(versions)


# --- approval ---------------------------------------------------------------------------------------------------------


class Person:
    """A host's port for approvals."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: list[HeldInsight] = []
        self._error = error

    def ask(self, held: HeldInsight) -> None:
        self.asked.append(held)
        if self._error:
            raise self._error


async def test_an_insight_is_held_until_a_person_agrees() -> None:
    person, heard = Person(), Heard()
    careful = Scripted("careful", lambda a, c: says(a, "risky", variable_updates={"x": 1}), needs_approval=True)
    engine = engine_of(careful, Scripted("other", lambda a, c: says(a)), approvals=person, callbacks=[heard])
    response = await engine.process_turn(context := context_of())
    assert [insight.content for insight in response.insights] == ["hello"]
    assert context.blackboard is not None
    assert context.blackboard.get_var("x") == 1
    (held,) = person.asked
    assert engine.held_insights("session") == [held]
    assert [args[0].content for args in heard.of("on_insight")] == ["hello"]
    shown = await engine.decide(held.held_id, agreed=True)
    assert shown is held.insight
    assert [args[0].content for args in heard.of("on_insight")] == ["hello", "risky"]
    assert await engine.decide(held.held_id, agreed=True) is None
    assert engine.held_insights("session") == []


async def test_a_refused_insight_is_shown_to_nobody() -> None:
    heard = Heard()
    engine = engine_of(Scripted("a", lambda a, c: says(a), needs_approval=True), callbacks=[heard])
    await engine.process_turn(context_of())
    assert await engine.decide(engine.held_insights("session")[0].held_id, agreed=False) is None
    assert heard.of("on_insight") == []


async def test_an_error_needs_no_approval_and_a_port_that_fails_holds_the_insight() -> None:
    def fails(agent: Any, context: Any) -> AgentResponse:
        raise ValueError("boom")

    engine = engine_of(
        Scripted("fails", fails, needs_approval=True),
        Scripted("says", lambda a, c: says(a), needs_approval=True),
        approvals=Person(ValueError("no")),
    )
    response = await engine.process_turn(context_of())
    assert [insight.type for insight in response.insights] == [InsightType.ERROR]
    assert len(engine.held_insights("session")) == 1
    engine.end_session("session")
    assert engine.held_insights("session") == []
