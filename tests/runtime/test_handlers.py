from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from runtime import handlers
from runtime.contract import StepFrame, StepOut, WaitForInput
from store.actions import Action, ActionKind, ActionStatus
from store.agent_state import SessionStatus, find_agent_state
from store.agents import find_agent
from store.conversations import list_participants
from store.ids import ActionId, AgentId, ConversationId, SessionId
from store.posting import PostAs, post_to_conversation
from tests.runtime.kit import Gate, Workshop, moniker, out, workshop

ABOUT_SESSIONS = [ActionKind.INPUT, ActionKind.INTERRUPT, ActionKind.PAUSE, ActionKind.RESUME, ActionKind.DESTROY]


async def waits(ctx: Any, frame: StepFrame) -> StepOut:
    """Waits for input after each step; says what it heard."""
    heard = [said.text for said in frame.inputs] or frame.guidance
    return out(frame, text=str(heard), wait=WaitForInput())


WAITS = moniker("waits", waits)


def row(shop: Workshop, kind: ActionKind, number: int = 0, **fields: Any) -> Action:
    """A pending action as some other program may have stored it."""
    empty = dict.fromkeys(field.name for field in dataclasses.fields(Action))
    given = {
        "id": ActionId(f"{kind.value}-{number}"),
        "created_at": shop.now(),
        "kind": kind,
        "urgency": 0,
        "session_id": SessionId("s"),
        "status": ActionStatus.PENDING,
        "attempts": 0,
        "processed": False,
        **fields,
    }
    return Action(**{**empty, **given})


# --- payloads that cannot be used ------------------------------------------------------------------------------------


@pytest.mark.parametrize("payload", [None, [], [1], "text", 5, True])
@pytest.mark.parametrize("kind", [ActionKind.CREATE, ActionKind.INPUT, ActionKind.INTERRUPT])
async def test_a_payload_that_is_no_object_is_refused(tmp_path: Path, kind: ActionKind, payload: Any) -> None:
    async with workshop(tmp_path, WAITS) as shop:
        if kind is not ActionKind.CREATE:
            await shop.create("waits")
            await shop.until(SessionStatus.WAITING)
        bad = row(shop, kind, agent_id=AgentId("waits"), payload=payload)
        await shop.append_rows(bad)
        assert "payload" in await shop.error_of(bad)


@pytest.mark.parametrize("payload", [None, [], "text", {"guidance": 1}])
@pytest.mark.parametrize("kind", [ActionKind.PAUSE, ActionKind.RESUME, ActionKind.DESTROY])
async def test_control_needs_no_payload(tmp_path: Path, kind: ActionKind, payload: Any) -> None:
    async with workshop(tmp_path, WAITS) as shop:
        await shop.create("waits")
        await shop.until(SessionStatus.WAITING)
        odd = row(shop, kind, payload=payload, metadata=payload)
        await shop.append_rows(odd)
        await shop.done(odd)


async def test_an_interrupt_without_guidance_is_refused(tmp_path: Path) -> None:
    async with workshop(tmp_path, WAITS) as shop:
        await shop.create("waits")
        await shop.until(SessionStatus.WAITING)
        bad = await shop.ask(ActionKind.INTERRUPT, payload={"text": "go"})
        assert "needs a payload with guidance" in await shop.error_of(bad)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"moniker": None}, "moniker"),
        ({"moniker": ""}, "moniker"),
        ({"moniker": 5}, "moniker"),
        ({"task": ["x"]}, "task"),
        ({"config": "x"}, "config"),
        ({"config": [1]}, "config"),
        ({"max_steps": 0}, "max_steps"),
        ({"max_steps": "many"}, "max_steps"),
        ({"max_runtime_s": -1}, "max_runtime_s"),
        ({"max_runtime_s": {}}, "max_runtime_s"),
        ({"stop_on_done": "perhaps"}, "stop_on_done"),
        ({"delivery": "pigeon"}, "delivery"),
    ],
)
async def test_a_create_with_a_bad_field_names_it(tmp_path: Path, spec: dict[str, Any], field: str) -> None:
    async with workshop(tmp_path, WAITS) as shop:
        bad = row(shop, ActionKind.CREATE, agent_id=AgentId("waits"), payload={"moniker": "waits", **spec})
        await shop.append_rows(bad)
        assert f"{field}: " in await shop.error_of(bad)
        assert await find_agent_state(shop.db, session_id=SessionId("s")) is None


async def test_an_unknown_moniker_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    async with workshop(tmp_path, WAITS) as shop:
        error = await shop.error_of(await shop.create("nothing"))
        assert error == "there is no moniker 'nothing'; known monikers: echo, waits"


