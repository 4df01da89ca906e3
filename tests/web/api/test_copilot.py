"""The copilot's agents over HTTP: sets, versions, checks, prompts, and what is put into the queue for sessions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from monikers.catalogue import check_config
from monikers.copilot.agentsets import load_set, set_names
from monikers.copilot.blackboard import Blackboard
from monikers.copilot.moniker import COPILOT
from monikers.copilot.moniker.studio import Studio
from monikers.errors import MonikerConfigError
from store import (
    ActionKind,
    SessionStatus,
    StepStatus,
    TenantStore,
    append_agent_step,
    create_conversation,
    get_action,
    list_conversations,
    list_participants,
    upsert_agent_state,
)
from store.actions import queue_of
from store.copilot_agents import copilot_agents_of
from store.ids import ActionId, ConversationId
from store.records import append_record
from tests.store.rows import a_record
from tests.web.kit import CATALOGUE, MODEL, NASTY, Caller, opener, state, step
from web import workshop
from web.catalogue import ConfigError, MonikerEntry
from web.factory import Web, create_app
from web.settings import AsyncMode, WebSettings

Run = Callable[[Any], Any]
COACH: dict[str, Any] = {"id": "coach", "name": "Coach", "text": "The phase is {{ blackboard.variables.phase }}."}
SHIPPED = load_set("sales_call").configs
FIRST = str(SHIPPED[0]["id"])
AGENTS, VERSIONS = "/api/copilot/agents", "/api/copilot/agents/coach/versions"
HOSTILE = "</script><img src=x onerror=alert(1)> {{ 7*7 }} [TRIGGER]\u202e"


def copilot_check(config: dict[str, Any], task: str) -> dict[str, Any]:
    """As the entry point has it."""
    try:
        return check_config(COPILOT, config, task).model_dump(mode="json")
    except MonikerConfigError as error:
        raise ConfigError(error.errors) from error


ENTRY = MonikerEntry("copilot", "", {}, {}, COPILOT.task_field, COPILOT.stop_on_done, copilot_check)


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    """A web process that knows the copilot."""
    catalogue = {**CATALOGUE, "copilot": ENTRY}
    settings = WebSettings(async_mode=AsyncMode.THREADING)
    made = create_app(settings, opener(tmp_path / "data"), catalogue, MODEL, str, Studio())
    yield made
    made.close()


def saving(definition: Any = COACH, based_on: Any = 0, **more: Any) -> dict[str, Any]:
    return {"agent_set": "sales_call", "definition": definition, "based_on": based_on, **more}


@pytest.fixture
def session(db: TenantStore, run: Run) -> str:
    """A copilot session that has taken two steps."""
    board = Blackboard(variables={"phase": "pricing"}).to_dict()
    said = [{"speaker": "CUSTOMER", "text": "What does it cost?", "timestamp": 1.0, "is_final": True}]
    kept = {"turn": 1, "board": board, "segments": said, "guidance": ["Mind the budget."]}
    config = copilot_check({"agent_set": "sales_call", "user_context": "Ann sells."}, "")
    spec = {"moniker": "copilot", "task": "", "config": config, "stop_on_done": False, "max_steps": None}
    row = state("s1", moniker="copilot", agent_id="copilot", iteration=1, context=kept, spec=spec)
    run(upsert_agent_state(db, [row, state("other")]))
    for iteration in range(2):
        run(append_agent_step(db, step("s1", iteration, agent_id="copilot", state=kept)))
    return "s1"


def actions_of(db: TenantStore, run: Run, session_id: str) -> list[Any]:
    found = run(queue_of(db).created_since(0))
    return [row.item for row in found if row.item.session_id == session_id]


# --- sets and versions ------------------------------------------------------------------------------------------------


def test_the_sets_name_their_agents_saved_ones_too(api: Caller) -> None:
    api.post(VERSIONS, saving(), 201)
    items = api.get("/api/copilot/sets")["items"]
    assert [item["name"] for item in items] == set_names()
    (sales,) = [item for item in items if item["name"] == "sales_call"]
    assert sales.keys() == {"name", "title", "description", "advised", "agents"}
    assert [agent["agent_id"] for agent in sales["agents"]] == [*[one["id"] for one in SHIPPED], "coach"]
    assert sales["agents"][-1] == {"agent_id": "coach", "name": "Coach"}


def test_the_newest_version_of_each_agent_in_their_order(api: Caller) -> None:
    shipped = api.get(AGENTS, agent_set="sales_call")["items"]
    assert [(item["agent_id"], item["version"], item["definition"]) for item in shipped] == [
        (one["id"], 0, one) for one in SHIPPED
    ]
    changed = {**SHIPPED[0], "priority": 9}
    saved = api.post(f"{AGENTS}/{FIRST}/versions", saving(changed, note="louder", saved_by="ann"), 201)
    api.post(VERSIONS, saving(), 201)
    api.post(VERSIONS, saving({**COACH, "priority": 1}, 1), 201)
    now = api.get(AGENTS, agent_set="sales_call")["items"]
    assert [item["agent_id"] for item in now] == [*[one["id"] for one in SHIPPED], "coach"]
    assert now[0] == saved
    assert (now[-1]["version"], now[-1]["definition"]["priority"]) == (2, 1)
    assert api.get(AGENTS, agent_set="support")["items"][0]["version"] == 0


def test_all_versions_of_an_agent_newest_first(api: Caller) -> None:
    for based_on in range(3):
        api.post(f"{AGENTS}/{FIRST}/versions", saving(SHIPPED[0], based_on, note=f"n{based_on}"), 201)
    items = api.get(f"{AGENTS}/{FIRST}/versions", agent_set="sales_call")["items"]
    assert [item["version"] for item in items] == [3, 2, 1, 0]
    assert [item["note"] for item in items] == ["n2", "n1", "n0", None]
    api.get(VERSIONS, 404, agent_set="sales_call")
    api.get(f"{AGENTS}/{FIRST}/versions", 404, agent_set="nowhere")
    api.get(AGENTS, 404, agent_set="nowhere")
    api.get(AGENTS, 400)


def test_who_saves_what_somebody_else_has_changed_is_told(api: Caller) -> None:
    api.post(VERSIONS, saving(), 201)
    for based_on in (0, 2):
        problem = api.post(VERSIONS, saving(based_on=based_on), 409)
        assert "version 1 of 'coach' in 'sales_call' is the newest" in problem["detail"]
    assert api.post(VERSIONS, saving(based_on=1), 201)["version"] == 2


def test_of_savers_at_the_same_time_one_wins(web: Web, db: TenantStore, run: Run) -> None:
    barrier, codes = threading.Barrier(4), []

    def save(number: int) -> None:
        barrier.wait()
        body = saving({**COACH, "priority": number})
        codes.append(web.app.test_client().post(VERSIONS, json=body).status_code)

    threads = [threading.Thread(target=save, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [201, 409, 409, 409]
    assert len(run(copilot_agents_of(db).find())) == 1


def test_what_cannot_run_is_not_saved(api: Caller, db: TenantStore, run: Run) -> None:
    wrong = {"id": "coach", "text": "{% if %}", "trigger_config": {"mode": "never"}, "output_format": "nope"}
    problem = api.post(VERSIONS, saving(wrong), 422)
    fields = {error["field"] for error in problem["errors"]}
    assert fields == {f"definition.{name}" for name in ("text", "trigger_config.mode", "output_format")}
    problem = api.post(VERSIONS, saving({**COACH, "id": "another"}), 422)
    assert problem["errors"] == [
        {"field": "definition.id", "message": "must be 'coach', the agent that it is saved for"}
    ]
    assert api.post(VERSIONS, saving(agent_set="nowhere"), 422)["errors"][0]["field"] == "agent_set"
    for bad in ({}, saving(based_on=-1), saving(based_on="0"), saving([]), {**saving(), "more": 1}):
        api.post(VERSIONS, bad, 422)
    assert run(copilot_agents_of(db).find()) == []


def test_hostile_words_come_back_as_they_were(api: Caller) -> None:
    definition = {**COACH, "name": HOSTILE, "text": HOSTILE, "mine": [HOSTILE]}
    saved = api.post(VERSIONS, saving(definition, note=HOSTILE), 201)
    assert (saved["definition"], saved["note"]) == (definition, HOSTILE)
    assert api.get(VERSIONS, agent_set="sales_call")["items"] == [saved]
    prompt = api.post("/api/copilot/preview", {"definition": definition}, 200)
    assert "</script><img src=x onerror=alert(1)> 49 [TRIGGER]" in prompt["messages"][0]["content"]


@pytest.mark.parametrize("nasty", NASTY)
def test_nasty_ids_name_an_agent_or_nothing(api: Caller, nasty: str) -> None:
    assert api.get(AGENTS, 404, agent_set=nasty)
    client = api.client
    answer = client.get(f"{AGENTS}/{nasty}/versions", query_string={"agent_set": "sales_call"})
    assert answer.status_code == 404
    answer = client.post("/api/copilot/preview", json={"definition": COACH, "session_id": nasty})
    assert answer.status_code in {404, 422}


# --- before it runs ---------------------------------------------------------------------------------------------------


def test_a_check_names_every_mistake(api: Caller) -> None:
    assert api.post("/api/copilot/check", {"definition": COACH}, 200) == {"ok": True, "errors": [], "warnings": []}
    deaf = {**COACH, "trigger_config": {"mode": ["keyword", "event"]}}
    told = api.post("/api/copilot/check", {"definition": deaf}, 200)
    assert (told["ok"], [one["field"] for one in told["warnings"]]) == (True, ["trigger_config.mode"] * 2)
    found = api.post("/api/copilot/check", {"definition": {"name": "", "cooldown": 1, "text": "{{ x"}}, 200)
    assert found["ok"] is False
    assert {error["field"] for error in found["errors"]} == {"name", "text"}


@pytest.mark.parametrize("value", [None, True, 7, 1.5, "text", [], [[1]], {"": {"a": None}}])
def test_a_check_takes_any_json(api: Caller, value: Any) -> None:
    assert not api.post("/api/copilot/check", {"definition": value}, 200)["ok"]
    api.post("/api/copilot/check", {}, 422)


def test_a_prompt_on_the_board_of_a_session(api: Caller, session: str) -> None:
    found = api.post("/api/copilot/preview", {"definition": COACH, "session_id": session}, 200)
    assert [message["role"] for message in found["messages"]] == ["system", "user"]
    system, user = (message["content"] for message in found["messages"])
    assert system.startswith("Ann sells.\n\nThe phase is pricing.")
    assert "Mind the budget." in system
    assert "What does it cost?" in user
    assert found["characters"] == len(system) + len(user)
    empty = api.post("/api/copilot/preview", {"definition": COACH}, 200)
    assert empty["messages"][0]["content"].startswith("The phase is .")


def test_a_prompt_that_there_is_none_of(api: Caller, session: str) -> None:
    body = {"definition": {**COACH, "text": "{% if %}"}, "session_id": session}
    assert [error["field"] for error in api.post("/api/copilot/preview", body, 422)["errors"]] == ["definition.text"]
    api.post("/api/copilot/preview", {"definition": COACH, "session_id": "nobody"}, 404)
    problem = api.post("/api/copilot/preview", {"definition": COACH, "session_id": "other"}, 409)
    assert "'echo'" in problem["detail"]


def test_a_prompt_of_a_session_that_has_not_begun(api: Caller) -> None:
    made = api.post("/api/copilot/sessions", {"agent_set": "sales_call", "config": {"user_context": "Bo buys."}})
    body = {"definition": COACH, "session_id": made["session_id"]}
    assert api.post("/api/copilot/preview", body, 200)["messages"][0]["content"].startswith("Bo buys.")


def test_work_that_takes_too_long_is_given_up_and_nobody_waits_for_it(
    web: Web, api: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store's loop goes on meanwhile: another request is answered before this one is."""
    began, over = threading.Event(), threading.Event()

    class Stuck(Studio):
        def problems(self, definition: Any) -> Any:
            began.set()
            over.wait(30)

    monkeypatch.setattr(workshop, "PATIENCE_S", 0.5)
    monkeypatch.setattr(Studio, "problems", Stuck.problems)
    answers: list[Any] = []
    asking = threading.Thread(target=lambda: answers.append(api.post("/api/copilot/check", {"definition": {}}, 422)))
    asking.start()
    began.wait(30)
    api.get("/api/sessions")
    asking.join(30)
    over.set()
    assert "longer than 0.5 seconds" in answers[0]["detail"]


