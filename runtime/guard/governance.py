"""`governance.yaml`: its shape, and reading it so that no mistake in it goes unnoticed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runtime.guard.errors import Fault, GovernanceError
from runtime.guard.patterns import PatternAction
from runtime.guard.pii import PiiAction, PiiKind
from runtime.guard.port import Channel, Severity

DEFAULT = Path(__file__).resolve().parent / "data" / "governance.yaml"
MAX_FILE_BYTES = 256 * 1024
MAX_DEPTH = 12

Id = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,79}$")]
AgentTypes = Literal["*"] | tuple[Annotated[str, Field(min_length=1)], ...]
Seconds = Annotated[float, Field(gt=0, le=600)]
Count = Annotated[int, Field(ge=0)]


class Part(BaseModel):
    """A part of the file: refuses keys that it does not know, and values of the wrong type ("yes" is no number)."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class GatePart(Part):
    """What every gate has."""

    enabled: bool = True
    fail_closed: bool = True
    timeout_s: Seconds = 5.0
    channels: tuple[Channel, ...] = tuple(Channel)
    agent_types: AgentTypes = "*"


class PrinciplePart(Part):
    """A principle for the judge."""

    id: Id
    name: Annotated[str, Field(min_length=1, max_length=200)]
    text: Annotated[str, Field(min_length=1, max_length=4000)]
    applies_to: AgentTypes = "*"
    enabled: bool = True
    severity: Severity = Severity.HIGH


class LimitsPart(Part):
    """The most of each in one text."""

    characters: Count | None = None
    lines: Count | None = None
    links: Count | None = None


class PatternPart(GatePart):
    """A regular expression and what to do where it is found."""

    id: Id
    pattern: Annotated[str, Field(min_length=1)]
    action: PatternAction
    reason: Annotated[str, Field(min_length=1, max_length=500)]
    severity: Severity = Severity.MEDIUM
    ignore_case: bool = True


class SecretsPart(GatePart):
    """The secrets rule."""


class PiiPart(GatePart):
    """The rule for personal data."""

    action: PiiAction = PiiAction.REDACT
    severity: Severity = Severity.MEDIUM
    engine: Literal["builtin", "presidio"] = "builtin"
    kinds: tuple[PiiKind, ...] = tuple(PiiKind)
    language: Annotated[str, Field(pattern=r"^[a-z]{2}$")] = "en"


class LinksPart(GatePart):
    """The link rule."""

    channels: tuple[Channel, ...] = (Channel.OUTPUT,)
    allowed_hosts: tuple[Annotated[str, Field(pattern=r"^[a-z0-9-]+(\.[a-z0-9-]+)+$")], ...] = ()


class ScoringPart(GatePart):
    """The scoring gate; without a threshold, the one that the weights were measured with."""

    channels: tuple[Channel, ...] = (Channel.TOOL_OUTPUT, Channel.MEMORY)
    threshold: Annotated[float, Field(gt=0, lt=1)] | None = None
    severity: Severity = Severity.LOW


class JudgePart(GatePart):
    """The model judge."""

    channels: tuple[Channel, ...] = (Channel.OUTPUT,)
    timeout_s: Seconds = 30.0
    max_characters: Annotated[int, Field(ge=1)] = 20_000
    max_tokens: Annotated[int, Field(ge=16)] = 300


class Governance(Part):
    """The whole file. A gate whose part is left out is on, with the defaults above; the judge needs principles."""

    version: Literal[1]
    principles: tuple[PrinciplePart, ...] = ()
    limits: dict[Channel, LimitsPart] = Field(default_factory=dict)
    patterns: tuple[PatternPart, ...] = ()
    secrets: SecretsPart = SecretsPart()
    pii: PiiPart = PiiPart()
    links: LinksPart = LinksPart()
    scoring: ScoringPart = ScoringPart()
    judge: JudgePart = JudgePart()


