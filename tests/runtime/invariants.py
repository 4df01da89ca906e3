"""What is true of every store whose worker has nothing left to do, however often workers died on it."""

from __future__ import annotations

from collections import Counter

from runtime.session import session_of_row
from store.actions import ActionKind, ActionStatus, WhenBusy, queue_of
from store.agent_state import AgentState, states_of
from store.agent_steps import AgentStep, StepStatus, journal_of, shown_steps
from store.database import TenantStore
from store.ids import SessionId
from store.messages import messages_of


async def hold_laws(db: TenantStore) -> None:
    """What is true of every store when its worker has nothing left to do."""
    actions = await queue_of(db).find()
    assert [action for action in actions if not action.processed] == []
    assert all(action.status in (ActionStatus.DONE, ActionStatus.FAILED) for action in actions), [
        (action.kind, action.status, action.error) for action in actions
    ]
    steps = [row.item for row in await shown_steps(db, await journal_of(db).created_since(0))]
    states = {state.session_id: state for state in await states_of(db).find()}
    for session_id, state in states.items():
        mine = sorted([step for step in steps if step.session_id == session_id], key=lambda step: step.iteration)
        assert [step.iteration for step in mine] == list(range(len(mine)))
        _holds_for(state, mine)
    assert {step.session_id for step in steps} <= states.keys()
    await _messages_are_the_steps(db, steps, states)
    await _nothing_was_read_twice(db, steps)


def _holds_for(state: AgentState, steps: list[AgentStep]) -> None:
    """The row is the fold of its steps, but for what people did behind the last one."""
    fold = session_of_row(state, owner="", epoch=0)
    fold.iteration, fold.context, fold.usage = -1, {}, {}
    for step in steps:
        fold.apply(step)
    found = (state.iteration, state.context or {}, state.next_step_token, state.usage, state.last_error)
    assert found == (fold.iteration, fold.context, fold.next_step_token, fold.usage, fold.last_error)


async def _messages_are_the_steps(db: TenantStore, steps: list[AgentStep], states: dict[SessionId, AgentState]) -> None:
    for thread in {state.conversation_id for state in states.values() if state.conversation_id}:
        messages = [message for message in await messages_of(db).find() if message.conversation_id == thread]
        written = sorted(str(message.message_id) for message in messages if message.session_id is not None)
        assert written == sorted(str(step.id) for step in steps if states[step.session_id].conversation_id == thread)


async def _nothing_was_read_twice(db: TenantStore, steps: list[AgentStep]) -> None:
    """Every input that is done was read by one step; no other was read by more than one. The same of interrupts."""
    read = [step.guidance for step in steps if step.guidance and step.status is not StepStatus.ERROR]
    read = [guidance for guidance in read if not guidance.get("again")]
    inputs = Counter(said["text"] for guidance in read for said in guidance.get("inputs", []))
    interrupts = Counter(str(guidance["guidance"]) for guidance in read if "guidance" in guidance)
    asked = await queue_of(db).find()
    for action in asked:
        if action.kind is ActionKind.INPUT and action.status is ActionStatus.DONE:
            text = action.payload["text"]
            if action.payload.get("when_busy") != WhenBusy.INTERRUPT:
                assert inputs[text] == 1, (action.payload, inputs)
            assert inputs[text] + interrupts[text] <= 1, (action.payload, inputs, interrupts)
    texts = Counter(str(action.payload["guidance"]) for action in asked if action.kind is ActionKind.INTERRUPT)
    texts.update(str(action.payload["text"]) for action in asked if action.payload.get("when_busy") == "interrupt")
    assert all(times <= texts[text] for text, times in interrupts.items()), (interrupts, texts)
    said = Counter(str(action.payload["text"]) for action in asked if action.kind is ActionKind.INPUT)
    assert all(times <= said[text] for text, times in inputs.items() if text in said), (inputs, said)
