"""The order of a merge, and what a malformed response costs (spec 2 §6.5, §8.3, §8.5, §13.3.2)."""

from __future__ import annotations

import asyncio
import copy
import json
import random
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from monikers.copilot import AgentInsight, AgentResponse, Blackboard, Event, Fact
from monikers.copilot.findings import Findings
from monikers.copilot.merging import merge
from tests.monikers.copilot.agents import Scripted, answering, context_of, engine_of, listener, says
from tests.support import examples


async def merged(*agents: Scripted, board: Blackboard | None = None) -> tuple[Blackboard, AgentResponse]:
    """The board and the response after one turn."""
    board = board or Blackboard()
    return board, await engine_of(*agents).process_turn(context_of(board))


async def test_the_example_of_the_spec() -> None:
    """§6.5.5; the agent of higher priority is registered first and still writes last."""
    a = answering(variable_updates={"phase": "closing"}, queue_pushes={"items": ["A1"]})
    b = answering(variable_updates={"phase": "negotiation"}, queue_pushes={"items": ["B1", "B2"]})
    board, response = await merged(Scripted("b", b, priority=10), Scripted("a", a, priority=5))
    assert board.get_var("phase") == "negotiation"
    assert board.queues["items"] == ["A1", "B1", "B2"]
    assert response.variable_updates == {"phase": "negotiation"}
    assert response.queue_pushes == {"items": ["A1", "B1", "B2"]}


@given(st.lists(st.integers(-2, 2), min_size=1, max_size=8), st.randoms(use_true_random=False))
@examples(100)
def test_ascending_priority_then_registration_whoever_finishes_first(
    priorities: list[int], chance: random.Random
) -> None:
    """§6.5.1, §6.5.3"""

    async def turn() -> tuple[Blackboard, AgentResponse]:
        gates = [asyncio.Event() for _ in priorities]

        async def answer(agent: Any, context: Any) -> AgentResponse:
            number = int(agent.config.id)
            await gates[number].wait()
            return says(
                agent,
                f"from {number}",
                variable_updates={"last": number, f"own{number}": number},
                queue_pushes={"q": [number]},
                events=[Event(name=f"e{number}")],
            )

        agents = [Scripted(str(number), answer, priority=priority) for number, priority in enumerate(priorities)]
        board = Blackboard()
        running = asyncio.create_task(engine_of(*agents).process_turn(context_of(board)))
        for number in chance.sample(range(len(gates)), len(gates)):
            await asyncio.sleep(0)
            gates[number].set()
            await asyncio.sleep(0)
        return board, await running

    board, response = asyncio.run(turn())
    order = sorted(range(len(priorities)), key=lambda number: (priorities[number], number))
    assert board.queues["q"] == order
    assert board.get_var("last") == order[-1]
    assert [insight.content for insight in response.insights] == [f"from {number}" for number in order]
    assert [event.name for event in response.events] == [f"e{number}" for number in order]
    assert next(iter(response.variable_updates)) == "last"


FACTS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0.1, 0.5, 0.9])), min_size=1, max_size=5)


@given(FACTS, st.sampled_from([None, "k"]), st.randoms(use_true_random=False))
@examples(100)
def test_6_5_4_among_facts_of_a_phase_priority_decides_then_confidence_then_registration(
    found: list[tuple[int, float]], key: str | None, chance: random.Random
) -> None:
    async def turn() -> tuple[Blackboard, AgentResponse]:
        gates = [asyncio.Event() for _ in found]

        async def answer(agent: Any, context: Any) -> AgentResponse:
            number = int(agent.config.id)
            await gates[number].wait()
            return AgentResponse(facts=[Fact(type="t", key=key, value=number, confidence=found[number][1])])

        agents = [Scripted(str(number), answer, priority=weight) for number, (weight, _) in enumerate(found)]
        board = Blackboard()
        running = asyncio.create_task(engine_of(*agents).process_turn(context_of(board)))
        for number in chance.sample(range(len(gates)), len(gates)):
            await asyncio.sleep(0)
            gates[number].set()
        return board, await running

    board, response = asyncio.run(turn())
    best = max(range(len(found)), key=lambda number: (*found[number], number))
    assert [fact.value for fact in board.facts] == [best]
    assert len(response.facts) == len(found)


