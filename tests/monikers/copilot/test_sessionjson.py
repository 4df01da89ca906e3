"""A session over a restart (docs/copilot.md, "A session over a restart"): what is kept, how small, and of what junk."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monikers.copilot import (
    AgentContext,
    AgentEngine,
    AgentInsight,
    AgentResponse,
    BaseAgent,
    Blackboard,
    HeldInsight,
    InsightType,
    RateLimit,
    load_set,
    load_transcript,
)
from monikers.copilot.costs import Usage
from monikers.copilot.sessionjson import held_of, session_json, take_up
from monikers.copilot.sessions import AgentSlot, Moment, Session
from tests.monikers.copilot.agents import Heard, Scripted, StillClock, context_of, emitting, engine_of, says
from tests.support import examples


class Rebooted(StillClock):
    """The clock of a process that began later: its seconds count from somewhere else, the time of day goes on."""

    def __init__(self, before: StillClock, seconds: float = 5.0) -> None:
        super().__init__()
        self.seconds = seconds
        self._began = before.now() - timedelta(seconds=seconds)

    def now(self) -> datetime:
        return self._began + timedelta(seconds=self.seconds)


def restarted(
    engine: AgentEngine, clock: StillClock, *agents: BaseAgent, **options: Any
) -> tuple[AgentEngine, Rebooted]:
    """Another engine in another process that goes on with the session."""
    boot = Rebooted(clock)
    another = engine_of(*agents, clock=boot, **options)
    another.import_session("session", through_json(engine.export_session("session")))
    return another, boot


def through_json(value: Any) -> Any:
    return json.loads(json.dumps(value, allow_nan=False))


def counting(agent: Any, context: AgentContext) -> AgentResponse:
    agent.private_state["n"] = agent.private_state.get("n", 0) + 1
    return AgentResponse(data={"n": agent.private_state["n"], "last": agent.last_run_time})


# --- what goes on ----------------------------------------------------------------------------------------------------


async def test_the_cooldown_goes_on_and_the_time_in_between_counts() -> None:
    clock = StillClock()
    engine = engine_of(Scripted("agent", counting, cooldown=100), clock=clock)
    began = clock.now().timestamp()
    await engine.process_turn(context_of())
    clock.move(60)
    agent = Scripted("agent", counting, cooldown=100)
    engine, clock = restarted(engine, clock, agent)
    clock.move(39)
    assert (await engine.process_turn(context_of())).data == {}
    clock.move(1)
    assert (await engine.process_turn(context_of())).data == {"n": 2, "last": began}
    assert agent.seen.turn_count == 3


async def test_starts_go_on_counting_for_a_rate_limit() -> None:
    def agent() -> Scripted:
        return Scripted("agent", rate_limit=RateLimit(2, per_s=60))

    clock = StillClock()
    engine = engine_of(agent(), clock=clock)
    for _ in range(2):
        await engine.process_turn(context_of())
        clock.move(10)
    again = agent()
    engine, clock = restarted(engine, clock, again)
    runs = []
    for seconds in (0, 39.9, 0.1, 9.9, 0.1):
        clock.move(seconds)
        await engine.process_turn(context_of())
        runs.append(again.runs)
    assert runs == [0, 0, 1, 1, 2]


async def test_what_was_said_lately_is_not_said_again() -> None:
    clock = StillClock()
    engine = engine_of(Scripted("a", lambda a, c: says(a, "Slow DOWN")), clock=clock, insight_window=30)
    await engine.process_turn(context_of())
    clock.move(20)
    engine, clock = restarted(engine, clock, Scripted("a", lambda a, c: says(a, "slow down")), insight_window=30)
    counts = []
    for seconds in (0, 9, 1):
        clock.move(seconds)
        counts.append(len((await engine.process_turn(context_of())).insights))
    assert counts == [0, 0, 1]


async def test_usage_adds_up() -> None:
    def agent() -> Scripted:
        return Scripted("agent", lambda a, c: AgentResponse(usage={"calls": 1, "cost": 0.25}))

    clock = StillClock()
    engine = engine_of(agent(), clock=clock)
    await engine.process_turn(context_of())
    engine, _ = restarted(engine, clock, agent())
    await engine.process_turn(context_of())
    assert engine.usage("session") == engine.usage("session", "agent") == {"calls": 2, "cost": 0.5}


async def test_held_insights_are_decided_about_after_the_restart_by_the_same_id() -> None:
    class Person:
        asked = 0

        def ask(self, held: HeldInsight) -> None:
            self.asked += 1

    clock, heard, person = StillClock(), Heard(), Person()
    engine = engine_of(Scripted("a", lambda a, c: says(a, "risky"), needs_approval=True), clock=clock)
    await engine.process_turn(context_of())
    (held,) = engine.held_insights("session")
    engine, _ = restarted(engine, clock, callbacks=[heard], approvals=person)
    assert engine.held_insights("session") == [held]
    assert person.asked == 0
    assert await engine.decide(held.held_id, agreed=True) == held.insight
    assert await engine.decide(held.held_id, agreed=True) is None
    assert [args[0].content for args in heard.of("on_insight")] == ["risky"]


async def test_seconds_since_the_session_began_go_on() -> None:
    """§11.0: the time of facts and events where the host has no transcript."""
    clock = StillClock()
    engine = engine_of(Scripted("a"), clock=clock)
    await engine.process_turn(context_of())
    clock.move(7)
    engine, clock = restarted(engine, clock, Scripted("a", emitting("e")))
    clock.move(3)
    response = await engine.process_turn(context_of())
    assert [event.timestamp for event in response.events] == [10.0]


async def test_a_whole_call_with_a_restart_before_every_turn_is_the_same_call() -> None:
    """Of the set and the recorded call that ship, on the offline model; the board is kept as its own JSON."""
    recorded = load_transcript("sales_call")

    async def played(*, restarting: bool) -> Any:
        clock, board, found = StillClock(), Blackboard(), []
        engine = engine_of(*load_set(recorded.agent_set).agents(), clock=clock, insight_window=120)
        for said in range(1, 31):
            if restarting:
                agents, board = (
                    load_set(recorded.agent_set).agents(),
                    Blackboard.from_dict(through_json(board.to_dict())),
                )
                engine, clock = restarted(engine, clock, *agents, insight_window=120)
            clock.move(4)
            context = context_of(board, recent_segments=list(recorded.segments[:said]))
            response = await engine.process_turn(context)
            found.append([insight.model_dump() for insight in response.insights])
        return found, board.to_dict(), engine.usage("session")

    always, restarting = await played(restarting=False), await played(restarting=True)
    assert any(always[0])
    assert restarting == always


async def test_importing_takes_the_place_of_what_was_known() -> None:
    clock = StillClock()
    engine = engine_of(Scripted("a", lambda a, c: says(a), needs_approval=True), clock=clock)
    await engine.process_turn(context_of())
    before = engine.export_session("session")
    clock.move(5)
    await engine.process_turn(context_of())
    engine.import_session("session", before)
    assert engine.export_session("session") == before


async def test_a_held_insight_of_another_session_is_not_taken_over() -> None:
    engine = engine_of(Scripted("a", lambda a, c: says(a), needs_approval=True))
    await engine.process_turn(context_of())
    (held,) = engine.held_insights("session")
    engine.import_session("thief", engine.export_session("session"))
    assert engine.held_insights("session") == [held]
    assert engine.held_insights("thief") == []


# --- how small -------------------------------------------------------------------------------------------------------


async def test_what_says_nothing_is_left_out() -> None:
    clock = StillClock()
    agents = [
        Scripted("quiet"),
        Scripted("limited", rate_limit=RateLimit(9, per_s=10)),
        Scripted("says", lambda a, c: says(a), needs_approval=True),
        Scripted("keeps", counting),
    ]
    engine = engine_of(*agents, Scripted("never asked", trigger_types=["silence"]), clock=clock, insight_window=30)
    wall = clock.now().timestamp()
    await engine.process_turn(context_of())
    (held,) = engine.held_insights("session")
    insight = {"agent_id": "says", "agent_name": "says", "type": "suggestion", "content": "hello"}
    assert engine.export_session("session") == {
        "began": wall,
        "turns": 1,
        "agents": {
            "quiet": {"started": wall},
            "limited": {"started": wall, "starts": [wall]},
            "says": {"started": wall, "said": {"hello": wall}},
            "keeps": {"started": wall, "private": {"n": 1}},
        },
        "held": [{"id": held.held_id, "insight": insight}],
    }
    clock.move(10)
    assert "starts" not in engine.export_session("session")["agents"]["limited"]
    assert "said" in engine.export_session("session")["agents"]["says"]
    clock.move(20)
    assert "said" not in engine.export_session("session")["agents"]["says"]
    assert engine.export_session("none") == {}


async def test_a_limit_that_makes_no_sense_keeps_no_session_from_being_kept() -> None:
    agent = Scripted("agent", rate_limit=RateLimit(2))
    engine = engine_of(agent)
    await engine.process_turn(context_of())
    kept = engine.export_session("session")
    agent.config.rate_limit = 5  # type: ignore[assignment]
    assert engine.export_session("session") == kept


async def test_an_agent_that_emptied_what_it_began_with_stays_without_it() -> None:
    def empties(agent: Any, context: AgentContext) -> AgentResponse:
        had = dict(agent.private_state)
        agent.private_state = {}
        return AgentResponse(data={"had": had})

    def agent() -> Scripted:
        made = Scripted("agent", empties)
        made.private_state = {"first": True}
        return made

    clock = StillClock()
    engine = engine_of(agent(), clock=clock)
    assert (await engine.process_turn(context_of())).data == {"had": {"first": True}}
    assert engine.export_session("session")["agents"]["agent"]["private"] == {}
    engine, _ = restarted(engine, clock, agent())
    assert (await engine.process_turn(context_of())).data == {"had": {}}


async def test_the_export_shares_nothing_with_the_session_and_is_json_whatever_an_agent_keeps() -> None:
    def keeps(agent: Any, context: AgentContext) -> AgentResponse:
        agent.private_state = {"list": [1], "thing": object(), "set": {2, 1}, 3: float("nan"), "half": "\ud800"}
        insight = agent.create_insight("hello")
        insight.metadata = {"thing": object(), "zone": "A"}
        return AgentResponse(insights=[insight])

    engine = engine_of(Scripted("agent", keeps, needs_approval=True))
    await engine.process_turn(context_of())
    kept = through_json(engine.export_session("session"))
    assert kept["agents"]["agent"]["private"] == {"list": [1], "set": [1, 2], "half": "?"}
    assert kept["held"][0]["insight"]["metadata"] == {"zone": "A"}
    engine.export_session("session")["agents"]["agent"]["private"]["list"].append(2)
    assert engine.export_session("session") == kept


# --- laws ------------------------------------------------------------------------------------------------------------

WORDS = st.text(max_size=6)
TIMES = st.floats(0, 5_000, allow_nan=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)
#: exact in milliseconds and in binary, so that sums of them are exact
EIGHTHS = st.integers(0, 40_000).map(lambda eighths: eighths / 8)


def slots(times: st.SearchStrategy[float]) -> st.SearchStrategy[dict[str, AgentSlot]]:
    """What a session keeps for its agents."""
    return st.dictionaries(
        WORDS,
        st.builds(
            AgentSlot,
            started=times | st.just(float("-inf")),
            private_state=st.none() | st.dictionaries(WORDS, JSON, max_size=3),
            starts=st.lists(times, max_size=3).map(sorted),
            said=st.none() | st.dictionaries(WORDS, times, max_size=3),
            usage=st.none() | st.dictionaries(WORDS, st.integers(-9, 9) | st.floats(-9, 9), max_size=2).map(Usage),
        ),
        max_size=3,
    )


INSIGHTS = st.builds(
    AgentInsight,
    agent_id=st.just("a"),
    agent_name=st.just("A"),
    type=st.sampled_from(InsightType),
    content=st.text(st.characters(codec="utf-8"), min_size=2, max_size=6),
    confidence=st.floats(0, 1),
    expiry=st.integers(0, 99),
    action_label=st.none() | st.just("Do it"),
    metadata=st.dictionaries(st.sampled_from("abc"), JSON, max_size=2),
)
HELD = st.lists(st.tuples(st.sampled_from("ijk"), INSIGHTS), max_size=3, unique_by=lambda one: one[0])
THEN = Moment(monotonic=5_000.0, wall=1_769_511_600.25)


def kept_of(
    session: Session, held: list[HeldInsight], moment: Moment, limits: dict[str, RateLimit] | None = None
) -> dict[str, Any]:
    return session_json(session, held, moment, window_s=3_000.0, limits=limits or {})


@given(st.integers(0, 99), TIMES, slots(TIMES), HELD, st.floats(0, 1e6))
@examples(300)
def test_taking_up_what_was_kept_is_the_identity(
    turns: int, began: float, agents: dict[str, AgentSlot], waiting: list[tuple[str, AgentInsight]], boot: float
) -> None:
    """Whatever the seconds of the new process count from."""
    session = Session("s", began, turns, agents=agents)
    kept = through_json(kept_of(session, [HeldInsight(name, "s", one) for name, one in waiting], THEN))
    again, now = Session("s", 0.0), Moment(boot, THEN.wall)
    take_up(again, kept, now)
    held = list(held_of(kept, "s"))
    assert kept_of(again, held, now) == kept
    assert kept_of(session, held, THEN) == kept


@given(TIMES, slots(TIMES), st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e5)), max_size=4))
@examples(150)
def test_times_do_not_drift_however_often_the_process_ends(
    began: float, agents: dict[str, AgentSlot], lives: list[tuple[float, float]]
) -> None:
    def kept_for_ever(session: Session, moment: Moment) -> Any:
        return through_json(session_json(session, [], moment, window_s=float("inf"), limits={}))

    kept, wall = kept_for_ever(Session("s", began, agents=agents), THEN), THEN.wall
    again = kept
    for boot, seconds in lives:
        session = Session("s", 0.0)
        take_up(session, again, Moment(boot, wall))
        wall += seconds
        again = kept_for_ever(session, Moment(boot + seconds, wall))
    assert again == kept


@given(EIGHTHS, slots(EIGHTHS), st.integers(0, 99), st.integers(0, 5_000))
@examples(200)
def test_time_goes_on_as_if_the_process_had_never_ended(
    began: float, agents: dict[str, AgentSlot], boot: int, later: int
) -> None:
    session, again = Session("s", began, agents=agents), Session("s", 0.0)
    take_up(again, through_json(kept_of(session, [], THEN)), Moment(boot, THEN.wall))
    limits = dict.fromkeys(agents, RateLimit(1, per_s=2_000))
    after, rebooted = (Moment(start + later, THEN.wall + later) for start in (THEN.monotonic, boot))
    assert kept_of(again, [], rebooted, limits) == kept_of(session, [], after, limits)


FIELDS = ["began", "turns", "agents", "held", "started", "starts", "said", "usage", "private", "id", "insight", "a"]
JUNK = st.recursive(
    JSON | st.just(THEN.wall) | st.integers(-(10**400), 10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=6),
    max_leaves=20,
)


@given(JUNK)
@examples(400)
def test_whatever_is_read_it_does_not_raise_and_what_it_left_can_be_kept(data: Any) -> None:
    engine = engine_of(insight_window=30)
    engine.import_session("session", data)
    kept = through_json(engine.export_session("session"))
    another = engine_of(insight_window=30)
    another.import_session("session", kept)
    assert another.export_session("session") == kept


@pytest.mark.parametrize("data", [None, 5, "x", [], {}, b"x", [{"turns": 1}]])
def test_of_nothing_nothing_is_taken_up(data: Any) -> None:
    engine = engine_of()
    engine.import_session("session", data)
    assert (engine.session_count, engine.export_session("session")) == (0, {})


INSIGHT = {"agent_id": "a", "agent_name": "A", "type": "fact", "content": "yes"}
SLOT = {"started": THEN.wall, "starts": [THEN.wall], "said": {"x": THEN.wall}, "usage": {"n": 1}, "private": {"p": 1}}
WHOLE = {
    "began": THEN.wall,
    "turns": 3,
    "agents": {"a": SLOT, "b": SLOT},
    "held": [{"id": "i", "insight": INSIGHT}],
}
BAD_TIMES: list[Any] = [-1, 0, 10**400, 1e300, float("inf"), float("nan"), "12", None, True, [THEN.wall]]
MALFORMED: dict[str, list[Any]] = {
    "began": BAD_TIMES,
    "turns": ["3", 3.0, None, True, [3], 2**5_000],
    "agents": [None, [], "a", 5],
    "agents a": [None, [], "a", 5],
    "agents a started": BAD_TIMES,
    "agents a starts": [None, "1", 1, {}, *([bad] for bad in BAD_TIMES)],
    "agents a said": [None, [], "x"],
    "agents a said x": BAD_TIMES,
    "agents a usage": [None, [], 5],
    "agents a usage n": ["1", None, True, 1e300, 10**400, float("nan"), [1]],
    "agents a private": [None, [], "x", 5],
    "held": [None, {}, "x", 5, [None], [{}], ["x"], [{"id": "i"}], [{"id": 5, "insight": INSIGHT}]],
}
BAD_INSIGHTS: list[Any] = [None, [], {}, "x", *({**INSIGHT, "content": bad} for bad in (None, "", "x", 5))]


@pytest.mark.parametrize(
    ("path", "bad"),
    [(path, bad) for path, values in MALFORMED.items() for bad in values]
    + [("held", [{"id": "i", "insight": bad}]) for bad in BAD_INSIGHTS],
    ids=lambda one: str(one)[:40],
)
def test_a_malformed_value_costs_that_value(path: str, bad: Any) -> None:
    """As if it had been left out."""

    def taken(data: Any) -> Any:
        session = Session("s", 0.0)
        take_up(session, data, THEN)
        return kept_of(session, list(held_of(data, "s")), THEN)

    data: Any = json.loads(json.dumps(WHOLE))
    *above, name = path.split()
    within = data
    for step in above:
        within = within[step]
    within[name] = bad
    found = taken(data)
    del within[name]
    assert taken(data) == found
    assert taken(WHOLE) == WHOLE
    assert found != WHOLE or path == "began"


def test_a_time_that_has_not_come_yet_counts_as_now() -> None:
    """A clock that was set back must not lock an agent for ever."""
    later = THEN.wall + 9_999
    slot = {"started": later, "starts": [later], "said": {"x": later}}
    session = Session("s", 0.0)
    take_up(session, {"began": later, "agents": {"a": slot}}, THEN)
    now = THEN.wall
    assert kept_of(session, [], THEN) == {
        "began": now,
        "agents": {"a": {"started": now, "starts": [now], "said": {"x": now}}},
    }


def test_what_is_taken_up_is_nobody_elses() -> None:
    engine, data = engine_of(), json.loads(json.dumps(WHOLE))
    data["held"][0]["insight"]["metadata"] = {"list": [1]}
    engine.import_session("s", data)
    kept = engine.export_session("s")
    data["agents"]["a"]["private"]["p"] = data["held"][0]["insight"]["metadata"]["list"] = 2
    assert engine.export_session("s") == kept
