"""The scoring gate: a small linear classifier for text that gives orders to a model.

It finds part of what is written in a way that it never saw, and docs/guard.md says how large that part was when it
was measured. Use it to look twice, not to be safe: escaping, taint and approvals do that.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import math
import re
import unicodedata
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runtime.guard.errors import WeightsError
from runtime.guard.port import Allow, Concern, GateName, Passage, RuleId, Severity, Verdict

RULE = RuleId("injection_score")
NAME = GateName("scoring")
WEIGHTS = Path(__file__).resolve().parent / "data" / "scoring_weights.json"

BITS = 14
WINDOW_CHARS = 240
STRIDE_CHARS = 120
_TOKEN = re.compile(r"\w+|[^\w\s]")
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_WINDOWS_AT_ONCE = 16


class Measured(BaseModel):
    """How the weights did on the families of the corpus that they never saw."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    trained_on: int
    attacks: int
    attack_families: int
    benign: int
    benign_families: int
    recall: float
    false_positive_rate: float


class _File(BaseModel):
    """The weights as they are stored: signed bytes in base64, one a bucket, to be multiplied with `scale`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bits: Annotated[int, Field(ge=4, le=20)]
    bias: float
    scale: float
    threshold: float
    weights: list[str]
    measured: Measured


@dataclass(frozen=True, slots=True)
class Classifier:
    """Weights of hashed words, pairs of words and pieces of words. Scores lie between 0 and 1."""

    bits: int
    bias: float
    weights: tuple[float, ...]
    threshold: float
    measured: Measured | None = None

    @classmethod
    def load(cls, path: Path = WEIGHTS) -> Classifier:
        """The classifier in a file. Raises `WeightsError` when it is missing or damaged."""
        cure = "restore it, or write it again with `python -m scripts.train_scoring`"
        try:
            file = _File.model_validate_json(path.read_bytes())
            raw = base64.b64decode("".join(file.weights), validate=True)
        except (OSError, ValidationError, binascii.Error) as error:
            raise WeightsError(f"{path.name} cannot be read ({type(error).__name__}): {cure}") from error
        if len(raw) != 1 << file.bits:
            raise WeightsError(f"{path.name} holds {len(raw)} weights, not {1 << file.bits}: {cure}")
        weights = tuple((byte - 256 if byte > 127 else byte) * file.scale for byte in raw)
        return cls(file.bits, file.bias, weights, file.threshold, file.measured)

    def score(self, text: str) -> float:
        """How much one window of text reads like an order to a model."""
        buckets = features(text, self.bits)
        if not buckets:
            return 0.0
        total = self.bias + sum(self.weights[bucket] for bucket in buckets) / math.sqrt(len(buckets))
        return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, total))))

    def highest(self, text: str) -> float:
        """The highest score of any window of a text; this is what is measured."""
        return max((self.score(window) for window in windows(text)), default=0.0)


@dataclass(frozen=True, slots=True)
class ScoringGate:
    """Raises a concern where any window of a passage scores at or above the threshold."""

    classifier: Classifier
    threshold: float | None = None
    severity: Severity = Severity.LOW
    name: GateName = NAME
    fail_closed: bool = True

    async def judge(self, passage: Passage) -> Verdict:
        """The verdict; gives way to others after every few windows."""
        threshold = self.classifier.threshold if self.threshold is None else self.threshold
        for at, window in enumerate(windows(passage.text)):
            score = self.classifier.score(window)
            if score >= threshold:
                return Concern(f"reads like an order to a model (score {score:.2f})", RULE, self.severity)
            if at % _WINDOWS_AT_ONCE == _WINDOWS_AT_ONCE - 1:
                await asyncio.sleep(0)
        return Allow()


def windows(text: str) -> Iterator[str]:
    """The sentences of a text, and each with the one before it: the length of what the classifier learned from, so that
    a long harmless part does not dilute a short bad one. What is too long for a sentence is cut, with overlap."""
    before = ""
    for sentence in _sentences(text):
        yield sentence
        if before:
            yield f"{before} {sentence}"
        before = sentence


def _sentences(text: str) -> Iterator[str]:
    for sentence in _SENTENCE.findall(text):
        for start in range(0, max(1, len(sentence) - STRIDE_CHARS), STRIDE_CHARS):
            yield sentence[start : start + WINDOW_CHARS]


def features(text: str, bits: int = BITS) -> frozenset[int]:
    """The buckets of a text: its words, pairs of neighbours, and runs of four characters, without case and digits."""
    plain = re.sub(r"\d+", "0", unicodedata.normalize("NFKC", text).lower())
    tokens = _TOKEN.findall(plain)
    joined = " ".join(tokens)
    named = [f"w {token}" for token in tokens]
    named += [f"p {first} {second}" for first, second in pairwise(tokens)]
    named += [f"c {joined[at : at + 4]}" for at in range(len(joined) - 3)]
    return frozenset(zlib.crc32(name.encode("utf-8", "surrogatepass")) & ((1 << bits) - 1) for name in named)


def rounded(classifier: Classifier) -> Classifier:
    """The classifier as it is stored, in one byte a weight; this is the one to measure."""
    scale = _scale(classifier)
    return replace(classifier, weights=tuple(round(weight / scale) * scale for weight in classifier.weights))


def write_weights(path: Path, classifier: Classifier) -> None:
    """Store a classifier. Raises `ValueError` for one that was never measured."""
    if classifier.measured is None:
        raise ValueError("weights without a measurement do not ship: measure them on families that they never saw")
    scale = _scale(classifier)
    encoded = base64.b64encode(bytes(round(weight / scale) & 0xFF for weight in classifier.weights)).decode()
    file = _File(
        bits=classifier.bits,
        bias=classifier.bias,
        scale=scale,
        threshold=classifier.threshold,
        weights=[encoded[at : at + 116] for at in range(0, len(encoded), 116)],
        measured=classifier.measured,
    )
    path.write_text(json.dumps(file.model_dump(), indent=1) + "\n")


def _scale(classifier: Classifier) -> float:
    return max(abs(weight) for weight in classifier.weights) / 127 or 1.0