@pytest.mark.parametrize(("first", "second", "stands"), [(0.9, 0.5, 1), (0.5, 0.9, 2), (0.5, 0.5, 2)])
async def test_6_5_4_of_two_facts_in_one_answer_the_more_certain_one_stands(
    first: float, second: float, stands: int
) -> None:
    """In a later turn the same agent may correct itself, however certain it is then."""
    both = [Fact(type="t", value=1, confidence=first), Fact(type="t", value=2, confidence=second)]
    board, _ = await merged(agent := Scripted("agent", answering(facts=both)))
    assert [fact.value for fact in board.facts] == [stands]
    agent._answer = answering(facts=[Fact(type="t", value=3, confidence=0.1)])
    await merged(agent, board=board)
    assert [fact.value for fact in board.facts] == [3]


async def test_6_5_3_all_events_of_one_name_are_kept_in_the_order_of_the_merge() -> None:
    agents = [
        Scripted(name, answering(events=[Event(name="e", payload={"from": name}, id=name)]), priority=priority)
        for name, priority in (("b", 10), ("a", 5))
    ]
    woken = listener("woken", "e")
    response = await engine_of(*agents, woken).process_turn(context_of(Blackboard()))
    assert [(event.payload["from"], event.id) for event in response.events] == [("a", "a"), ("b", "b")]
    assert woken.seen.blackboard is not None
    assert [event.id for event in woken.seen.blackboard.get_events_by_name("e")] == ["a", "b"]


async def test_an_agent_updates_its_own_memory() -> None:
    board, response = await merged(
        Scripted("a", answering(memory_updates={"x": 1})), Scripted("b", answering(memory_updates={"x": 2}))
    )
    assert board.memory == {"a": {"x": 1}, "b": {"x": 2}}
    assert response.memory_updates_by_agent == {"a": {"x": 1}, "b": {"x": 2}}


async def test_facts_and_events_are_stamped() -> None:
    said = answering(facts=[Fact(type="t", value=1)], events=[Event(name="e")])
    board = Blackboard()
    engine = engine_of(Scripted("agent", said, priority=7))
    context = context_of(board, recent_segments=[{"speaker": "A", "text": "hi", "timestamp": 45.2}])
    response = await engine.process_turn(context)
    assert board.facts == [Fact(type="t", value=1, priority=7, source_agent="agent", timestamp=45.2)]
    assert response.events == [Event(name="e", source_agent="agent", timestamp=45.2)]


async def test_what_an_agent_stamped_itself_stays_but_for_the_priority() -> None:
    said = answering(
        facts=[Fact(type="t", value=1, source_agent="x", timestamp=3.0, priority=99)],
        events=[Event(name="e", source_agent="y", timestamp=4.0)],
    )
    board, response = await merged(Scripted("agent", said, priority=7))
    assert board.facts == [Fact(type="t", value=1, priority=7, source_agent="x", timestamp=3.0)]
    assert (response.events[0].source_agent, response.events[0].timestamp) == ("y", 4.0)


@pytest.mark.parametrize(("confidence", "mended"), [(1.5, 1.0), (-1, 0.0), (float("nan"), 0.0), (0.3, 0.3)])
async def test_a_confidence_is_mended(confidence: float, mended: float) -> None:
    board, _ = await merged(Scripted("agent", answering(facts=[Fact(type="t", confidence=confidence)])))
    assert board.facts[0].confidence == mended


def cyclic() -> dict[str, Any]:
    loop: dict[str, Any] = {}
    loop["loop"] = loop
    return loop


MALFORMED: list[tuple[str, Any]] = [
    ("insights", "text"),
    ("insights", None),
    ("insights", [None, {"content": "no"}]),
    ("events", 5),
    ("events", [None, {"payload": {}}]),
    ("events", [{"name": "e", "payload": "no"}]),
    ("facts", [{"value": 1}, "no"]),
    ("facts", "no"),
    ("queue_pushes", ["no"]),
    ("variable_updates", "no"),
    ("variable_updates", {1: "no", "loop": cyclic()}),
    ("state_updates", ["no"]),
    ("memory_updates", 5),
    ("memory_updates", {"loop": cyclic()}),
    ("data", []),
    ("debug_info", "no"),
    ("usage", "no"),
    ("usage", {"calls": "no", "tokens": float("inf")}),
]