async def test_a_config_that_does_not_fit_is_refused_with_its_fields(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        error = await shop.error_of(await shop.create("echo", config={"steps": 0, "nonsense": 1}, task="hi"))
        assert "steps: " in error
        assert "nonsense: " in error


async def test_an_unknown_conversation_is_refused(tmp_path: Path) -> None:
    async with workshop(tmp_path, WAITS) as shop:
        error = await shop.error_of(await shop.create("waits", conversation="nowhere"))
        assert "there is no conversation 'nowhere'" in error


@pytest.mark.parametrize("kind", [kind for kind in ActionKind if kind is not ActionKind.UNKNOWN])
async def test_an_action_that_names_nobody_is_refused(tmp_path: Path, kind: ActionKind) -> None:
    async with workshop(tmp_path, WAITS) as shop:
        bad = row(shop, kind, session_id=None, payload={"moniker": "waits", "guidance": 1})
        await shop.append_rows(bad)
        error = await shop.error_of(bad)
        assert "needs a session_id or an agent_id" in error or "no handler" in error


@pytest.mark.parametrize("missing", ["agent_id", "session_id"])
async def test_a_create_needs_both_names(tmp_path: Path, missing: str) -> None:
    async with workshop(tmp_path, WAITS) as shop:
        names: dict[str, Any] = {"agent_id": AgentId("waits"), "session_id": SessionId("s"), missing: None}
        bad = row(shop, ActionKind.CREATE, payload={"moniker": "waits"}, **names)
        await shop.append_rows(bad)
        assert await shop.error_of(bad)


@pytest.mark.parametrize("kind", [ActionKind.FORK, ActionKind.APPROVAL])
async def test_reserved_kinds_are_refused(tmp_path: Path, kind: ActionKind) -> None:
    async with workshop(tmp_path) as shop:
        assert "no handler" in await shop.error_of(await shop.ask(kind))


async def test_a_session_takes_so_many_unread_interrupts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "_MAX_GUIDANCE_WAITING", 3)
    async with workshop(tmp_path, WAITS) as shop:
        await shop.create("waits")
        await shop.until(SessionStatus.WAITING)
        await shop.done(await shop.pause())
        await shop.done(*[await shop.guide(number) for number in range(3)])
        assert await shop.error_of(await shop.guide(3)) == "session 's' has 3 unread interrupts"
        await shop.done(await shop.resume())
        await shop.until(SessionStatus.WAITING)  # it has read them all
        await shop.done(await shop.guide(4))


# --- twice -----------------------------------------------------------------------------------------------------------


async def test_a_second_create_of_a_session_is_refused(tmp_path: Path) -> None:
    async with workshop(tmp_path, WAITS, start=False) as shop:
        fields: dict[str, Any] = {"agent_id": AgentId("waits"), "payload": {"moniker": "waits"}}
        await shop.append_rows(*[row(shop, ActionKind.CREATE, number, **fields) for number in (1, 2)])
        await shop.start()
        first, second = await shop.action(ActionId("agent_create-1")), await shop.action(ActionId("agent_create-2"))
        await shop.done(first)
        assert await shop.error_of(second) == (
            "session_id 's' is already in use by action agent_create-1; use another one"
        )
        third = row(shop, ActionKind.CREATE, 3, **fields)
        await shop.append_rows(third)
        assert "already in use" in await shop.error_of(third)
        assert len(await shop.raw_step_ids()) == 1


@pytest.mark.parametrize("kind", [ActionKind.INPUT, ActionKind.INTERRUPT])
async def test_of_two_rows_with_one_idempotency_key_the_older_is_carried_out(tmp_path: Path, kind: ActionKind) -> None:
    async with workshop(tmp_path, WAITS) as shop:
        await shop.create("waits")
        await shop.until(SessionStatus.WAITING)
        payload = {"text": "hello", "guidance": "hello"}
        twins = [row(shop, kind, number, payload=payload, idempotency_key="once") for number in (1, 2)]
        await shop.append_rows(twins[1], twins[0])
        await shop.done(twins[0])
        assert await shop.error_of(twins[1]) == (
            f"duplicate of action {twins[0].id}, which has the same idempotency_key"
        )
        await shop.until(SessionStatus.WAITING)
        assert len(await shop.steps()) == 2


