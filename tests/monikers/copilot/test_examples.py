"""The examples of the spec as they stand there (spec 2; those of §9.3 are in test_dynamic.py, of §11.2 in
test_tracing.py)."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from monikers.copilot import (
    AgentContext,
    AgentEngine,
    AgentInsight,
    AgentResponse,
    Blackboard,
    ConditionEvaluator,
    DynamicAgent,
    Event,
    Fact,
    InsightType,
    LLMResult,
    TranscriptSegment,
    TriggerType,
    output_schema,
)
from monikers.copilot.answers import read_answer
from tests.monikers.copilot.agents import (
    Scripted,
    answering,
    context_of,
    emitting,
    engine_of,
    listener,
    says,
)


class Model:
    """Answers with the same JSON always, and keeps the prompts."""

    def __init__(self, answer: Any) -> None:
        self.prompts: list[str] = []
        self._answer = answer

    async def generate(self, model: str, messages: list[dict[str, str]], **options: Any) -> LLMResult:
        self.prompts.append(messages[0]["content"])
        return LLMResult(self._answer)


def dynamic(config: dict[str, Any], answer: Any = None) -> tuple[DynamicAgent, Model]:
    """An agent of a configuration, with a model that answers so."""
    agent, model = DynamicAgent({"text": "Listen.", **config}), Model(answer or {})
    agent.llm = model
    return agent, model


def read(answer: Any, schema: Any = "default") -> AgentResponse:
    """An answer by an output format."""
    return read_answer(answer, output_schema(schema), agent_id="agent", agent_name="Agent").response


# --- §6.4, §13.3.3: templates ----------------------------------------------------------------------------------------

TEMPLATE_6_4 = """{# Variables #}
Current phase: {{ blackboard.variables.phase }}
Sentiment: {{ blackboard.variables.sentiment }}

{# Queues #}
Pending questions: {{ blackboard.queues.pending_questions | length }}
{% for q in blackboard.queues.pending_questions %}
- {{ q }}
{% endfor %}

{# Facts #}
{% for fact in blackboard.facts %}
- {{ fact.type }}: {{ fact.value }} (confidence: {{ fact.confidence }})
{% endfor %}

{# Memory (own) #}
My last action: {{ blackboard.memory[agent_id].last_action }}"""
TEMPLATE_V1 = """{# v1.0 style - still works #}
Current phase: {{ state.phase }}
My memory: {{ memory.last_action }}"""
TEMPLATE_V2 = """{# v2.0 style - preferred for new agents #}
Current phase: {{ blackboard.variables.phase }}
Pending questions: {{ blackboard.queues.pending_questions | length }}
Budget fact: {{ blackboard.facts | selectattr('type', 'eq', 'budget') | first }}"""


@pytest.mark.parametrize(
    ("template", "lines"),
    [
        (
            TEMPLATE_6_4,
            [
                *("Current phase: negotiation", "Sentiment: 0.7", "Pending questions: 2"),
                *("- What's the price?", "- When can you start?"),
                *("- budget: $50,000 (confidence: 0.9)", "- timeline: Q2 2026 (confidence: 0.85)"),
                "My last action: asked",
            ],
        ),
        (TEMPLATE_V1, ["Current phase: negotiation", "My memory: asked"]),
        (TEMPLATE_V2, ["Current phase: negotiation", "Pending questions: 2"]),
    ],
    ids=["6.4", "13.3.3 v1", "13.3.3 v2"],
)
async def test_6_4_13_3_3_templates(template: str, lines: list[str]) -> None:
    """On the board of §6.1."""
    agent, model = dynamic({"id": "question_extractor", "name": "A", "text": template})
    board = Blackboard(
        variables={"phase": "negotiation", "sentiment": 0.7},
        queues={"pending_questions": ["What's the price?", "When can you start?"]},
        facts=[
            Fact(type="budget", value="$50,000", confidence=0.9),
            Fact(type="timeline", value="Q2 2026", confidence=0.85),
        ],
        memory={"question_extractor": {"last_action": "asked"}},
    )
    await engine_of(agent).process_turn(context_of(board))
    said = [line.strip() for line in model.prompts[0].split("[YOUR MEMORY")[0].splitlines() if line.strip()]
    assert said[: len(lines)] == lines
    if template is TEMPLATE_V2:
        assert said[2].startswith('Budget fact: {"type": "budget"')


# --- §6.5, §8.3: merging ---------------------------------------------------------------------------------------------


async def test_8_3_the_higher_priority_wins() -> None:
    board = Blackboard()
    agents = [
        Scripted("b", answering(variable_updates={"risk_level": "b"}), priority=10),
        Scripted("a", answering(variable_updates={"risk_level": "a"}), priority=1),
    ]
    await engine_of(*agents).process_turn(context_of(board))
    assert board.get_var("risk_level") == "b"


async def test_6_5_7_the_canonical_queue_pattern() -> None:
    """The extractor pushes, the responder peeks, the host pops when it has shown the answer."""
    question = {"text": "...", "speaker": "CUSTOMER", "ts": 45.2, "priority": "normal"}
    push = emitting("question_detected", queue_pushes={"pending_questions": [question]})
    pending = {"rules": [{"queue": "pending_questions", "op": "not_empty"}]}

    def respond(agent: Any, context: AgentContext) -> AgentResponse:
        assert context.blackboard is not None
        return says(agent, f"about {context.blackboard.queues['pending_questions'][0]['ts']}")

    responder = listener("responder", "question_detected", trigger_conditions=pending, answer=respond)
    engine, board = engine_of(Scripted("extractor", push), responder), Blackboard()
    response = await engine.process_turn(context_of(board))
    assert [insight.content for insight in response.insights] == ["about 45.2"]
    assert board.queues["pending_questions"] == [question]
    assert board.pop_queue("pending_questions") == question
    assert board.queue_length("pending_questions") == 0


# --- §7.2: events ----------------------------------------------------------------------------------------------------


async def test_7_2_emitting_and_subscribing() -> None:
    payload = {"question": "What is your pricing?", "speaker": "CUSTOMER"}
    extractor, _ = dynamic(
        {"id": "extractor", "name": "E"},
        {"has_insight": False, "events": [{"name": "question_detected", "payload": payload}]},
    )
    responder, asked = dynamic(
        {
            "id": "question_responder",
            "trigger_config": {"mode": "event", "subscribed_events": ["question_detected"]},
            "text": "{{ blackboard.get_events_by_name('question_detected')[0].payload.question }}",
        },
        {"has_insight": True, "content": "Answer it."},
    )
    board = Blackboard()
    response = await engine_of(extractor, responder).process_turn(context_of(board))
    assert [insight.content for insight in response.insights] == ["Answer it."]
    assert asked.prompts[0].startswith("What is your pricing?")
    assert [(event.name, event.payload, event.source_agent) for event in response.events] == [
        ("question_detected", payload, "extractor")
    ]
    assert board.events == []


# --- §7.3, appendix C: conditions ------------------------------------------------------------------------------------

CONDITIONS_7_3 = json.loads("""{
  "trigger_conditions": {
    "mode": "all",
    "rules": [
      {"var": "phase", "op": "eq", "value": "negotiation"},
      {"var": "sentiment", "op": "gte", "value": 0.5},
      {"fact": "budget", "op": "exists"},
      {"queue": "pending_questions", "op": "not_empty"}
    ]
  }
}""")["trigger_conditions"]
FULFILLED: dict[str, Any] = {
    "phase": "negotiation",
    "sentiment": 0.5,
    "budget": 50_000,
    "pending_questions": ["What's the price?"],
}


@pytest.mark.parametrize(
    ("changed", "held"),
    [
        ({}, True),
        ({"phase": "closing"}, False),
        ({"sentiment": 0.4}, False),
        ({"budget": 0}, False),
        ({"budget": None}, False),
        ({"pending_questions": []}, False),
    ],
)
def test_7_3_the_condition_structure(changed: dict[str, Any], *, held: bool) -> None:
    known = {**FULFILLED, **changed}
    board = Blackboard(
        variables={"phase": known["phase"], "sentiment": known["sentiment"]},
        facts=[Fact(type="budget", value=known["budget"])] if known["budget"] is not None else [],
        queues={"pending_questions": known["pending_questions"]},
    )
    for one in (board, board.snapshot()):
        assert ConditionEvaluator().evaluate(CONDITIONS_7_3, one, {}, "agent") is held


APPENDIX_C = [
    ('{"var": "x", "op": "eq", "value": "y"}', "y", "z"),
    ('{"var": "x", "op": "neq", "value": "y"}', "z", "y"),
    ('{"var": "x", "op": "gt", "value": 5}', 6, 5),
    ('{"var": "x", "op": "gte", "value": 5}', 5, 4),
    ('{"var": "x", "op": "lt", "value": 5}', 4, 5),
    ('{"var": "x", "op": "lte", "value": 5}', 5, 6),
    ('{"var": "x", "op": "in", "value": ["a","b"]}', "a", "c"),
    ('{"var": "x", "op": "not_in", "value": ["a"]}', "b", "a"),
    ('{"var": "arr", "op": "contains", "value": "x"}', ["x"], ["y"]),
    ('{"var": "arr", "op": "contains", "value": "x"}', "axe", "ape"),
    ('{"var": "arr", "op": "contains", "value": "x"}', {"x": 0}, {"y": "x"}),
    ('{"var": "x", "op": "exists"}', 1, 0),
    ('{"var": "x", "op": "present"}', 0, ...),
    ('{"var": "x", "op": "not_exists"}', 0, 1),
    ('{"queue": "q", "op": "not_empty"}', [1], []),
    ('{"queue": "q", "op": "empty"}', [], [1]),
    ('{"meta": "turn", "op": "mod", "value": 5, "result": 0}', 10, 11),
]


@pytest.mark.parametrize(("syntax", "yes", "no"), APPENDIX_C)
def test_c_the_operators(syntax: str, yes: Any, no: Any) -> None:
    rule = json.loads(syntax)
    source = next(iter(rule))

    def holds(value: Any) -> bool:
        there = {} if value is ... else {rule[source]: value}
        board = Blackboard(variables=there if source == "var" else {}, queues=there if source == "queue" else {})
        return ConditionEvaluator().evaluate({"rules": [rule]}, board, there, "agent")

    assert (holds(yes), holds(no)) == (True, False)


# --- §10, appendix B, appendix D: answers ----------------------------------------------------------------------------

SCHEMA_10_2 = json.loads(r"""{
  "instruction": "Return JSON: {\"has_insight\": bool, \"content\": \"...\", \"type\": \"suggestion|warning|opportunity|fact|praise\", \"confidence\": 0.0-1.0, \"events\": [...], \"variable_updates\": {...}, \"queue_pushes\": {...}, \"memory_updates\": {...}}",
  "mapping": {
    "check_field": "has_insight",
    "content_field": "content",
    "type_field": "type",
    "confidence_field": "confidence",
    "events_field": "events",
    "state_field": "variable_updates",
    "queue_field": "queue_pushes",
    "memory_field": "memory_updates"
  }
}""")  # noqa: E501 - as it stands in the spec


@pytest.mark.parametrize("schema", [SCHEMA_10_2, "default"], ids=["10.2", "default"])
def test_10_2_the_default_schema(schema: Any) -> None:
    found = read(
        {
            "has_insight": True,
            "content": "Ask for the date.",
            "type": "opportunity",
            "confidence": 0.5,
            "events": [{"name": "e"}],
            "variable_updates": {"phase": "closing"},
            "queue_pushes": {"q": ["a", "b"]},
            "memory_updates": {"n": 1},
        },
        schema,
    )
    (insight,) = found.insights
    assert (insight.content, insight.type, insight.confidence) == ("Ask for the date.", "opportunity", 0.5)
    assert [event.name for event in found.events] == ["e"]
    assert (found.variable_updates, found.queue_pushes) == ({"phase": "closing"}, {"q": ["a", "b"]})
    assert found.memory_updates == {"n": 1}


async def test_10_2_a_schema_may_stand_in_the_configuration() -> None:
    agent, model = dynamic(
        {"id": "a", "name": "A", "output_format": SCHEMA_10_2}, {"has_insight": True, "content": "ok"}
    )
    response = await engine_of(agent).process_turn(context_of())
    assert [insight.content for insight in response.insights] == ["ok"]
    assert model.prompts[0].endswith(SCHEMA_10_2["instruction"])


APPENDIX_B: list[tuple[str, dict[str, Any]]] = [
    (
        """{"events": [
            {"name": "question_detected", "payload": {"question": "What is pricing?"}},
            {"name": "budget_mentioned", "payload": {"amount": 50000}}]}""",
        {
            "events": [
                Event(name="question_detected", payload={"question": "What is pricing?"}, source_agent="agent"),
                Event(name="budget_mentioned", payload={"amount": 50000}, source_agent="agent"),
            ]
        },
    ),
    (
        '{"variable_updates": {"phase": "closing", "sentiment": 0.8}}',
        {"variable_updates": {"phase": "closing", "sentiment": 0.8}},
    ),
    (
        '{"queue_pushes": {"pending_questions": ["What is the price?"]}}',
        {"queue_pushes": {"pending_questions": ["What is the price?"]}},
    ),
    (
        """{"facts": [
            {"type": "budget", "key": "primary", "value": 50000, "confidence": 0.9},
            {"type": "stakeholder", "key": "cfo", "value": "Sarah Chen", "confidence": 0.95}]}""",
        {
            "facts": [
                Fact(type="budget", key="primary", value=50000, confidence=0.9, source_agent="agent"),
                Fact(type="stakeholder", key="cfo", value="Sarah Chen", confidence=0.95, source_agent="agent"),
            ]
        },
    ),
    (
        '{"memory_updates": {"last_insight": "...", "counter": 5}}',
        {"memory_updates": {"last_insight": "...", "counter": 5}},
    ),
]


@pytest.mark.parametrize("schema", ["default", "v2_events", "v2_raw"])
@pytest.mark.parametrize(("answer", "expected"), APPENDIX_B, ids=[next(iter(row[1])) for row in APPENDIX_B])
def test_b_the_quick_reference(answer: str, expected: dict[str, Any], schema: str) -> None:
    found = read(json.loads(answer), schema)
    assert found == AgentResponse(source_agent_id="agent", **expected)


def test_b_subscription_and_condition() -> None:
    event = {"trigger_config": {"mode": "event", "subscribed_events": ["question_detected"]}}
    phase = {"trigger_conditions": {"mode": "all", "rules": [{"var": "phase", "op": "eq", "value": "negotiation"}]}}
    config = DynamicAgent({"name": "A", "text": "x", **event, **phase}).config
    assert (config.trigger_types, config.subscribed_events) == ([TriggerType.EVENT], ["question_detected"])
    assert config.trigger_conditions == phase["trigger_conditions"]


APPENDIX_D_4 = json.loads("""[
{"type": "warning", "content": "Customer raised a price objection. Focus on value, not cost.", "confidence": 0.92,
 "metadata": {"category": "objection", "subcategory": "price", "severity": "high",
  "suggested_response": "I understand budget is important. Let me show you the ROI our customers typically see...",
  "zone": "A", "color": "orange"}},
{"type": "opportunity", "content": "Buying signal detected! Customer asked about implementation timeline.",
 "confidence": 0.88,
 "metadata": {"category": "buying_signal", "subcategory": "timeline_inquiry", "severity": "high",
  "suggested_response": "Great question! We can typically have you up and running in 2-3 weeks.",
  "zone": "A", "color": "green"}},
{"type": "warning", "content": "Customer frustration increasing. Consider empathy statement.", "confidence": 0.85,
 "metadata": {"category": "escalation_risk", "sentiment_score": -0.7, "suggested_response":
   "I completely understand how frustrating this must be. Let me personally make sure we resolve this for you.",
  "escalation_threshold": 0.8}},
{"type": "suggestion", "content": "Good answer, but consider adding a specific metric or outcome.", "confidence": 0.78,
 "metadata": {"category": "answer_improvement", "framework": "STAR", "missing_element": "Result with metrics",
  "example": "...which resulted in a 25% increase in customer retention."}}]""")


@pytest.mark.parametrize("said", APPENDIX_D_4, ids=[one["metadata"]["category"] for one in APPENDIX_D_4])
@pytest.mark.parametrize("schema", ["default", "v2_raw"])
def test_d_4_examples_by_domain(said: dict[str, Any], schema: str) -> None:
    answer = {"insight": said} if schema == "v2_raw" else {"has_insight": True, **said}
    (insight,) = read(answer, schema).insights
    assert {name: getattr(insight, name) for name in said} == said
    card = SimpleNamespace(color=insight.metadata.get("color"), zone=insight.metadata.get("zone"))  # D.5
    assert (card.color, card.zone) == (said["metadata"].get("color"), said["metadata"].get("zone"))


@pytest.mark.parametrize(
    ("schema", "answer", "metadata"),
    [
        (
            {
                "instruction": "Return JSON with insight details...",
                "mapping": {"content_field": "message", "type_field": "type", "metadata_field": "metadata"},
            },
            {"message": "Hello", "type": "praise", "metadata": {"category": "c"}},
            {"category": "c"},
        ),
        (
            {
                "mapping": {
                    "content_field": "message",
                    "type_field": "type",
                    "metadata_fields": {"category": "category", "severity": "severity", "suggested_response": "script"},
                }
            },
            {"message": "Hello", "type": "praise", "category": "c", "severity": "high", "script": "Say hi."},
            {"category": "c", "severity": "high", "suggested_response": "Say hi."},
        ),
    ],
    ids=["metadata_field", "metadata_fields"],
)
def test_d_6_schema_support(schema: dict[str, Any], answer: dict[str, Any], metadata: dict[str, Any]) -> None:
    (insight,) = read(answer, schema).insights
    assert (insight.content, insight.type, insight.metadata) == ("Hello", InsightType.PRAISE, metadata)


# --- §12.2, overview §9: a host --------------------------------------------------------------------------------------


class Host:
    """The host of §12.2, with a user interface that keeps what it is sent."""

    def __init__(self, configs: list[dict[str, Any]], answer: dict[str, Any]) -> None:
        self.engine = AgentEngine(api_key="sk-...")
        for config in configs:
            agent, _ = dynamic(config, answer)
            self.engine.register_agent(agent)
        self.session: dict[str, Any] = {
            "id": "session_123",
            "blackboard": Blackboard(),
            "turn_count": 0,
            "segments": [],
        }
        self.shown: list[tuple[str, bool]] = []

    def send_to_ui(self, insight: AgentInsight, *, urgent: bool = False) -> None:
        self.shown.append((insight.agent_id, urgent))

    async def on_transcript_segment(self, segment: dict[str, Any]) -> None:
        self.session["segments"].append(TranscriptSegment(**segment))
        self.session["turn_count"] += 1
        context = AgentContext(
            session_id=self.session["id"],
            recent_segments=self.session["segments"][-100:],
            blackboard=self.session["blackboard"],
            turn_count=self.session["turn_count"],
            user_context="Sales Director at Acme Corp",
            language_directive="Provide coaching in English",
        )
        response = await self.engine.process_turn(context, trigger_type=TriggerType.TURN_BASED)
        for insight in response.insights:
            self.send_to_ui(insight)

    async def on_silence(self, duration_seconds: float) -> None:
        context = AgentContext(
            session_id=self.session["id"],
            recent_segments=self.session["segments"][-100:],
            blackboard=self.session["blackboard"],
            trigger_metadata={"silence_duration": duration_seconds},
        )
        response = await self.engine.process_turn(context, trigger_type=TriggerType.SILENCE)
        for insight in response.insights:
            self.send_to_ui(insight)

    async def on_keyword_detected(self, keyword: str, segment: dict[str, Any]) -> None:
        context = AgentContext(
            session_id=self.session["id"],
            recent_segments=self.session["segments"][-100:],
            blackboard=self.session["blackboard"],
            trigger_metadata={"keyword": keyword},
        )
        matches = self.engine.check_keyword_triggers(segment["text"])
        allowed_ids = [agent.config.id for agent, _ in matches]
        response = await self.engine.process_turn(
            context, allowed_agent_ids=allowed_ids, trigger_type=TriggerType.KEYWORD
        )
        for insight in response.insights:
            self.send_to_ui(insight, urgent=True)


async def test_12_2_the_integration() -> None:
    configs = [
        {"id": "turn", "name": "T", "trigger_config": {"cooldown": 0}},
        {"id": "silence", "name": "S", "trigger_config": {"mode": "silence", "silence_threshold": 5, "cooldown": 0}},
        {"id": "price", "name": "P", "trigger_config": {"mode": "keyword", "keywords": ["price"], "cooldown": 0}},
        {"id": "date", "name": "D", "trigger_config": {"mode": "keyword", "keywords": ["date"], "cooldown": 0}},
    ]
    host = Host(configs, {"has_insight": True, "content": "Advice."})
    said = {"speaker": "CUSTOMER", "text": "What is the price?", "timestamp": 3.0}
    await host.on_transcript_segment(said)
    board: Blackboard = host.session["blackboard"]
    assert (board.get_var("sys.turn_count"), board.get_var("sys.session_id")) == (1, "session_123")
    await host.on_keyword_detected("price", said)
    await host.on_silence(4)
    await host.on_silence(5)
    await host.on_keyword_detected("none", {**said, "text": "Nothing here."})
    assert host.shown == [("turn", False), ("price", True), ("silence", False)]


# --- appendix E: documents -------------------------------------------------------------------------------------------


async def test_e_documents_reach_the_prompt_as_the_host_gave_them() -> None:
    agent, model = dynamic({"id": "a", "name": "A"})
    await engine_of(agent).process_turn(context_of(rag_docs=["Doc one.", "Doc two."]))
    section = model.prompts[0].partition("[RELEVANT KNOWLEDGE/DOCS]")[2].splitlines()[2]
    assert json.loads(section) == {"documents": ["Doc one.", "Doc two."]}