@pytest.mark.parametrize(("name", "value"), MALFORMED)
async def test_a_malformed_field_costs_that_field(name: str, value: Any, caplog: pytest.LogCaptureFixture) -> None:
    """§8.5, §10.3"""

    def answer(agent: Any, context: Any) -> AgentResponse:
        good: dict[str, Any] = {
            "insights": [agent.create_insight("hello")],
            "events": [Event(name="good")],
            "variable_updates": {"good": 1},
            "queue_pushes": {"good": [1]},
            "facts": [Fact(type="good")],
            "memory_updates": {"good": 1},
        }
        return AgentResponse.model_construct(**{**AgentResponse().__dict__, **good, name: value})

    other = Scripted("other", answering(variable_updates={"other": 1}))
    board, response = await merged(Scripted("agent", answer), other)
    assert board.get_var("other") == 1
    kept = {
        "insights": [insight.content for insight in response.insights],
        "events": [event.name for event in response.events],
        "variable_updates": response.variable_updates.get("good"),
        "queue_pushes": board.queues.get("good"),
        "facts": [fact.type for fact in board.facts],
        "memory_updates": board.get_memory("agent").get("good"),
    }
    whole: dict[str, Any] = {
        "insights": ["hello"],
        "events": ["good"],
        "variable_updates": 1,
        "queue_pushes": [1],
        "facts": ["good"],
        "memory_updates": 1,
    }
    lost: dict[str, Any] = {"insights": [], "events": [], "facts": []}
    assert kept == {**whole, **({name: lost.get(name)} if name in whole else {})}


def beside(good: type[BaseModel], **fields: Any) -> Any:
    """A record that was made past its checks."""
    return good.model_construct(**fields)


#: of an insight that is whole otherwise: what a field was set to, and what stands there
SET: list[tuple[str, Any, Any]] = [
    ("type", None, "suggestion"),
    ("type", "odd", "suggestion"),
    ("type", "WARNING ", "warning"),
    ("type", "error", "error"),
    ("confidence", 1.5, 1.0),
    ("confidence", "high", 1.0),
    ("confidence", float("nan"), 1.0),
    ("expiry", "soon", 15),
    ("action_label", 5, None),
    ("metadata", None, {}),
    ("metadata", [1], {}),
    ("agent_id", None, "agent"),
    ("agent_name", 5, "agent"),
]


@pytest.mark.parametrize(("name", "value", "mended"), SET)
async def test_10_3_a_malformed_field_of_an_insight_costs_that_field_and_not_the_insight(
    name: str, value: Any, mended: Any
) -> None:
    def answer(agent: Any, context: Any) -> AgentResponse:
        insight = agent.create_insight("good advice", confidence=0.5, expiry=30)
        setattr(insight, name, value)
        return AgentResponse(insights=[insight])

    _, response = await merged(Scripted("agent", answer))
    (insight,) = response.insights
    whole = {"agent_id": "agent", "agent_name": "agent", "type": "suggestion", "content": "good advice"}
    expected = {**whole, "confidence": 0.5, "expiry": 30, "action_label": None, "metadata": {}, name: mended}
    assert insight.model_dump() == expected


@pytest.mark.parametrize("content", [None, "", "x", 5, {}])
async def test_10_3_an_insight_without_words_is_dropped_and_no_other(content: Any) -> None:
    def answer(agent: Any, context: Any) -> AgentResponse:
        silent = agent.create_insight("silent")
        silent.content = content
        return AgentResponse(insights=[silent, agent.create_insight("heard"), beside(AgentInsight)])

    agent = Scripted("agent", answer)
    response = await engine_of(agent, insight_window=5).process_turn(context_of())
    assert [insight.content for insight in response.insights] == ["heard"]


class Advice(AgentInsight):
    """An insight of a host's own."""

    source: str = ""


async def test_what_a_host_adds_to_an_insight_an_event_or_a_fact_stays() -> None:
    class Told(Event):
        urgent: bool = False

    def answer(agent: Any, context: Any) -> AgentResponse:
        fields = agent.create_insight("good advice").model_dump()
        return AgentResponse(insights=[Advice(**fields, source="book")], events=[Told(name="e", urgent=True)])

    _, response = await merged(Scripted("agent", answer))
    assert isinstance(response.insights[0], Advice)
    assert response.insights[0].source == "book"
    assert isinstance(response.events[0], Told)
    assert response.events[0].urgent