async def test_a_duplicate_create_leaves_the_agents_latest_session_as_it_was(tmp_path: Path) -> None:
    async with workshop(tmp_path, WAITS) as shop:
        fields: dict[str, Any] = {
            "agent_id": AgentId("waits"),
            "payload": {"moniker": "waits"},
            "idempotency_key": "once",
        }
        real = row(shop, ActionKind.CREATE, 1, **fields)
        twin = row(shop, ActionKind.CREATE, 2, **{**fields, "session_id": SessionId("twin")})
        await shop.append_rows(real, twin)
        await shop.done(real)
        await shop.error_of(twin)
        await shop.until(SessionStatus.WAITING)
        await shop.done(await shop.say("hello", None, agent_id="waits"))
        assert len(await shop.steps()) == 2


async def test_what_came_after_a_create_with_a_key_does_not_overtake_it(tmp_path: Path) -> None:
    async with workshop(tmp_path, WAITS) as shop:
        for number in range(5):
            session = f"s{number}"
            created = await shop.create("waits", session, key=f"k{number}")
            said = await shop.say("hello", session)
            await shop.done(created, said)


async def test_inputs_keep_their_order_whether_they_have_a_key_or_not(tmp_path: Path) -> None:
    async with workshop(tmp_path, WAITS, start=False) as shop:
        asked = [await shop.create("waits")]
        for number in range(6):
            key = f"k{number}" if number % 2 == 0 else None
            asked.append(await shop.say(str(number), idempotency_key=key))
        await shop.start()
        await shop.done(*asked)
        assert (await shop.texts())[1:] == [f"['{number}']" for number in range(6)]


# --- by agent --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("restarted", [False, True])
async def test_control_of_an_agent_reaches_its_latest_session(tmp_path: Path, restarted: bool) -> None:
    async with workshop(tmp_path, WAITS) as shop:
        for session in ("old", "new"):
            await shop.create("waits", session, agent="a")
            await shop.until(SessionStatus.WAITING, session)
        if restarted:
            await shop.restart()
        await shop.done(await shop.pause(None, agent_id=AgentId("a")))
        assert (await shop.state("old")).status is SessionStatus.WAITING
        assert (await shop.state("new")).status is SessionStatus.PAUSED


async def test_control_of_an_agent_reaches_a_session_created_in_the_same_batch(tmp_path: Path) -> None:
    async with workshop(tmp_path, WAITS, start=False) as shop:
        agent = AgentId("a")
        asked = [
            await shop.create("waits", "old", agent="a"),
            await shop.create("waits", "new", agent="a"),
            await shop.say("hello", None, agent_id=agent),
            await shop.guide("look", None, agent_id=agent),
        ]
        await shop.start()
        await shop.done(*asked)
        await shop.until(SessionStatus.WAITING, "old")
        await shop.until(SessionStatus.WAITING, "new")
        assert len(await shop.steps("old")) == 1
        assert len(await shop.steps("new")) >= 2


async def test_an_agent_without_a_session_is_named(tmp_path: Path) -> None:
    async with workshop(tmp_path, WAITS) as shop:
        error = await shop.error_of(await shop.pause(None, agent_id=AgentId("nobody")))
        assert error == "agent 'nobody' has no session; create one first"


async def test_a_refused_create_leaves_the_agents_latest_session_as_it_was(tmp_path: Path) -> None:
    async with workshop(tmp_path, WAITS) as shop:
        await shop.create("waits", "good", agent="a")
        await shop.until(SessionStatus.WAITING, "good")
        await shop.error_of(await shop.create("nothing", "bad", agent="a"))
        await shop.done(await shop.pause(None, agent_id=AgentId("a")))
        assert (await shop.state("good")).status is SessionStatus.PAUSED


async def test_each_configuration_of_an_agent_is_a_version(tmp_path: Path) -> None:
    async with workshop(tmp_path, WAITS) as shop:
        for session, config in (("a", {"n": 1}), ("b", {"n": 1}), ("c", {"n": 2})):
            await shop.done(await shop.create("waits", session, agent="x", config=config))
        found = await find_agent(shop.db, AgentId("x"))
        assert found is not None
        assert (found.version, found.config) == (2, {"n": 2})


# --- again after a crash ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ABOUT_SESSIONS)
async def test_an_action_whose_mark_was_lost_comes_to_the_same_end(tmp_path: Path, kind: ActionKind) -> None:
    async with workshop(tmp_path, WAITS) as shop:
        await shop.create("waits")
        await shop.until(SessionStatus.WAITING)
        asked = await shop.ask(kind, payload={"text": "hello", "guidance": "hello"})
        await shop.done(asked)
        await shop.stop()
        before = await shop.state()
        await shop.lose_mark(asked)
        await shop.start()
        await shop.done(asked)
        await shop.stop()
        after = await shop.state()
        assert (after.status, after.iteration, after.inbox) == (before.status, before.iteration, before.inbox)


