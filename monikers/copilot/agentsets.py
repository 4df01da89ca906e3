"""Agent sets that are ready to run, and recorded transcripts to try them on (monikers/copilot/sets/).

A set is a JSON file: `name`, `title`, `description`, `advised` (the speaker who is advised) and `agents`, each the
configuration of a `DynamicAgent`. A transcript has `segments`, and what its host would give as context.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from monikers.copilot.dynamic import DynamicAgent
from monikers.copilot.errors import AgentConfigurationError
from monikers.copilot.models import TranscriptSegment

FOLDER = Path(__file__).parent / "sets"
_TRANSCRIPTS = "transcripts"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class AgentSet:
    """Agents that work together on one kind of conversation."""

    name: str
    title: str
    description: str
    advised: str
    configs: tuple[dict[str, Any], ...]

    def agents(self) -> list[DynamicAgent]:
        """Fresh agents, to be registered with an engine."""
        return [DynamicAgent(config) for config in self.configs]


@dataclass(frozen=True, slots=True)
class RecordedTranscript:
    """A conversation that was written down, with what its host knows. `agent_set` is the set that it was made for."""

    name: str
    title: str
    agent_set: str
    advised: str
    user_context: str
    language_directive: str
    rag_docs: tuple[str, ...]
    segments: tuple[TranscriptSegment, ...]


def set_names(folder: Path = FOLDER) -> list[str]:
    """The sets that there are, by name."""
    return sorted(path.stem for path in folder.glob("*.json"))


def load_set(name: str, folder: Path = FOLDER) -> AgentSet:
    """A set by its name. Raises `AgentConfigurationError` when there is none, or it is malformed."""
    found = _read(folder, name, "agent set", set_names(folder))
    if not isinstance(found.get("agents"), list) or not found["agents"]:
        raise AgentConfigurationError(f'the agent set {name!r} has no agents: give it a list of them as "agents"')
    return AgentSet(
        name=name,
        title=str(found.get("title", name)),
        description=str(found.get("description", "")),
        advised=str(found.get("advised", "")),
        configs=tuple(found["agents"]),
    )


def transcript_names(folder: Path = FOLDER) -> list[str]:
    """The recorded transcripts that there are, by name."""
    return sorted(path.stem for path in (folder / _TRANSCRIPTS).glob("*.json"))


def load_transcript(name: str, folder: Path = FOLDER) -> RecordedTranscript:
    """A recorded transcript by its name. Raises `AgentConfigurationError` when there is none, or it is malformed."""
    found = _read(folder / _TRANSCRIPTS, name, "transcript", transcript_names(folder))
    try:
        segments = tuple(TranscriptSegment.model_validate(one) for one in found["segments"])
    except (KeyError, TypeError, ValueError) as error:
        raise AgentConfigurationError(f"the transcript {name!r} has malformed segments: {str(error)[:200]}") from error
    return RecordedTranscript(
        name=name,
        title=str(found.get("title", name)),
        agent_set=str(found.get("set", "")),
        advised=str(found.get("advised", "")),
        user_context=str(found.get("user_context", "")),
        language_directive=str(found.get("language_directive", "")),
        rag_docs=tuple(map(str, found.get("rag_docs", ()))),
        segments=segments,
    )


def _read(folder: Path, name: str, what: str, known: list[str]) -> dict[str, Any]:
    if not _NAME.fullmatch(name) or name not in known:
        raise AgentConfigurationError(f"there is no {what} {name[:80]!r}: use one of {', '.join(known)}")
    try:
        found = json.loads((folder / f"{name}.json").read_bytes())
    except (OSError, ValueError) as error:
        raise AgentConfigurationError(f"the {what} {name!r} cannot be read: {str(error)[:200]}") from error
    if not isinstance(found, dict):
        raise AgentConfigurationError(f"the {what} {name!r} is no object: see monikers/copilot/sets/")
    return found
