"""A guard from `governance.yaml`: the one place that knows all gates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from runtime.guard.automaton import Automaton
from runtime.guard.decision import Notary
from runtime.guard.errors import Fault, GovernanceError, PatternError
from runtime.guard.governance import AgentTypes, GatePart, Governance, PatternPart, PiiPart
from runtime.guard.guard import Cost, Guard, Placed
from runtime.guard.judge import JudgeGate
from runtime.guard.judging import Principle
from runtime.guard.limits import Limits, LimitsGate
from runtime.guard.links import Links, LinksGate
from runtime.guard.patterns import Pattern, PatternGate
from runtime.guard.pii import BuiltIn, PiiGate
from runtime.guard.port import AgentType, Channel, Gate, GateName, RuleId
from runtime.guard.presidio import Analyzer, Presidio, load_presidio
from runtime.guard.scoring import Classifier, ScoringGate
from runtime.guard.secretsgate import Secrets, SecretsGate
from runtime.llm.port import ChatModel
from runtime.ports import Clock


@dataclass(frozen=True, slots=True)
class Means:
    """What a guard needs besides its settings. `secrets` are the configured ones by name; `nonce` gives 8 to 64 fresh
    letters and digits a call; `digest_key` is 16 to 64 random bytes, the same as long as digests are to be compared;
    `model` may be None only if the judge is off or has no principles."""

    clock: Clock
    nonce: Callable[[], str]
    digest_key: bytes
    secrets: Mapping[str, str]
    model: ChatModel | None = None
    presidio: Callable[[str], Analyzer] = load_presidio


def build(governance: Governance, means: Means) -> Guard:
    """The guard that `governance` asks for.

    Raises `PatternError`, `SecretError`, `MissingExtra` or `WeightsError` for what is on and cannot run, and
    `GovernanceError` for a judge without a model: a gate that is asked for is never left out.
    """
    secrets = Secrets(means.secrets)
    placed = [*_text_gates(governance, means, secrets), *_scoring(governance), *_judge(governance, means)]
    return Guard(placed, clock=means.clock, notary=Notary(means.digest_key, secrets.redact))


def _text_gates(governance: Governance, means: Means, secrets: Secrets) -> Iterator[Placed]:
    """Limits first, so that nobody reads more; then secrets, so that nobody reads those; links last, as the other rules
    look for what links hold."""
    limits = {channel: Limits(part.characters, part.lines, part.links) for channel, part in governance.limits.items()}
    yield Placed(LimitsGate(limits), frozenset(limits))
    if governance.secrets.enabled:
        part = governance.secrets
        yield _placed(SecretsGate(secrets, fail_closed=part.fail_closed), part)
    yield from (_pattern(part) for part in governance.patterns if part.enabled)
    if governance.pii.enabled:
        yield _placed(_pii(governance.pii, means), governance.pii)
    if governance.links.enabled:
        links = Links(frozenset(governance.links.allowed_hosts))
        yield _placed(LinksGate(links, fail_closed=governance.links.fail_closed), governance.links)


def _pattern(part: PatternPart) -> Placed:
    try:
        automaton = Automaton(part.pattern, ignore_case=part.ignore_case)
    except PatternError as error:
        raise PatternError(f"pattern {part.id}: {error}") from error
    channels, agent_types = frozenset(part.channels), _types(part.agent_types)
    pattern = Pattern(RuleId(part.id), automaton, part.action, part.reason, part.severity, channels, agent_types)
    return _placed(PatternGate(pattern, GateName(f"pattern {part.id}"), part.fail_closed), part)


def _pii(part: PiiPart, means: Means) -> PiiGate:
    finder = Presidio(means.presidio(part.language), part.language) if part.engine == "presidio" else None
    return PiiGate(finder or BuiltIn(frozenset(part.kinds)), part.action, part.severity, fail_closed=part.fail_closed)


def _scoring(governance: Governance) -> Iterator[Placed]:
    part = governance.scoring
    if part.enabled:
        gate = ScoringGate(Classifier.load(), part.threshold, part.severity, fail_closed=part.fail_closed)
        yield _placed(gate, part, Cost.NUMBERS)


def _judge(governance: Governance, means: Means) -> Iterator[Placed]:
    part, principles = governance.judge, _principles(governance)
    if not part.enabled or not principles:
        return
    if means.model is None:
        cure = "the judge is on and there is no model for it: configure one, or write judge.enabled: false"
        raise GovernanceError("governance.yaml", (Fault(1, "judge", cure),))
    gate = JudgeGate(
        model=means.model,
        principles=principles,
        nonce=means.nonce,
        deadline_s=part.timeout_s,
        max_characters=part.max_characters,
        max_tokens=part.max_tokens,
        fail_closed=part.fail_closed,
    )
    yield _placed(gate, part, Cost.MODEL)


def _principles(governance: Governance) -> tuple[Principle, ...]:
    return tuple(
        Principle(RuleId(part.id), part.name, part.text, part.severity, _types(part.applies_to))
        for part in governance.principles
        if part.enabled
    )


def _placed(gate: Gate, part: GatePart, cost: Cost = Cost.TEXT) -> Placed:
    channels: Iterable[Channel] = part.channels
    return Placed(gate, frozenset(channels), cost, _types(part.agent_types), part.timeout_s)


def _types(agent_types: AgentTypes) -> frozenset[AgentType] | None:
    return None if agent_types == "*" else frozenset(AgentType(name) for name in agent_types)
