"""Calls kept in a file of JSON lines and played back, so that a test asks a real model once and never again.

One line a call: `{"digest", "kind", "request", "answer" | "error"}`. A call is found by the digest of its request
without its deadline. No secret reaches the tape: those that are named, and what looks like a key, are taken out of the
request before it is digested and out of the answer before it is written.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, assert_never

from pydantic import Field, SecretStr, TypeAdapter, ValidationError

from runtime.llm.apikey import ApiKey
from runtime.llm.port import (
    BadRequestReason,
    ChatModel,
    ChatReply,
    ChatRequest,
    EmbeddingModel,
    EmbeddingReply,
    FrozenModel,
    LlmError,
    LlmErrorKind,
    Stream,
    StreamEnd,
    StreamingModel,
    StreamRestart,
    TextDelta,
    ToolCallDelta,
)

MAX_SHOWN = 300
_KEY_LIKE = re.compile(
    r"\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}|\bgh[pousr]_[A-Za-z0-9]{20,}|\bxox[abprs]-[A-Za-z0-9-]{10,}"
    r"|\bAKIA[A-Z0-9]{16}\b|\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*|\bBearer\s+[\w.~+/=-]{16,}"
)


class NotOnTapeError(LookupError):
    """The call is not on the tape. No `LlmError`: a moniker that lives with a failing model must not hide it."""


class BadTapeError(ValueError):
    """A line of the tape cannot be read."""


class CallKind(StrEnum):
    """What was called."""

    CHAT = "chat"
    STREAM = "stream"
    EMBED = "embed"


class _TapedError(FrozenModel):
    kind: LlmErrorKind
    message: str
    retry_after_s: float | None = None
    reason: BadRequestReason | None = None
    partial: str = ""

    def raised(self) -> LlmError:
        return LlmError(
            self.kind, self.message, retry_after_s=self.retry_after_s, reason=self.reason, partial=self.partial
        )


class _Text(FrozenModel):
    part: Literal["text"] = "text"
    text: str


class _Tool(FrozenModel):
    part: Literal["tool"] = "tool"
    index: int
    name: str
    arguments: str


class _Restart(FrozenModel):
    part: Literal["restart"] = "restart"
    because: LlmErrorKind


class _End(FrozenModel):
    part: Literal["end"] = "end"
    reply: ChatReply


_Part = Annotated[_Text | _Tool | _Restart | _End, Field(discriminator="part")]
_PARTS: TypeAdapter[list[_Text | _Tool | _Restart | _End]] = TypeAdapter(list[_Part])


class _Line(FrozenModel):
    digest: str
    kind: CallKind
    request: dict[str, Any]
    answer: Any = None
    error: _TapedError | None = None


class TapeRecorder:
    """A model whose calls are kept: every answer and every `LlmError` is one line more, written when it is over.

    A call that is cancelled, or a stream that is left early, is not kept.
    """

    def __init__(
        self,
        model: ChatModel,
        path: Path,
        *,
        secrets: Iterable[SecretStr] = (),
        embedder: EmbeddingModel | None = None,
    ) -> None:
        self.label = model.label
        self._model = model
        self._embedder = embedder
        self._path = path
        self._cleaner = _Cleaner(secrets)

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Ask the model and keep what it said."""
        asked = _asked(request)
        try:
            reply = await self._model.chat(request)
        except LlmError as error:
            self._keep(CallKind.CHAT, asked, None, error)
            raise
        self._keep(CallKind.CHAT, asked, reply.model_dump(mode="json"), None)
        return reply

    async def stream(self, request: ChatRequest, *, restart: bool = False) -> Stream:
        """Ask the model and keep the parts, those before a failure too. Raises `TypeError` when it cannot stream."""
        streaming = _streaming(self._model)
        if streaming is None:
            raise TypeError(f"the model {self.label!r} cannot stream, so there is nothing to record; use chat")
        asked, parts = _asked(request), list[Any]()
        try:
            async with aclosing(streaming.stream(request, restart=restart)) as coming:
                async for part in coming:
                    parts.append(_to_tape(part))
                    yield part
        except LlmError as error:
            self._keep(CallKind.STREAM, asked, parts, error)
            raise
        self._keep(CallKind.STREAM, asked, parts, None)

    async def embed(self, texts: Sequence[str], *, deadline_s: float = 60.0) -> EmbeddingReply:
        """Ask the embedder and keep the vectors. Raises `TypeError` without one."""
        if self._embedder is None:
            raise TypeError("no embedder was given to the recorder; pass one as embedder=")
        asked = {"texts": list(texts), "model": self._embedder.label}
        try:
            reply = await self._embedder.embed(texts, deadline_s=deadline_s)
        except LlmError as error:
            self._keep(CallKind.EMBED, asked, None, error)
            raise
        self._keep(CallKind.EMBED, asked, reply.model_dump(mode="json"), None)
        return reply

    def _keep(self, kind: CallKind, request: dict[str, Any], answer: Any, error: LlmError | None) -> None:
        cleaned = self._cleaner.clean(request)
        line = {
            "digest": _digest(kind, cleaned),
            "kind": kind.value,
            "request": cleaned,
            "answer": self._cleaner.clean(answer),
            "error": None if error is None else self._cleaner.clean(_taped(error).model_dump(mode="json")),
        }
        # one write a line: a crash cuts the last line at most
        with self._path.open("a", encoding="utf-8") as tape:
            tape.write(json.dumps(line, ensure_ascii=True) + "\n")


