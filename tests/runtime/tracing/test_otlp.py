"""Export to a collector: a stand-in on loopback takes the real exporter's requests and decodes them."""

from __future__ import annotations

import gzip
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from runtime.errors import SettingError
from runtime.tracing.export import NAME, TraceExporter
from runtime.tracing.genai import otel_spans, otel_trace_id
from runtime.tracing.otlp import otlp_collector
from store.database import TenantStore
from store.followers import read_place
from store.ids import AgentId, SessionId
from store.testing import START
from store.traces import save_traces
from store.tracing import Told, Trace, TraceKind, TraceStatus, trace_of
from tests.runtime.kit import KeptLog, opened
from tests.store.rows import a_record, a_step

SECRET = "what was said"


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
                for scope in resource.scope_spans:
                    self.spans += scope.spans
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
        assert attributes(turn)["gen_ai.agent.id"] == "mason"
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


def test_sessions_of_one_message_share_a_trace_and_no_span() -> None:
    first = a_trace(1)
    second = replace(first, session_id=SessionId("other"))
    assert {span.trace_id for span in otel_spans(first)} == {span.trace_id for span in otel_spans(second)}
    assert not {span.span_id for span in otel_spans(first)} & {span.span_id for span in otel_spans(second)}


def test_without_the_extra_the_start_is_refused_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(SettingError, match="opentelemetry-exporter-otlp-proto-http"):
        otlp_collector()
