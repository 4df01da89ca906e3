"""Export to a collector: a stand-in on loopback takes the real exporter's requests and decodes them."""

from __future__ import annotations

import asyncio
import gzip
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

from runtime.errors import SettingError
from runtime.tracing.export import NAME, TraceExporter
from runtime.tracing.genai import OtelSpan, otel_spans, otel_trace_id
from runtime.tracing.otlp import otlp_collector
from store.database import TenantStore
from store.followers import read_place
from store.ids import AgentId, SessionId
from store.testing import START
from store.traces import save_traces
from store.tracing import Told, Trace, TraceKind, TraceStatus, trace_of
from tests.runtime.kit import KeptLog, opened
from tests.store.rows import a_record, a_step
from tests.support import eventually

SECRET = "what was said"


def decoded(body: bytes) -> list[Any]:
    """The spans of a request."""
    request = ExportTraceServiceRequest.FromString(body)
    return [span for resource in request.resource_spans for scope in resource.scope_spans for span in scope.spans]


class StandIn:
    """A collector that answers what it is told to."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.spans: list[Any] = []
        self.resources: list[dict[str, str]] = []
        self.bodies: list[bytes] = []

    def take(self, body: bytes) -> int:
        self.bodies.append(body)
        status = self.answers.pop(0) if self.answers else 200
        if status == 200:
            request = ExportTraceServiceRequest.FromString(body)
            for resource in request.resource_spans:
                self.resources.append({item.key: item.value.string_value for item in resource.resource.attributes})
            self.spans += decoded(body)
        return status


@contextmanager
def collecting(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """A stand-in that listens, and the environment that names it."""
    stand_in = StandIn()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
            self.send_response(stand_in.take(body))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "wells")
    try:
        yield stand_in
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def a_trace(number: int) -> Trace:
    """A turn with one model call."""
    usage = {"model": "gemma", "purpose": "plan", "usage": {"input_tokens": 7, "output_tokens": 3}, "cost": "0.25"}
    call = a_record(iteration=1, event_seq=1, key="llm:1", kind="model", usage=usage, result={"text": SECRET})
    step = a_step(iteration=1, text=SECRET, guidance={"inputs": [{"text": SECRET}]})
    told = Told(f"t{number}", TraceKind.OWN, SessionId("s"), None, [step], [call], agent_id=AgentId("mason"))
    return replace(trace_of(told, START, str), status=TraceStatus.DONE)


@asynccontextmanager
async def exporter(folder: Path) -> AsyncIterator[tuple[TenantStore, TraceExporter, KeptLog]]:
    log = KeptLog()
    async with opened(folder) as store:
        db = store.tenant()
        yield db, TraceExporter(db, otlp_collector(), log, may_run=lambda: True, epoch=lambda: 1), log


def attributes(span: Any) -> dict[str, Any]:
    return {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in span.attributes}


async def test_spans_arrive_in_the_words_of_the_conventions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with collecting(monkeypatch) as stand_in:
        async with exporter(tmp_path) as (db, exports, _):
            await save_traces(db, [a_trace(1)], epoch=1)
            assert await exports.send_next()
            assert not await exports.send_next()
        turn, step, model = stand_in.spans
        assert (turn.name, step.name, model.name) == ("invoke_agent mason", "step work", "chat gemma")
        assert turn.trace_id == model.trace_id == otel_trace_id("t1").to_bytes(16, "big")
        assert (step.parent_span_id, model.parent_span_id) == (turn.span_id, step.span_id)
        told = attributes(model)
        assert told["gen_ai.operation.name"] == "chat"
        assert told["gen_ai.request.model"] == "gemma"
        assert (told["gen_ai.usage.input_tokens"], told["gen_ai.usage.output_tokens"]) == (7, 3)
        assert (attributes(step)["stepwell.span.status"], attributes(step)["stepwell.status"]) == ("ok", "running")
        assert attributes(step)["stepwell.span.kind"] == "step"
        assert attributes(turn)["gen_ai.agent.id"] == attributes(turn)["gen_ai.agent.name"] == "mason"
        assert stand_in.resources[0]["service.name"] == "wells"
        assert not any(SECRET.encode() in body for body in stand_in.bodies)


async def test_what_the_collector_refuses_is_sent_again_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with collecting(monkeypatch) as stand_in:
        stand_in.answers = [400]
        async with exporter(tmp_path) as (db, exports, log):
            await save_traces(db, [a_trace(1), a_trace(2)], epoch=1)
            assert not await exports.send_next()
            assert await read_place(db, NAME) == {}
            assert "sent again" in log.of("warning")[0][0]
            assert await exports.send_next()
        assert {span.trace_id for span in stand_in.spans} == {
            otel_trace_id(name).to_bytes(16, "big") for name in ("t1", "t2")
        }


async def test_a_crash_before_the_place_repeats_the_same_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with collecting(monkeypatch) as stand_in:
        async with exporter(tmp_path) as (db, exports, _):

            def stop(point: str) -> None:
                raise OSError(point)

            await save_traces(db, [a_trace(1)], epoch=1)
            exports._visit = stop
            with pytest.raises(OSError, match="before_place"):
                await exports.send_next()
        async with exporter(tmp_path) as (_, exports, _):
            assert await exports.send_next()
        ids = [span.span_id for span in stand_in.spans]
        assert len(ids) == 6
        assert ids[:3] == ids[3:]


async def test_a_request_is_some_traces_and_never_many_spans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turn, *rest = a_trace(1).spans
    wide = [turn, *({**rest[1], "id": f"c{number}"} for number in range(899))]
    with collecting(monkeypatch) as stand_in:
        async with exporter(tmp_path) as (db, exports, _):
            traces = [replace(a_trace(number), spans=wide) for number in range(5)]
            await save_traces(db, traces, epoch=1)
            assert await exports.send_next()
        sizes = [len(decoded(body)) for body in stand_in.bodies]
        assert (sum(sizes), max(sizes)) == (4500, 1800)


async def test_an_exporter_that_is_stopped_waits_for_no_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    with collecting(monkeypatch) as stand_in:
        stand_in.answers = [503] * 20
        collector = otlp_collector()
        sending = asyncio.create_task(collector.send([a_trace(1)]))
        await eventually(lambda: len(stand_in.bodies) == 1)
        collector.close()
        assert not await sending
        assert len(stand_in.bodies) == 1


async def test_an_exporter_that_is_cancelled_closes_its_collector(tmp_path: Path) -> None:
    class Away:
        asked, closed = 0, 0

        async def send(self, traces: Sequence[Trace]) -> bool:
            self.asked += 1
            return False

        def close(self) -> None:
            self.closed += 1

    collector, log = Away(), KeptLog()
    async with opened(tmp_path) as store:
        db = store.tenant()
        await save_traces(db, [a_trace(1)], epoch=1)
        exports = TraceExporter(db, collector, log, may_run=lambda: True, epoch=lambda: 1)
        running = asyncio.create_task(exports.run())
        await eventually(lambda: collector.asked == 1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert collector.closed == 1
        assert await read_place(db, NAME) == {}


async def test_a_collector_that_is_away_is_told_of_and_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with collecting(monkeypatch):
        pass  # it has listened there, and does no more
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    async with exporter(tmp_path) as (db, exports, log):
        await save_traces(db, [a_trace(1)], epoch=1)
        assert not await exports.send_next()
        assert log.of("warning") == [("the collector did not take traces; they are sent again", {"in_s": 1.0})]
        assert await read_place(db, NAME) == {}


def test_a_process_has_a_name_of_its_own_and_those_that_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=here")
    told = otlp_collector().resource
    assert told["service.name"] == "stepwell"
    assert told["deployment.environment.name"] == "here"
    assert told["telemetry.sdk.language"] == "python"
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=other")
    assert otlp_collector().resource["service.name"] == "other"


def model_span(kind: str, usage: dict[str, Any] | None, result: Any = None) -> OtelSpan:
    """The one call of a step, exported."""
    call = a_record(iteration=1, event_seq=1, key="llm:1", kind=kind, usage=usage, result=result)
    told = Told("t", TraceKind.OWN, SessionId("s"), None, [a_step(iteration=1)], [call])
    return otel_spans(trace_of(told, START, str))[2]


def test_model_calls_have_the_names_of_the_conventions() -> None:
    usage = {"model": "minor", "provider": "vault", "finish_reason": "stop", "usage": {"cached_tokens": 4}}
    chat = model_span("model", usage)
    assert (chat.name, chat.is_client, chat.failed) == ("chat minor", True, False)
    assert chat.attributes["gen_ai.provider.name"] == "vault"
    assert chat.attributes["gen_ai.request.model"] == chat.attributes["gen_ai.response.model"] == "minor"
    assert chat.attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert chat.attributes["gen_ai.usage.cache_read.input_tokens"] == 4
    embedding = model_span("embed", {"model": "minor"})
    assert (embedding.name, embedding.attributes["gen_ai.operation.name"]) == ("embeddings minor", "embeddings")
    assert embedding.attributes["gen_ai.provider.name"] == "openai"
    assert model_span("model", {"model": "offline"}).attributes["gen_ai.provider.name"] == "stepwell"


def test_of_a_model_call_that_failed_no_model_is_made_up() -> None:
    failed = model_span("failed", None, {"kind": "model", "error": "LlmError: no answer"})
    assert (failed.name, failed.failed, failed.error) == ("chat", True, "LlmError: no answer")
    assert failed.attributes["error.type"] == "LlmError"
    assert not {"gen_ai.request.model", "gen_ai.response.model"} & failed.attributes.keys()


def test_the_names_are_those_of_the_conventions_package() -> None:
    known = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
    usage = {
        "model": "m",
        "finish_reason": "stop",
        "usage": {"input_tokens": 1, "output_tokens": 1, "cached_tokens": 1},
    }
    spans = [model_span("model", usage), model_span("tool", {"tool": "look"}), *otel_spans(a_trace(1))]
    used = {name for span in spans for name in span.attributes if name.startswith("gen_ai.")}
    assert used - known == set()


def test_sessions_of_one_message_share_a_trace_and_no_span() -> None:
    first = a_trace(1)
    second = replace(first, session_id=SessionId("other"))
    assert {span.trace_id for span in otel_spans(first)} == {span.trace_id for span in otel_spans(second)}
    assert not {span.span_id for span in otel_spans(first)} & {span.span_id for span in otel_spans(second)}


def test_without_the_extra_the_start_is_refused_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(SettingError, match=r"pip install --require-hashes -r requirements-otel\.txt"):
        otlp_collector()
