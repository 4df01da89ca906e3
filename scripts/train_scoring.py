"""Train the guard's classifier and measure it: `python -m scripts.train_scoring` writes runtime/guard/data.

The corpus is split by family, so that what is measured is text written in ways that the classifier never saw. The
threshold comes from the families it is trained on, each scored by a classifier that did not see it. Nothing here is
random: the same corpus gives the same weights, byte for byte.
"""

from __future__ import annotations

import math
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from runtime.guard.scoring import BITS, WEIGHTS, Classifier, Measured, features, rounded, write_weights

CORPUS = WEIGHTS.with_name("scoring_corpus.yaml")
FALSE_POSITIVES = 0.01
# Added to the threshold, in log odds: ways of speaking differ more between families than the folds show. Chosen after
# measurements without it and with a smaller one; docs/guard.md says so.
MARGIN = 1.5
HELD_OUT_EVERY = 3
VARIANTS = 3
FOLDS = 5
EPOCHS = 40
RATE = 1.0
DECAY = 1e-4


@dataclass(frozen=True)
class Example:
    """One text of the corpus."""

    text: str
    family: str
    attack: bool
    buckets: tuple[int, ...]


def main(path: Path = WEIGHTS) -> int:
    """Train, measure, store, and print what was measured."""
    examples = read_corpus(CORPUS)
    seen = [example for example in examples if not is_held_out(example, examples)]
    unseen = [example for example in examples if is_held_out(example, examples)]
    limit = threshold(seen)
    classifier = rounded(replace(train(seen), threshold=limit))
    measured = measure(classifier, unseen, len(seen))
    write_weights(path, replace(classifier, measured=measured))
    print(measured.model_dump_json(indent=1), f"threshold {limit:.4f}")
    return 0


def read_corpus(path: Path) -> list[Example]:
    """All texts, with their slots filled in a few ways."""
    corpus = yaml.safe_load(path.read_text())
    return [
        Example(text, f"{kind}/{family}", kind == "attacks", tuple(sorted(features(text))))
        for kind in ("attacks", "benign")
        for family, templates in corpus[kind].items()
        for template in templates
        for text in filled(template, corpus["slots"])
    ]


def filled(template: str, slots: dict[str, list[Any]]) -> list[str]:
    """A template's texts: one when it has no slots, else `VARIANTS`, each slot moving at its own pace."""
    texts: dict[str, None] = {}
    for variant in range(VARIANTS):
        text = template
        for name, words in slots.items():
            pick = zlib.crc32(f"{name} {variant} {template}".encode())
            text = text.replace(f"{{{name}}}", words[pick % len(words)])
        texts[text] = None
    return list(texts)


def is_held_out(example: Example, examples: Sequence[Example]) -> bool:
    """Whether a family is kept for measuring: every third one of its kind, by name."""
    kind = sorted({other.family for other in examples if other.attack == example.attack})
    return kind.index(example.family) % HELD_OUT_EVERY == 0


def train(examples: Sequence[Example]) -> Classifier:
    """Logistic regression by stochastic gradient descent; attacks and benign texts weigh the same in sum."""
    weights = [0.0] * (1 << BITS)
    bias = 0.0
    attacks = sum(example.attack for example in examples)
    share = {True: len(examples) / (2 * attacks), False: len(examples) / (2 * (len(examples) - attacks))}
    for epoch in range(EPOCHS):
        rate = RATE / (1 + epoch / 4)
        shrink = 1 - rate * DECAY * len(examples)
        weights = [weight * shrink for weight in weights]
        for example in sorted(examples, key=lambda one: zlib.crc32(f"{epoch} {one.text}".encode())):
            length = math.sqrt(len(example.buckets))
            total = bias + sum(weights[bucket] for bucket in example.buckets) / length
            error = (1 / (1 + math.exp(-max(-30.0, min(30.0, total))))) - example.attack
            step = rate * error * share[example.attack]
            bias -= step * 0.1
            for bucket in example.buckets:
                weights[bucket] -= step / length
    return Classifier(BITS, bias, tuple(weights), 0.5)


def threshold(examples: Sequence[Example]) -> float:
    """A margin above the score that at most one in a hundred benign texts exceeds, each scored by a classifier that did
    not see its family."""
    families = sorted({example.family for example in examples})
    scores: list[float] = []
    for fold in range(FOLDS):
        left_out = set(families[fold::FOLDS])
        classifier = train([example for example in examples if example.family not in left_out])
        scores += [
            classifier.highest(example.text)
            for example in examples
            if example.family in left_out and not example.attack
        ]
    allowed = int(len(scores) * FALSE_POSITIVES)
    score = sorted(scores, reverse=True)[allowed]
    return 1 / (1 + math.exp(-(math.log(score / (1 - score)) + MARGIN)))


def measure(classifier: Classifier, examples: Sequence[Example], trained_on: int) -> Measured:
    """Recall and false positives on texts of families that `classifier` never saw."""
    found = {attack: [one for one in examples if one.attack == attack] for attack in (True, False)}
    rate = {
        attack: sum(classifier.highest(one.text) >= classifier.threshold for one in texts) / len(texts)
        for attack, texts in found.items()
    }
    return Measured(
        trained_on=trained_on,
        attacks=len(found[True]),
        attack_families=len({one.family for one in found[True]}),
        benign=len(found[False]),
        benign_families=len({one.family for one in found[False]}),
        recall=round(rate[True], 4),
        false_positive_rate=round(rate[False], 4),
    )


if __name__ == "__main__":
    sys.exit(main())