BESIDE: list[tuple[str, Any]] = [
    ("facts", beside(Fact)),
    ("facts", beside(Fact, type="t", confidence="x")),
    ("facts", beside(Fact, type=[1])),
    ("facts", beside(Fact, type="t", key=[1])),
    ("events", beside(Event)),
    ("events", beside(Event, name=[1])),
    ("events", beside(Event, name="e", payload=None)),
]


@pytest.mark.parametrize(("name", "record"), BESIDE)
async def test_8_5_a_record_made_past_its_checks_costs_itself(name: str, record: Any) -> None:
    def answer(agent: Any, context: Any) -> AgentResponse:
        good = {"facts": Fact(type="good"), "events": Event(name="good")}[name]
        return AgentResponse.model_construct(**{**AgentResponse().__dict__, name: [record, good]})

    board, response = await merged(Scripted("agent", answer), Scripted("other", answering(variable_updates={"x": 1})))
    assert (len(getattr(response, name)), board.get_var("x")) == (1, 1)


@pytest.mark.parametrize("kind", [Fact, Event])
async def test_11_0_a_time_that_is_none_is_stamped(kind: Any) -> None:
    record = {Fact: Fact(type="t", timestamp=float("nan")), Event: Event(name="e", timestamp=float("inf"))}[kind]
    said = answering(facts=[record]) if kind is Fact else answering(events=[record])
    context = context_of(recent_segments=[{"speaker": "A", "text": "hi", "timestamp": 45.2}])
    response = await engine_of(Scripted("agent", said)).process_turn(context)
    stamped: list[Any] = [*response.facts, *response.events]
    assert [one.timestamp for one in stamped] == [45.2]


class Hostile(dict[str, Any]):
    """A dict whose own code fails."""

    def items(self) -> Any:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, Hostile(a=1)) for name in ("variable_updates", "state_updates", "queue_pushes", "memory_updates")),
        *((name, Hostile(a=1)) for name in ("data", "debug_info", "usage")),
        *((name, {"bad": Hostile(a=1), "good": 1}) for name in ("variable_updates", "memory_updates", "data")),
        ("usage", {"calls": 10**400, "good": 1}),
    ],
)
async def test_8_5_a_value_whose_own_code_fails_costs_its_field(name: str, value: Any) -> None:
    def answer(agent: Any, context: Any) -> AgentResponse:
        good = {**AgentResponse().__dict__, "insights": [agent.create_insight("hello")], "events": [Event(name="e")]}
        return AgentResponse.model_construct(**{**good, name: value})

    board, response = await merged(Scripted("agent", answer), Scripted("other", answering(variable_updates={"x": 1})))
    assert board.get_var("x") == 1
    assert ([insight.content for insight in response.insights], len(response.events)) == (["hello"], 1)
    if "good" in value:
        kept = {"variable_updates": board.variables, "memory_updates": board.get_memory("agent")}
        assert kept.get(name, getattr(response, name))["good"] == 1


async def test_8_5_a_value_that_cannot_be_asked_whether_it_is_empty_costs_nothing() -> None:
    class Unasked(dict[str, Any]):
        def __bool__(self) -> bool:
            raise RuntimeError("no")

    fields = {"variable_updates": Unasked(x=1), "data": {"d": 1}}
    said = AgentResponse.model_construct(**{**AgentResponse().__dict__, **fields})
    board, response = await merged(Scripted("agent", lambda agent, context: said))
    assert (board.get_var("x"), response.data) == (1, {"d": 1})


@pytest.mark.parametrize(
    "fields", [{"memory_updates": 5}, {"memory_updates": {}}, {"state_updates": {"memory_agent": {}}}]
)
async def test_updates_of_nothing_make_no_memory(fields: dict[str, Any]) -> None:
    """Memory that is there and empty is memory that a host has emptied."""
    said = AgentResponse.model_construct(**{**AgentResponse().__dict__, **fields})
    board, _ = await merged(Scripted("agent", lambda agent, context: said))
    assert board.memory == {}