@pytest.mark.parametrize("kind", [ActionKind.INPUT, ActionKind.INTERRUPT])
async def test_what_the_last_step_of_a_session_has_read_is_done(tmp_path: Path, kind: ActionKind) -> None:
    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        heard = frame.inputs or frame.guidance
        return out(frame, done=bool(heard), wait=None if heard else WaitForInput())

    async with workshop(tmp_path, moniker("m", body)) as shop:
        await shop.create("m")
        await shop.until(SessionStatus.WAITING)
        asked = await shop.ask(kind, payload={"text": "hello", "guidance": "hello"})
        await shop.done(asked)
        await shop.until(SessionStatus.DONE)
        await shop.crash()
        await shop.open()
        await shop.lose_mark(asked)
        await shop.start()
        await shop.done(asked)


# --- conversations ---------------------------------------------------------------------------------------------------


async def test_each_step_is_one_message_of_the_thread(tmp_path: Path) -> None:
    async with workshop(tmp_path, WAITS) as shop:
        await shop.thread("t")
        await shop.create("waits", conversation="t")
        await shop.until(SessionStatus.WAITING)
        for text in ("one", "two"):
            await shop.done(await shop.say(text))
        await shop.stop()
        found = [(message.message_id, message.text) for message in await shop.messages("t")]
        assert found == [("s:0", "None"), ("s:1", "['one']"), ("s:2", "['two']")]


@pytest.mark.parametrize("post_as", list(PostAs))
async def test_a_post_reaches_every_session_of_the_thread(tmp_path: Path, post_as: PostAs) -> None:
    async with workshop(tmp_path, WAITS) as shop:
        await shop.thread("t")
        for session in ("a", "b", "c"):
            await shop.create("waits", session, agent=session, conversation="t")
            await shop.until(SessionStatus.WAITING, session)
        await shop.done(await shop.destroy("c"))
        posted = await post_to_conversation(shop.db, ConversationId("t"), text="hello", post_as=post_as)
        assert {action.session_id for action in posted.actions} == {"a", "b"}
        await shop.done(*posted.actions)
        for session in ("a", "b"):
            steps = await shop.until_steps(2, session)
            assert steps[1].text in ("hello", "['hello']")
        assert [member.session_id for member in await list_participants(shop.db, ConversationId("t"))] == [
            "a",
            "b",
            "c",
        ]


async def test_a_session_that_pulls_reads_each_post_once_also_over_crashes(tmp_path: Path) -> None:
    gate = Gate()
    read: list[list[str]] = []

    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        await gate.passing()
        read.append([said.text for said in frame.inputs])
        return out(frame, done=frame.step == "4")

    async with workshop(tmp_path, moniker("m", body)) as shop:
        thread = ConversationId(await shop.thread("t"))
        await post_to_conversation(shop.db, thread, text="before it came")
        await shop.create("m", conversation="t", delivery="pull")
        await gate.reached.wait()
        await post_to_conversation(shop.db, thread, text="one")
        await post_to_conversation(shop.db, thread, text="two")
        await gate.let_one_through()
        await gate.reached.wait()
        await post_to_conversation(shop.db, thread, text="three")
        await shop.crash()
        gate.close()
        await shop.start()
        await gate.let_one_through()
        await gate.reached.wait()
        await shop.crash()
        gate.close()
        await shop.start()
        await gate.let_one_through()
        await gate.let_one_through()
        await shop.until(SessionStatus.DONE)
        inputs = [said["text"] for step in await shop.steps() for said in (step.guidance or {}).get("inputs", [])]
        assert inputs == ["one", "two", "three"]
        assert [step.iteration for step in await shop.steps()] == [0, 1, 2, 3]


async def test_a_pulling_session_that_is_created_again_skips_no_post(tmp_path: Path) -> None:
    gate = Gate()

    async def body(ctx: Any, frame: StepFrame) -> StepOut:
        await gate.passing()
        return out(frame, done=frame.step == "2", data={"read": [said.text for said in frame.inputs]})

    async with workshop(tmp_path, moniker("m", body)) as shop:
        thread = ConversationId(await shop.thread("t"))
        async with shop.writes_held("agent_state"):
            created = await shop.create("m", conversation="t", delivery="pull")
            await gate.reached.wait()
            await post_to_conversation(shop.db, thread, text="hello")
            await shop.crash(writing=False)
        gate.open()
        await shop.start()
        await shop.done(created)
        await shop.until(SessionStatus.DONE)
        assert [step.data["read"] for step in await shop.steps()] == [["hello"], []]
