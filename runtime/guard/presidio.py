"""Personal data as Presidio finds it: by form, besides what the built-in rule finds. An extra; no model, no network.

Only this file knows the library. It is imported when `governance.yaml` asks for it.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any, Final, Protocol

from runtime.guard.errors import MissingExtra
from runtime.guard.pii import BuiltIn
from runtime.guard.spans import Found, settled

#: Presidio compares what it finds with each other and with all words: in pieces its work is linear in the text
_PIECE: Final = 4_000
#: characters of the next piece that belong to this one too, so that nothing is cut in two
_OVERLAP: Final = 300
#: what its recognizers by form find that is nobody's: with these cut out no answer keeps a link, a day or an id
_NOT_PERSONAL: Final = frozenset({"URL", "DATE_TIME", "UUID"})
_FIRST_TEXT: Final = "ann@example.org"
_WORD: Final = re.compile(r"\w+")


class Analyzer(Protocol):
    """The one method of presidio_analyzer.AnalyzerEngine that is used."""

    def analyze(self, text: str, language: str, score_threshold: float) -> Iterable[Any]:
        """Results with `start`, `end` and `entity_type`."""
        ...


class GivenUp(Exception):
    """Nobody waits for what is found any more."""


@dataclass(frozen=True, slots=True)
class Presidio:
    """Finds what Presidio's recognizers find, in a thread of its own: they compute for milliseconds.

    Cancelled, the thread ends after the piece of the text that it is at.
    """

    analyzer: Analyzer
    language: str = "en"
    threshold: float = 0.5

    async def find(self, text: str) -> list[Found]:
        """Everything Presidio is at least `threshold` sure of, besides what the built-in rule finds."""
        given_up = Event()
        try:
            return await asyncio.to_thread(settled, text, partial(self._once, given_up))
        finally:
            given_up.set()

    def _once(self, given_up: Event, text: str) -> Iterator[Found]:
        yield from BuiltIn().once(text)
        for at in range(0, len(text), _PIECE):
            if given_up.is_set():
                raise GivenUp(f"{len(text) - at} characters were not looked at")
            yield from self._in_piece(text[at : at + _PIECE + _OVERLAP], at)

    def _in_piece(self, piece: str, at: int) -> Iterator[Found]:
        for result in self.analyzer.analyze(text=piece, language=self.language, score_threshold=self.threshold):
            label = str(result.entity_type).lower().replace("_", " ")
            # It may be redacted already: a mark is no name, whatever a recognizer makes of its words.
            if "⟦" not in piece[result.start : result.end]:
                yield Found(at + result.start, at + result.end, label)


def load_presidio(language: str = "en") -> Analyzer:
    """Presidio without a model to download: its recognizers by form, those for `language` and those for all.

    Takes seconds, and has analyzed a first text when it returns: what that compiles would else count against the
    time-out of a session's first text. Raises `MissingExtra` when the library is not installed.
    """
    try:
        presidio = importlib.import_module("presidio_analyzer")
        artifacts = importlib.import_module("presidio_analyzer.nlp_engine").NlpArtifacts
        suffixes: Any = importlib.import_module("tldextract.tldextract")
    except ModuleNotFoundError as missing:
        raise MissingExtra(
            f"governance.yaml asks for pii.engine: presidio, but {missing.name} is not installed: install it with "
            "`.venv/bin/pip install --require-hashes -r requirements-pii.txt`, or write engine: builtin"
        ) from missing
    # Or the first address would make it fetch the list of public suffixes, and keep that in the home folder.
    suffixes.TLD_EXTRACTOR = suffixes.TLDExtract(cache_dir=None, suffix_list_urls=())
    registry = presidio.RecognizerRegistry(supported_languages=[language])
    with _only_errors():
        registry.load_predefined_recognizers(languages=[language])
    registry.recognizers = [
        each for each in registry.recognizers if not _NOT_PERSONAL.issuperset(each.supported_entities)
    ]
    analyzer: Analyzer = presidio.AnalyzerEngine(
        registry=registry, nlp_engine=_Words(artifacts), supported_languages=[language]
    )
    list(analyzer.analyze(text=_FIRST_TEXT, language=language, score_threshold=0.0))
    return analyzer


@contextmanager
def _only_errors() -> Iterator[None]:
    """Presidio warns of each recognizer that is made for another language: ten lines a start."""
    log = logging.getLogger("presidio-analyzer")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


@dataclass(frozen=True, slots=True)
class _Words:
    """What Presidio is given for a language model: the words of a text and where they are.

    By them it knows what stands before a number ("phone", "account"). A blank pipeline of spaCy has no lemmas, so with
    it no word would count, and it keeps every word it ever saw; this keeps nothing, and threads may share it.
    """

    artifacts: Callable[..., Any]

    def is_loaded(self) -> bool:
        """Nothing has to be loaded."""
        return True

    def process_text(self, text: str, language: str) -> Any:
        """The words; in small letters they stand for their lemmas."""
        found = list(_WORD.finditer(text))
        return self.artifacts(
            entities=[],
            tokens=[word[0] for word in found],
            tokens_indices=[word.start() for word in found],
            lemmas=[word[0].lower() for word in found],
            nlp_engine=self,
            language=language,
        )

    def is_stopword(self, word: str, language: str) -> bool:
        """Every word counts."""
        return False

    def is_punct(self, word: str, language: str) -> bool:
        """Words only."""
        return False