# --- a try on a fork --------------------------------------------------------------------------------------------------


def test_a_dry_run_is_a_fork_with_its_one_input(api: Caller, db: TenantStore, run: Run, session: str) -> None:
    answer = api.post("/api/copilot/dry-runs", {"definition": COACH, "session_id": session})
    fork, said = actions_of(db, run, answer["session_id"])
    assert (fork.id, fork.kind, said.kind) == (answer["action_id"], ActionKind.FORK, ActionKind.INPUT)
    assert fork.lane == said.lane
    assert fork.payload["forked_from"] == {"session_id": session, "iteration": 1}
    assert (fork.payload["config"]["dry_run"], fork.payload["stop_on_done"]) == (True, True)
    assert fork.payload["config"]["insight_window_s"] == 0
    assert fork.payload["config"]["user_context"] == "Ann sells."
    assert fork.conversation_id is None
    assert said.payload["data"] == {"agents": [COACH], "trigger": "force", "agent_ids": ["coach"]}


def test_a_dry_run_that_is_asked_for_again_is_the_same(api: Caller, db: TenantStore, run: Run, session: str) -> None:
    body = {"definition": COACH, "session_id": session, "idempotency_key": "k"}
    first = api.post("/api/copilot/dry-runs", body)
    assert api.post("/api/copilot/dry-runs", body) == first
    assert len(actions_of(db, run, first["session_id"])) == 2