class TapePlayer:
    """Answers from a tape. A call that is on it several times is answered in that order, then with the last answer."""

    def __init__(self, path: Path, *, secrets: Iterable[SecretStr] = (), label: str = "tape") -> None:
        self.label = label
        self._path = path
        self._cleaner = _Cleaner(secrets)
        self._lines = _read(path)
        self._left: dict[str, list[_Line]] = {}
        for line in self._lines:
            self._left.setdefault(line.digest, []).append(line)

    async def chat(self, request: ChatRequest) -> ChatReply:
        """The reply, or the `LlmError`, that was recorded. Raises `NotOnTapeError`."""
        line = self._find(CallKind.CHAT, _asked(request))
        if line.error is not None:
            raise line.error.raised()
        return ChatReply.model_validate(line.answer)

    async def stream(self, request: ChatRequest, *, restart: bool = False) -> Stream:
        """The parts that were recorded, and the failure after them if there was one. Raises `NotOnTapeError`."""
        line = self._find(CallKind.STREAM, _asked(request))
        for part in _PARTS.validate_python(line.answer or []):
            yield _from_tape(part)
        if line.error is not None:
            raise line.error.raised()

    async def embed(self, texts: Sequence[str], *, deadline_s: float = 60.0) -> EmbeddingReply:
        """The vectors that were recorded, whichever model made them. Raises `NotOnTapeError`."""
        wanted = self._cleaner.clean(list(texts))
        models = {line.request.get("model") for line in self._lines if line.request.get("texts") == wanted}
        line = self._find(CallKind.EMBED, {"texts": list(texts), "model": next(iter(models), None)})
        if line.error is not None:
            raise line.error.raised()
        return EmbeddingReply.model_validate(line.answer)

    def _find(self, kind: CallKind, request: dict[str, Any]) -> _Line:
        cleaned = self._cleaner.clean(request)
        lines = self._left.get(_digest(kind, cleaned))
        if not lines:
            raise NotOnTapeError(self._missing(kind, cleaned))
        return lines.pop(0) if len(lines) > 1 else lines[0]

    def _missing(self, kind: CallKind, request: dict[str, Any]) -> str:
        wanted = _text(request)
        same = [(place, line) for place, line in enumerate(self._lines, 1) if line.kind is kind]
        said = f"{self._path}: no {kind} call like this on the tape: {wanted[:MAX_SHOWN]}; record it again"
        if not same:
            return f"{said} (the tape has no {kind} call at all)"
        place, nearest = max(same, key=lambda pair: _likeness(wanted, _text(pair[1].request)))
        return f"{said}. Nearest is line {place}; it differs here: {_difference(_text(nearest.request), wanted)}"


class _Cleaner:
    def __init__(self, secrets: Iterable[SecretStr]) -> None:
        self._keys = [ApiKey(secret) for secret in secrets if secret.get_secret_value()]

    def clean(self, value: Any) -> Any:
        """`value` without secrets, in texts, names and everything inside."""
        if isinstance(value, str):
            for key in self._keys:
                value = key.taken_out_of(value)
            return _KEY_LIKE.sub("[secret]", value)
        if isinstance(value, dict):
            return {self.clean(name): self.clean(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.clean(inner) for inner in value]
        return value


def _streaming(model: ChatModel) -> StreamingModel | None:
    return model if isinstance(model, StreamingModel) else None


def _asked(request: ChatRequest) -> dict[str, Any]:
    return request.model_dump(mode="json", exclude={"deadline_s"})


def _digest(kind: CallKind, request: dict[str, Any]) -> str:
    return hashlib.sha256(f"{kind}:{_text(request)}".encode()).hexdigest()[:24]


def _text(request: dict[str, Any]) -> str:
    return json.dumps(request, sort_keys=True)


def _likeness(wanted: str, other: str) -> float:
    return difflib.SequenceMatcher(None, wanted[:4_000], other[:4_000], autojunk=False).quick_ratio()


def _difference(taped: str, wanted: str) -> str:
    same = next((place for place, pair in enumerate(zip(taped, wanted, strict=False)) if pair[0] != pair[1]), None)
    start = max(0, (min(len(taped), len(wanted)) if same is None else same) - 40)
    return f"tape …{taped[start : start + 120]!r}, asked …{wanted[start : start + 120]!r}"


def _taped(error: LlmError) -> _TapedError:
    return _TapedError(
        kind=error.kind,
        message=error.message,
        retry_after_s=error.retry_after_s,
        reason=error.reason,
        partial=error.partial,
    )


def _to_tape(part: TextDelta | ToolCallDelta | StreamRestart | StreamEnd) -> dict[str, Any]:
    match part:
        case TextDelta():
            return _Text(text=part.text).model_dump(mode="json")
        case ToolCallDelta():
            return _Tool(index=part.index, name=part.name, arguments=part.arguments).model_dump(mode="json")
        case StreamRestart():
            return _Restart(because=part.because).model_dump(mode="json")
        case StreamEnd():
            return _End(reply=part.reply).model_dump(mode="json")
        case unknown:
            assert_never(unknown)


def _from_tape(part: _Text | _Tool | _Restart | _End) -> TextDelta | ToolCallDelta | StreamRestart | StreamEnd:
    match part:
        case _Text():
            return TextDelta(text=part.text)
        case _Tool():
            return ToolCallDelta(index=part.index, name=part.name, arguments=part.arguments)
        case _Restart():
            return StreamRestart(because=part.because)
        case _End():
            return StreamEnd(reply=part.reply)
        case unknown:
            assert_never(unknown)


def _read(path: Path) -> list[_Line]:
    lines: list[_Line] = []
    for place, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            lines.append(_Line.model_validate_json(text))
        except ValidationError as error:
            said = f"{path}: line {place} is no call ({error.error_count()} faults); delete it or record the tape anew"
            raise BadTapeError(said) from None
    return lines