def load(path: Path = DEFAULT) -> Governance:
    """The settings in a file. Raises `GovernanceError` with every mistake and its line."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise _refused(path.name, 1, f"cannot be read ({error.strerror}): give the path of a file") from error
    if len(raw) > MAX_FILE_BYTES:
        raise _refused(path.name, 1, f"over {MAX_FILE_BYTES} bytes: shorten the file")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise _refused(path.name, raw.count(b"\n", 0, error.start) + 1, "not UTF-8: save the file as UTF-8") from error
    return parse(text, path.name)


def parse(text: str, name: str = "governance.yaml") -> Governance:
    """The settings in a text; `name` stands in the messages. Raises `GovernanceError`."""
    root = _tree(text, name)
    faults = [*_repeated(root), *_merged(root)]
    if faults:
        raise GovernanceError(name, tuple(faults))
    try:
        # ValueError: a date or number that has the form of one and is none, such as 2024-13-45
        governance = Governance.model_validate(yaml.safe_load(text))
    except ValidationError as error:
        raise GovernanceError(name, tuple(_faults(error, root))) from error
    except (yaml.YAMLError, ValueError) as error:
        raise _refused(
            name, 1, f"holds a value that cannot be read ({type(error).__name__}): put it in quotes"
        ) from error
    _check_ids(governance, name, root)
    return governance


def _event_line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def _tree(text: str, name: str) -> Any:
    """The file's nodes, which know their lines. Aliases are refused: a few of them make gigabytes."""
    depth = 0
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                raise _refused(name, _event_line(event), f"the alias *{event.anchor}: write the value out")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise _refused(name, _event_line(event), f"over {MAX_DEPTH} levels deep: flatten it")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise _refused(name, line, f"no YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise _refused(
            name, 1, f"no YAML ({type(error).__name__}): remove characters that cannot be printed"
        ) from error
    if not isinstance(root, yaml.MappingNode):
        raise _refused(name, 1, "holds no keys: begin with `version: 1`")
    return root


def _repeated(node: Any, place: str = "") -> Iterator[Fault]:
    """Keys that stand twice; YAML would silently take the last."""
    if isinstance(node, yaml.SequenceNode):
        for at, item in enumerate(node.value):
            yield from _repeated(item, _joined(place, str(at)))
    if not isinstance(node, yaml.MappingNode):
        return
    lines: dict[str, int] = {}
    for key, value in node.value:
        word, line = str(key.value), key.start_mark.line + 1
        if word in lines:
            yield Fault(line, _joined(place, word), f"stands twice, first in line {lines[word]}: remove one")
        lines.setdefault(word, line)
        yield from _repeated(value, _joined(place, word))


def _merged(root: Any) -> Iterator[Fault]:
    for key, _ in root.value:
        if key.value == "<<":
            yield Fault(key.start_mark.line + 1, "<<", "merges other keys: write them out")


def _faults(error: ValidationError, root: Any) -> Iterator[Fault]:
    for each in error.errors(include_url=False, include_context=False):
        where = [str(step) for step in each["loc"]]
        what = "not known here: remove it or mend its name" if each["type"] == "extra_forbidden" else each["msg"]
        yield Fault(_line(root, where), ".".join(where), what)


def _line(node: Any, where: list[str]) -> int:
    """The line of the node at a place, or of the nearest one around it that exists."""
    line = int(node.start_mark.line) + 1
    for step in where:
        if isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if str(key.value) == step), None)
            if found is None:
                return line
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(node, yaml.SequenceNode) and step.isdecimal() and int(step) < len(node.value):
            node = node.value[int(step)]
            line = node.start_mark.line + 1
    return line


def _check_ids(governance: Governance, name: str, root: Any) -> None:
    """Ids name rules in traces, so no two may be the same."""
    faults: list[Fault] = []
    for part, ids in (
        ("principles", [one.id for one in governance.principles]),
        ("patterns", [one.id for one in governance.patterns]),
    ):
        for at, each in enumerate(ids):
            if each in ids[:at]:
                where = [part, str(at), "id"]
                faults.append(Fault(_line(root, where), ".".join(where), f"{each!r} is taken: choose another id"))
    if faults:
        raise GovernanceError(name, tuple(faults))


def _joined(place: str, step: str) -> str:
    return f"{place}.{step}" if place else step


def _refused(name: str, line: int, what: str) -> GovernanceError:
    return GovernanceError(name, (Fault(line, "", what),))