async def test_8_5_a_response_without_its_fields_says_nothing() -> None:
    def answer(agent: Any, context: Any) -> AgentResponse:
        empty = AgentResponse()
        empty.__dict__.clear()
        return empty

    board, response = await merged(Scripted("agent", answer), Scripted("other", answering(variable_updates={"x": 1})))
    assert (board.get_var("x"), response.insights) == (1, [])


async def test_what_can_be_mended_is() -> None:
    def answer(agent: Any, context: Any) -> AgentResponse:
        return AgentResponse.model_construct(
            **{
                **AgentResponse().__dict__,
                "events": ["by_name", {"name": "as_dict"}],
                "facts": [{"type": "t", "value": 1}],
                "queue_pushes": {"q": "alone"},
            }
        )

    board, response = await merged(Scripted("agent", answer))
    assert [event.name for event in response.events] == ["by_name", "as_dict"]
    assert board.get_fact("t") is not None
    assert board.queues["q"] == ["alone"]


@pytest.mark.parametrize("answer", ["text", 5, {"insights": []}, ["no"]])
async def test_what_is_no_response_costs_the_agent_its_turn(answer: Any) -> None:
    async def gives(agent: Any, context: Any) -> Any:
        return answer

    board, response = await merged(Scripted("agent", gives), Scripted("other", answering(variable_updates={"x": 1})))
    assert board.get_var("x") == 1
    assert response.insights == []


async def test_a_value_that_cannot_be_copied_is_kept() -> None:
    """The existing implementation deep-copied the board and failed the turn."""
    lock = threading.Lock()
    board, _ = await merged(Scripted("agent", answering(variable_updates={"lock": lock})))
    assert board.get_var("lock") is lock
    board, _ = await merged(Scripted("agent", answering(variable_updates={"x": 1})), board=board)
    assert board.get_var("x") == 1


async def test_nobody_shares_a_value_with_the_board() -> None:
    kept: dict[str, Any] = {"list": [1], "dict": {"a": 1}}
    fact_value, payload = ["v"], {"p": [1]}

    def answer(agent: Any, context: Any) -> AgentResponse:
        return AgentResponse(
            variable_updates=kept,
            queue_pushes={"q": [kept["dict"]]},
            memory_updates=kept,
            facts=[Fact(type="t", value=fact_value)],
            events=[Event(name="e", payload=payload)],
            data=kept,
        )

    board, response = await merged(Scripted("agent", answer))
    before = board.to_dict()
    kept["list"].append(2)
    kept["dict"]["b"] = 2
    fact_value.append("w")
    payload["p"].append(2)
    assert response.variable_updates == {"list": [1], "dict": {"a": 1}}
    response.variable_updates["list"].append(3)
    response.queue_pushes["q"][0]["c"] = 3
    response.memory_updates["dict"]["c"] = 3
    response.data["list"].append(4)
    assert board.to_dict() == before


async def test_a_response_can_be_written_down_and_copied() -> None:
    answer = answering(events=[Event(name="e", payload={"p": [1]})], facts=[Fact(type="t", value={"v": [1]})])
    _, response = await merged(Scripted("agent", answer))
    again = AgentResponse.model_validate_json(response.model_dump_json())
    assert again == response == copy.deepcopy(response)
    assert again.events[0].payload == {"p": [1]}
    assert json.loads(json.dumps(response.model_dump()))["facts"][0]["value"] == {"v": [1]}


async def test_data_of_one_name_is_joined_if_it_is_a_list() -> None:
    _, response = await merged(
        Scripted("a", answering(data={"actions": [1], "x": 1})), Scripted("b", answering(data={"actions": [2], "x": 2}))
    )
    assert response.data == {"actions": [1, 2], "x": 2}


async def test_usage_is_summed_and_debug_info_is_kept_by_agent() -> None:
    told = answering(usage={"calls": 1, "tokens": 10, "model": "m"}, debug_info={"prompt": "p"})
    _, response = await merged(Scripted("a", told), Scripted("b", told))
    assert response.usage == {"calls": 2, "tokens": 20}
    assert response.debug_info == {"a": {"prompt": "p"}, "b": {"prompt": "p"}}


def test_a_merge_of_nothing_changes_nothing() -> None:
    board, total = Blackboard(), AgentResponse()
    merge([Findings("a", (0, 0))], board, total)
    assert (board, total) == (Blackboard(), AgentResponse())