def test_a_dry_run_that_cannot_be(api: Caller, db: TenantStore, run: Run, session: str) -> None:
    bad = {"definition": {**COACH, "text": "{{"}, "session_id": session}
    assert api.post("/api/copilot/dry-runs", bad, 422)["errors"][0]["field"] == "definition.text"
    nameless = {"definition": {"name": "x"}, "session_id": session}
    assert api.post("/api/copilot/dry-runs", nameless, 422)["errors"][0]["field"] == "definition.id"
    api.post("/api/copilot/dry-runs", {"definition": COACH, "session_id": "nobody"}, 404)
    api.post("/api/copilot/dry-runs", {"definition": COACH, "session_id": "other"}, 409)
    made = api.post("/api/copilot/sessions", {"agent_set": "support"})
    problem = api.post("/api/copilot/dry-runs", {"definition": COACH, "session_id": made["session_id"]}, 409)
    assert "has not begun" in problem["detail"]
    assert {one.kind for one in run(queue_of(db).find())} == {ActionKind.CREATE}


# --- sessions ---------------------------------------------------------------------------------------------------------


def created(db: TenantStore, run: Run, answer: Any) -> Any:
    return run(get_action(db, ActionId(answer["action_id"]))).payload


def test_a_session_has_the_newest_agents_of_its_set_whole(api: Caller, db: TenantStore, run: Run) -> None:
    changed = {**SHIPPED[0], "priority": 9}
    api.post(f"{AGENTS}/{FIRST}/versions", saving(changed), 201)
    api.post(VERSIONS, saving(), 201)
    more = [{"id": "mine", "name": "Mine", "text": "x"}, {**COACH, "text": "y"}]
    body = {"agent_set": "sales_call", "agents": more, "config": {"max_phases": 1}, "budget": {"tokens": 5}}
    answer = api.post("/api/copilot/sessions", body)
    payload = created(db, run, answer)
    assert payload["moniker"] == "copilot"
    assert payload["config"]["agents"] == [changed, *SHIPPED[1:], more[1], more[0]]
    assert (payload["config"]["agent_set"], payload["config"]["max_phases"]) == ("sales_call", 1)
    assert payload["budget"] == {"tokens": 5}
    assert list(COPILOT.config_model.model_validate(payload["config"]).definitions()) == [
        *[one["id"] for one in SHIPPED],
        "coach",
        "mine",
    ]


