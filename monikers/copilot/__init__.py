"""The copilot engine: many observers, one blackboard, live advice. A library of its own (docs/copilot.md)."""

from __future__ import annotations

from monikers.copilot.agent import DEFAULT_MODEL, AgentConfig, BaseAgent
from monikers.copilot.agentsets import load_set, load_transcript, set_names, transcript_names
from monikers.copilot.approval import ApprovalPort, HeldInsight
from monikers.copilot.blackboard import Blackboard
from monikers.copilot.board import Board
from monikers.copilot.callbacks import AgentCallbackHandler
from monikers.copilot.conditions import ConditionEvaluator
from monikers.copilot.costs import Usage
from monikers.copilot.dynamic import DynamicAgent
from monikers.copilot.engine import AgentEngine
from monikers.copilot.errors import AgentConfigurationError, ReadOnlyError
from monikers.copilot.formats import output_schema
from monikers.copilot.frozen import plain
from monikers.copilot.limits import RateLimit
from monikers.copilot.llm import LLMClient, LLMResult
from monikers.copilot.models import (
    AgentConfigOverride,
    AgentContext,
    AgentInsight,
    AgentResponse,
    InsightType,
    TranscriptSegment,
    TriggerType,
)
from monikers.copilot.records import Event, Fact
from monikers.copilot.routing import Skip
from monikers.copilot.templates import PromptTemplateError
from monikers.copilot.tracing import StructuredLogTracer
from monikers.copilot.turnrecord import PhaseRecord, TurnRecord
from monikers.copilot.variants import agent_of
from monikers.copilot.versions import Version, VersionedAgent
from monikers.copilot.views import BlackboardView

__all__ = [
    "DEFAULT_MODEL",
    "AgentCallbackHandler",
    "AgentConfig",
    "AgentConfigOverride",
    "AgentConfigurationError",
    "AgentContext",
    "AgentEngine",
    "AgentInsight",
    "AgentResponse",
    "ApprovalPort",
    "BaseAgent",
    "Blackboard",
    "BlackboardView",
    "Board",
    "ConditionEvaluator",
    "DynamicAgent",
    "Event",
    "Fact",
    "HeldInsight",
    "InsightType",
    "LLMClient",
    "LLMResult",
    "PhaseRecord",
    "PromptTemplateError",
    "RateLimit",
    "ReadOnlyError",
    "Skip",
    "StructuredLogTracer",
    "TranscriptSegment",
    "TriggerType",
    "TurnRecord",
    "Usage",
    "Version",
    "VersionedAgent",
    "agent_of",
    "load_set",
    "load_transcript",
    "output_schema",
    "plain",
    "set_names",
    "transcript_names",
]
