"""A worker with one more moniker: a clerk that makes a call nobody may make twice, and that can be slow to answer.

What is said to it decides: "pay ..." makes the call, which hangs the first time it is made; "slow ..." answers with
one step and hangs in the next one; "ask ..." puts the question of that name to a person; anything else is answered at
once.
"""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Annotated

import uvloop
from pydantic import Field

from monikers.catalogue import Catalogue, catalogue
from runtime.approvals.port import FormField, QuestionKind
from runtime.contract import Ctx, FrozenModel, Moniker, MonikerName, Question, StepFrame, StepOut, WaitForInput
from runtime.files import AllowedFiles
from runtime.llm.factory import ModelSettings, chat_model, close_chat_model
from runtime.logs import configure_logs
from runtime.settings import WorkerSettings, worker_settings
from runtime.stopping import stop_event
from runtime.wiring import Outside
from runtime.worker import run_worker
from store.clock import SystemClock, SystemIds
from store.crashpoints import no_crash
from store.database import open_store
from store.options import StoreOptions

NASTY = "<img src=x onerror=alert(1)> <b>bold</b> & “quotes”"
QUESTIONS = {
    "plan": Question(
        kind=QuestionKind.PLAN,
        question="Shall the well be dug like this?",
        about={"depth": 12, "place": "behind the house", "note": NASTY},
        editable=["Dig to the water", "Line the wall with stone", "Build the steps"],
    ),
    "call": Question(
        kind=QuestionKind.TOOL_CALL,
        question="May 42.10 EUR be sent to the mason?",
        about={"tool": "send_money", "arguments": {"to": "A. Mason", "amount": 42.1}},
        editable={"to": "A. Mason", "amount": 42.1},
        timeout_s=3600,
    ),
    "form": Question(
        kind=QuestionKind.FORM,
        question="A few facts are needed before the digging begins",
        fields=(
            FormField(name="depth", label="How deep, in metres", kind="number"),
            FormField(name="stone", label="Which stone", kind="choice", choices=("granite", "slate")),
            FormField(name="covered", label="With a cover", kind="yes_no", required=False),
            FormField(name="wishes", label="Other wishes", kind="long_text", required=False),
        ),
    ),
    "concern": Question(
        kind=QuestionKind.CONCERN,
        question=f"May this text be shown? {NASTY}",
        about={"text": NASTY, "why": "it looks like markup"},
    ),
}


class ClerkConfig(FrozenModel):
    """Where the clerk writes down what it pays."""

    ledger: Annotated[str, Field(description="A file that gets one line for each time the call is made")]


async def step(ctx: Ctx[ClerkConfig], frame: StepFrame) -> StepOut:
    """Answer what was said; hangs where the words ask for it."""
    said = frame.inputs[0].text if frame.inputs else ""
    if said.startswith("pay"):
        answer = await ctx.record("pay", partial(_pay, Path(ctx.config.ledger)), safe_to_repeat=False)
        return _answer(frame, f"Settled: {answer}")
    if said.startswith("ask"):
        name = said.split()[-1]
        given = await ctx.ask(name, QUESTIONS[name])
        value = "" if given.value is None else f" {json.dumps(given.value, ensure_ascii=False)}"
        return _answer(frame, f"{name}: {given.decision.value}{value} {given.feedback or ''}".strip())
    if said.startswith("slow"):
        return StepOut(step=frame.step, next_step="hang", state={}, text=f"Let me see about {said}")
    if frame.step == "hang":
        await asyncio.Event().wait()
    return _answer(frame, f"Heard: {said}" if said else "At your service")


def _answer(frame: StepFrame, text: str) -> StepOut:
    return StepOut(step=frame.step, next_step="listen", state={}, text=text, wait=WaitForInput())


async def _pay(ledger: Path) -> str:
    if await asyncio.to_thread(_written, ledger) == 1:
        await asyncio.Event().wait()
    return "paid"


def _written(ledger: Path) -> int:
    """Write one more line; how many there are now."""
    with ledger.open("a+") as book:
        book.write("paid\n")
        book.seek(0)
        return len(book.readlines())


CLERK = Moniker(
    name=MonikerName("clerk"),
    summary="Pays, and takes its time.",
    config_model=ClerkConfig,
    step=step,
)


async def _work(settings: WorkerSettings) -> None:
    log = configure_logs(settings.log_format, settings.log_level)
    model = chat_model(ModelSettings())
    store = await open_store(StoreOptions(settings.data), clock=SystemClock(), ids=SystemIds())
    known = Catalogue.of(*catalogue(), CLERK)
    files = AllowedFiles(settings.file_roots)
    names = [str(name) for name in known.names()]
    outside = Outside(model, known, names, files, log, no_crash)
    await run_worker(store, settings, outside, stop_event(until_stdin_closes=False))
    await close_chat_model(model)
    await store.close()


if __name__ == "__main__":
    uvloop.run(_work(worker_settings()))
