"""A step between its gates: what is said to a moniker passes the guard before it, what it says passes it after.

    inputs, guidance ─▶ input gate ─▶ moniker ─▶ output gate ─▶ the step's row
                          └ blocked: a fixed answer, the moniker is not called
                                                  └ blocked: a fixed text, what was said is not stored

Invariant: **no text is read by a moniker, or stored as what it said, that a gate of its channel has not let pass.**
Gates are asked again after a crash and read what they decided from the step's records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import TypeAdapter

from runtime.context import StepContext
from runtime.contract import Json, Moniker, StepFrame, StepInput, StepOut, Wait, WaitForApproval, WaitForInput
from runtime.guard.judgement import Admitted
from runtime.guard.onstep import Asking, StepGuard
from runtime.guard.pieces import joined, redacted, strings_of, with_strings
from runtime.guard.port import Block, Channel

BLOCKED_INPUT = "This was not taken up: a rule of this deployment does not let it through."
BLOCKED_OUTPUT = "The answer is withheld: a rule of this deployment does not let it out."
#: a shorter text is taken out of the state only where it is all of a string: a word may stand there for itself
_FOUND_IN_CHARS = 20
#: a string of the state this long may be the beginning of a text
_BEGINNING_CHARS = 200
_RESUMES = "resumes"
_WAIT: TypeAdapter[Wait | None] = TypeAdapter(Wait | None)


async def gated_step(moniker: Moniker[Any], context: StepContext, frame: StepFrame) -> Any:
    """What the moniker answers, or what is answered in its place. Raises what the moniker raises.

    Raises `GateFailedError` when a gate that fails closed has no verdict, and what `ctx.ask` does when a person has to
    look at a text first.
    """
    if moniker.gates == "own":
        return await moniker.step(context, frame)
    guard = context.guard
    if (frame.inputs or frame.guidance is not None) and guard.see(Channel.INPUT):
        admitted = await _let_in(guard, context, moniker, frame)
        if isinstance(admitted, StepOut):
            return admitted
        frame = admitted
    out: Any = await moniker.step(context, frame)  # a moniker may answer anything; who called looks at it
    if isinstance(out, StepOut) and guard.see(Channel.OUTPUT):
        return await _let_out(guard, context, out)
    return out


# What comes in.


async def _let_in(
    guard: StepGuard, context: StepContext, moniker: Moniker[Any], frame: StepFrame
) -> StepFrame | StepOut:
    """The frame with what may be read of it, or the answer to a frame of which nothing may."""
    wait = _wait_before(context, moniker, frame)
    more = {_RESUMES: None if wait is None else wait.model_dump(mode="json")}
    askings = [_asking_in(item, more) for item in frame.inputs]
    if frame.guidance is not None:
        askings.append(Asking(joined(list(strings_of(frame.guidance))), "guidance", frame.guidance, more))
    admitted = await guard.admit_all(askings, Channel.INPUT)
    inputs = [
        _input_after(item, found) for item, found in zip(frame.inputs, admitted, strict=False) if found.block is None
    ]
    guidance = frame.guidance
    if guidance is not None:
        guidance = _guidance_after(guidance, admitted[-1])
    blocked = [found.block for found in admitted if found.block is not None]
    if blocked and not inputs and guidance is None:
        return _not_taken_up(frame, blocked[0], wait)
    return frame.model_copy(update={"inputs": tuple(inputs), "guidance": guidance})


def _asking_in(item: StepInput, more: Json) -> Asking:
    editable = item.text if item.data is None else {"text": item.text, "data": item.data}
    source = f"user:{item.sender}" if item.sender else "input"
    return Asking(joined([item.text, *strings_of(item.data)]), source, editable, more)


def _input_after(item: StepInput, admitted: Admitted) -> StepInput:
    match admitted.edited:
        case str() as text:
            return item.model_copy(update={"text": text})
        case {"text": str() as text, **rest}:
            data = rest.get("data")
            return item.model_copy(update={"text": text, "data": data if isinstance(data, dict) else None})
        case _:
            pass
    if not admitted.redactions:
        return item
    text, *strings = redacted([item.text, *strings_of(item.data)], admitted.redactions)
    return item.model_copy(update={"text": text, "data": with_strings(item.data, iter(strings))})


def _guidance_after(guidance: Any, admitted: Admitted) -> Any:
    if admitted.block is not None:
        return None
    if admitted.edited is not None:
        return admitted.edited
    if not admitted.redactions:
        return guidance
    return with_strings(guidance, iter(redacted(list(strings_of(guidance)), admitted.redactions)))


def _not_taken_up(frame: StepFrame, block: Block, wait: Wait | None) -> StepOut:
    """A step that changes nothing: the session waits again for what it waited for, and its turn ends well."""
    return StepOut(
        step=frame.step,
        next_step=frame.step,
        state=frame.state,
        text=BLOCKED_INPUT,
        data=_marked(block, Channel.INPUT),
        wait=wait,
    )


def _wait_before(context: StepContext, moniker: Moniker[Any], frame: StepFrame) -> Wait | None:
    """What the session waited for when this was said to it."""
    session = context.calls.session
    if isinstance(session.wait, WaitForApproval):
        stored = [item["about"][_RESUMES] for item in session.wait.items if _RESUMES in item.get("about", {})]
        return read_wait(stored[0]) if stored else _rest_of(moniker, frame)
    if session.wait is None and session.again:
        return _rest_of(moniker, frame)
    return session.wait


def read_wait(stored: Any) -> Wait | None:
    """A wait as a step's row has it."""
    return _WAIT.validate_python(stored) if stored else None