def test_a_thread_is_opened_unless_one_is_named(api: Caller, db: TenantStore, run: Run) -> None:
    run(create_conversation(db, conversation_id=ConversationId("c1"), title="Mine"))
    named = api.post("/api/copilot/sessions", {"agent_set": "support", "conversation_id": "c1"})
    assert named["conversation_id"] == "c1"
    own = api.post("/api/copilot/sessions", {"agent_set": "support", "title": "Call with Bo"})
    plain = api.post("/api/copilot/sessions", {"agent_set": "support"})
    titles = {one.conversation_id: one.title for one in run(list_conversations(db)).items}
    assert titles[own["conversation_id"]] == "Call with Bo"
    assert titles[plain["conversation_id"]] == load_set("support").title
    (member,) = run(list_participants(db, own["conversation_id"]))
    assert member.session_id == own["session_id"]


def test_the_same_key_is_one_session_in_one_thread(api: Caller, db: TenantStore, run: Run) -> None:
    body = {"agent_set": "support", "idempotency_key": "k"}
    first = api.post("/api/copilot/sessions", body)
    assert api.post("/api/copilot/sessions", body) == first
    assert len(run(list_conversations(db)).items) == 1


def test_a_session_that_cannot_be_opens_no_thread(api: Caller, db: TenantStore, run: Run) -> None:
    start = "/api/copilot/sessions"
    assert api.post(start, {"agent_set": "nowhere"}, 422)["errors"][0]["field"] == "agent_set"
    for misplaced in ("agents", "agent_set", "dry_run"):
        problem = api.post(start, {"agent_set": "support", "config": {misplaced: []}}, 422)
        assert problem["errors"][0]["field"] == f"config.{misplaced}"
    bad = {"agent_set": "support", "agents": [{"id": "x", "name": "x", "text": "{% if %}"}]}
    assert api.post(start, bad, 422)["errors"]
    api.post(start, {"agent_set": "support", "config": {"max_phases": 99}}, 422)
    api.post(start, {"agent_set": "support", "conversation_id": "nowhere"}, 404)
    assert run(list_conversations(db)).items == ()
    assert run(queue_of(db).find()) == []


