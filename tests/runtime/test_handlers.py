from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from runtime import inputs
from runtime.contract import StepFrame, StepOut, WaitForInput
from runtime.projector import Projector
from runtime.runner import Runner
from runtime.session import Guidance
from store.actions import Action, ActionKind, ActionStatus
from store.agent_state import SessionStatus, find_agent_state
from store.conversations import list_participants
from store.ids import ActionId, AgentId, ConversationId, SessionId
from store.posting import PostAs, post_to_conversation
from tests.runtime.kit import Gate, Workshop, moniker, out, workshop
from tests.support import eventually

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


@pytest.mark.parametrize("kind", [kind for kind in ActionKind if kind not in {ActionKind.UNKNOWN, ActionKind.CANCEL}])
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


async def test_a_session_takes_so_many_unread_interrupts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "_MAX_GUIDANCE_WAITING", 3)
    async with workshop(tmp_path, WAITS) as shop:
        await shop.create("waits")
        await shop.until(SessionStatus.WAITING)
        await shop.done(await shop.pause())
        await shop.done(*[await shop.guide(number) for number in range(3)])
        assert await shop.error_of(await shop.guide(3)) == "session 's' has 3 unread interrupts"
        await shop.done(await shop.resume())
        await shop.until(SessionStatus.WAITING)  # it has read them all
        await shop.done(await shop.guide(4))


async def test_what_is_said_to_a_paused_session_while_it_leaves_memory_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores, guide, after, before = Projector._store, inputs.Inputs._guide, Gate(), Gate()
    heard: list[Any] = []

    async def held(self: Projector, sessions: Any, messages: Any) -> None:
        await before.passing()
        await stores(self, sessions, messages)
        await after.passing()

    def told(self: inputs.Inputs, runner: Runner, guidance: Guidance) -> None:
        guide(self, runner, guidance)
        heard.append(guidance.value)

    monkeypatch.setattr(inputs.Inputs, "_guide", told)
    async with workshop(tmp_path, WAITS) as shop:
        await shop.create("waits")
        await shop.until(SessionStatus.WAITING)
        await shop.done(await shop.pause())
        monkeypatch.setattr(Projector, "_store", held)
        before.open()
        said = [await shop.guide(0)]
        await after.reached.wait()  # its row is stored, and it is about to leave
        before.close()
        said.append(await shop.guide(1))
        await eventually(lambda: heard == [0, 1])
        after.open()
        await before.reached.wait()
        said.append(await shop.guide(2))
        await eventually(lambda: heard == [0, 1, 2])
        before.open()
        await shop.done(*said)
        assert [item["guidance"] for item in ((await shop.state()).inbox or {})["guidance"]] == [0, 1, 2]


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