def _rest_of(moniker: Moniker[Any], frame: StepFrame) -> Wait | None:
    return WaitForInput() if frame.inputs and moniker.takes_input == "at_wait" else None


# What goes out.


async def _let_out(guard: StepGuard, context: StepContext, out: StepOut) -> StepOut:
    prompt = out.wait.prompt if isinstance(out.wait, WaitForInput) else None
    pieces = [out.text or "", out.notes or "", prompt or "", *strings_of(out.data)]
    if not any(pieces):
        return out
    asking = Asking(joined(pieces), f"moniker:{context.moniker}", out.text)
    admitted = (await guard.admit_all([asking], Channel.OUTPUT))[0]
    if admitted.block is not None:
        return _withheld(out, admitted.block, pieces)
    return _out_after(out, admitted, pieces)


def _withheld(out: StepOut, block: Block, pieces: Sequence[str]) -> StepOut:
    wait = WaitForInput() if isinstance(out.wait, WaitForInput) else out.wait
    state = _without(out.state, [(piece, BLOCKED_OUTPUT) for piece in pieces[:3] if piece])
    data = _marked(block, Channel.OUTPUT)
    return out.model_copy(update={"text": BLOCKED_OUTPUT, "data": data, "notes": None, "wait": wait, "state": state})


def _out_after(out: StepOut, admitted: Admitted, pieces: Sequence[str]) -> StepOut:
    left = redacted(pieces, admitted.redactions) if admitted.redactions else list(pieces)
    if isinstance(admitted.edited, str):
        left[0] = admitted.edited
    if left == list(pieces):
        return out
    changed = [(old, new) for old, new in zip(pieces, left, strict=True) if old != new and old]
    text, notes, prompt, *strings = left
    return out.model_copy(
        update={
            "text": text if out.text is not None or text else None,
            "notes": notes if out.notes is not None else None,
            "data": with_strings(out.data, iter(strings)),
            "wait": WaitForInput(prompt=prompt or None) if isinstance(out.wait, WaitForInput) else out.wait,
            "state": _without(out.state, changed),
        }
    )


def _marked(block: Block, channel: Channel) -> Json:
    return {"blocked": True, "rule": block.rule, "channel": channel.value}


def _without(state: Json, changes: Sequence[tuple[str, str]]) -> Json:
    """`state` with texts replaced where a moniker remembers them whole, inside a longer string, or cut short.

    A state is the moniker's own: what it has made of a text in other words stays there.
    """
    if not changes:
        return state
    strings: Iterator[str] = (_replaced(string, changes) for string in strings_of(state))
    found: Json = with_strings(state, strings)
    return found


def _replaced(string: str, changes: Sequence[tuple[str, str]]) -> str:
    for old, new in changes:
        cut = string.removesuffix("…")
        if string == old or (len(cut) >= _BEGINNING_CHARS and old.startswith(cut)):
            return new
        if len(old) >= _FOUND_IN_CHARS:
            string = string.replace(old, new)
    return string