def test_a_version_is_used_from_the_next_turn_on(api: Caller, db: TenantStore, run: Run, session: str) -> None:
    api.post(VERSIONS, saving(), 201)
    use = f"/api/copilot/sessions/{session}/agents"
    body = {"agent_set": "sales_call", "agent_id": "coach", "version": 1, "idempotency_key": "k"}
    answer = api.post(use, body)
    assert api.post(use, body) == answer
    shipped = api.post(use, {"agent_set": "sales_call", "agent_id": FIRST, "version": 0})
    said = [action.payload["data"] for action in actions_of(db, run, session)]
    assert said == [{"agents": [COACH]}, {"agents": [SHIPPED[0]]}]
    assert shipped["session_id"] == session
    for missing in ({"version": 2}, {"agent_id": "x"}, {"agent_id": FIRST}):
        api.post(use, {"agent_set": "sales_call", "agent_id": "coach", "version": 1, **missing}, 404)
    api.post(use, {**body, "idempotency_key": None, "agent_set": "nowhere"}, 422)
    api.post("/api/copilot/sessions/other/agents", body, 409)
    api.post("/api/copilot/sessions/nobody/agents", body, 404)


def test_a_decision_is_an_input(api: Caller, db: TenantStore, run: Run, session: str) -> None:
    insight = f"{session}:4:1.0.coach.1"
    path = f"/api/copilot/sessions/{session}/insights"
    api.post(f"{path}/{insight}", {"agreed": True, "by": "ann"})
    api.post(f"{path}/{insight}", {"agreed": False})
    said = [action.payload["data"]["decide"] for action in actions_of(db, run, session)]
    assert said == [
        {"insight_id": insight, "agreed": True, "by": "ann"},
        {"insight_id": insight, "agreed": False},
    ]
    api.post(f"{path}/s2:4:1.0.coach.1", {"agreed": True}, 404)
    api.post(f"{path}/{insight}", {}, 422)
    api.post(f"{path}/{insight}", {"agreed": "yes"}, 422)
    api.post("/api/copilot/sessions/other/insights/other:1:1.1.a.1", {"agreed": True}, 409)
    long = f"{session}:4:1.0.{'a' * 200}.1"
    assert api.post(f"{path}/{long}", {"agreed": True})


