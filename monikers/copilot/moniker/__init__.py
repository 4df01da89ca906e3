"""The copilot engine as a moniker: a session owns a board (docs/copilot-queue.md)."""

from __future__ import annotations

from monikers.copilot.moniker.config import CopilotConfig
from monikers.copilot.moniker.step import LISTEN, step
from runtime.contract import Moniker, MonikerName

__all__ = ["COPILOT", "CopilotConfig"]

COPILOT = Moniker(
    name=MonikerName("copilot"),
    summary="Listens to a conversation and gives live advice: many observers on one blackboard.",
    config_model=CopilotConfig,
    step=step,
    first_step=LISTEN,
    takes_input="any_step",
    task_field="user_context",
    example={"agent_set": "sales_call"},
)
