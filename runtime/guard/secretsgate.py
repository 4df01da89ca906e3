"""The secrets rule: configured secrets in any writing, and whatever looks like a key, is cut out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from runtime.guard.known import Known
from runtime.guard.pieces import strings_of, with_strings
from runtime.guard.port import Allow, GateName, Passage, Redact, RuleId, Span, Verdict, replaced
from runtime.guard.secretforms import find_forms
from runtime.guard.spans import Found, settled, settled_aside, spans

RULE = RuleId("secret")
NAME = GateName("secrets")


class Secrets:
    """Finds and cuts out secrets; the one thing to call before a text is logged, traced, stored or shown."""

    def __init__(self, known: Mapping[str, str] | None = None, *, forms: bool = True) -> None:
        """`known` are the configured secrets by name; a name is shown in its secret's place. With `forms`, what only
        looks like a key is found too. Raises `SecretError` for a secret that is too short to look for."""
        self._known = Known(known or {})
        self._any_known = bool(known)
        self._forms = forms

    def spans(self, text: str) -> tuple[Span, ...]:
        """Every secret in `text`, in order, apart from each other. Raises nothing, whatever the text."""
        return self._spans(settled(text, self._find, self._known.marks[0]))

    async def spans_aside(self, text: str) -> tuple[Span, ...]:
        """`spans`; those of a long text in a thread."""
        return self._spans(await settled_aside(text, self._find, self._known.marks[0]))

    def redact(self, text: str) -> str:
        """`text` without its secrets. The answer holds no configured secret, and redacting it again changes nothing."""
        return replaced(text, self.spans(text))

    def clean(self, value: Any) -> Any:
        """A JSON value without the configured secrets; itself when it holds none. What only looks like one stays: it
        may be what a step works on."""
        if not self._any_known or not any(self._holds(text) for text in strings_of(value)):
            return value
        return with_strings(value, (self._cleaned(text) for text in strings_of(value)))

    def _holds(self, text: str) -> bool:
        return any(True for _ in self._known.find(text))

    def _cleaned(self, text: str) -> str:
        return replaced(text, self._spans(settled(text, self._known.find, self._known.marks[0])))

    def _spans(self, found: list[Found]) -> tuple[Span, ...]:
        return tuple(self._bare(span) for span in spans(found, self._known.marks))

    def _bare(self, span: Span) -> Span:
        """A replacement that would itself tell a secret (one that is called after its value) says nothing instead."""
        tells = any(self._known.find(span.replacement))
        return replace(span, replacement=self._known.marks) if tells else span

    def _find(self, text: str) -> Iterator[Found]:
        yield from self._known.find(text)
        if self._forms:
            yield from find_forms(text)


@dataclass(frozen=True, slots=True)
class SecretsGate:
    """Cuts secrets out of a passage."""

    secrets: Secrets
    name: GateName = NAME
    fail_closed: bool = True

    async def judge(self, passage: Passage) -> Verdict:
        """Redact what is secret, else allow."""
        found = await self.secrets.spans_aside(passage.text)
        return Redact(found, RULE) if found else Allow()