# --- what came of a dry run -------------------------------------------------------------------------------------------


@pytest.fixture
def fork(api: Caller, db: TenantStore, run: Run, session: str) -> Callable[..., Any]:
    """Plays the worker: a dry run whose turn left this."""
    answer = api.post("/api/copilot/dry-runs", {"definition": COACH, "session_id": session})
    made = answer["session_id"]
    said = actions_of(db, run, made)[1]
    spec = {"config": {**copilot_check({"agent_set": "sales_call"}, ""), "dry_run": True}}
    board = Blackboard(variables={"phase": "closing"}).to_dict()

    def play(data: Any = None, *records: Any, **more: Any) -> Any:
        status = more.pop("status", SessionStatus.DONE)
        run(upsert_agent_state(db, [state(made, moniker="copilot", iteration=1, spec=spec, status=status, **more)]))
        run(append_agent_step(db, step(made, 0, state={"board": board})))
        if data is not None:
            run(append_agent_step(db, step(made, 1, action_id=said.id, data=data, status=StepStatus.DONE)))
        for at, result in enumerate(records):
            run(append_record(db, a_record(made, at, iteration=1, kind="model", result=result)))
        return api.get(f"/api/copilot/dry-runs/{made}")

    return play


def turn(**phase: Any) -> dict[str, Any]:
    """The data of a step, as docs/copilot-queue.md has it."""
    return {"turn": 2, "turns": [{"trigger": "force", "phases": [{"phase": 1, **phase}]}], "insights": []}


def test_a_dry_run_that_has_not_begun_and_one_that_has(api: Caller, fork: Callable[..., Any], session: str) -> None:
    answer = api.post("/api/copilot/dry-runs", {"definition": COACH, "session_id": session})
    waiting = api.get(f"/api/copilot/dry-runs/{answer['session_id']}")
    assert (waiting["status"], waiting["step"], waiting["asked"]) == ("created", None, None)
    assert fork(None, status=SessionStatus.RUNNING)["step"] is None


def test_what_an_agent_was_asked_said_and_found(fork: Callable[..., Any]) -> None:
    ran = {"agent_id": "coach", "name": "Coach", "ms": 5, "events": ["asked"], "failed": False}
    reply = {"text": '{"a": 1}', "model": "m", "usage": {"input_tokens": 7, "output_tokens": 2}, "cost": "0.01"}
    found = fork(turn(ran=[ran, {"agent_id": "other"}], skipped=[]), reply)
    assert (found["agent_id"], found["definition"], found["run"], found["skipped"]) == ("coach", COACH, ran, None)
    assert found["asked"][0]["content"].startswith("The phase is closing.")
    (said,) = found["answers"]
    assert (said["text"], said["model"], said["cost"], said["error"]) == ('{"a": 1}', "m", "0.01", None)
    assert (said["input_tokens"], said["output_tokens"]) == (7, 2)
    assert found["step"]["iteration"] == 1


def test_why_an_agent_was_not_run(fork: Callable[..., Any]) -> None:
    skips = [{"agent_id": "other", "reason": "cooldown"}, {"agent_id": "coach", "reason": "not_allowed"}]
    found = fork(turn(ran=[], skipped=skips))
    assert (found["run"], found["skipped"], found["answers"]) == (None, "not_allowed", [])


def test_a_model_that_failed_and_rows_of_another_shape(fork: Callable[..., Any]) -> None:
    failed = {"finish_reason": "failed", "failed": {"kind": "timeout", "message": "too slow"}}
    strange = {"turns": [None, {"phases": 3}, {"phases": [{"ran": ["x"], "skipped": None}]}], "insights": "none"}
    found = fork(strange, failed, None)
    assert [answer["error"] for answer in found["answers"]] == ["too slow", None]
    assert (found["run"], found["insights"]) == (None, [])


def test_what_is_no_dry_run(api: Caller, session: str) -> None:
    for other in (session, "other", "nobody"):
        api.get(f"/api/copilot/dry-runs/{other}", 404)
