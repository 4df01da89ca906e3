"""A collector that speaks OTLP over HTTP: the only file that knows OpenTelemetry's packages, which are an extra.

Where it sends is set by OpenTelemetry's own variables (OTEL_EXPORTER_OTLP_ENDPOINT, ..._HEADERS, OTEL_SERVICE_NAME,
OTEL_RESOURCE_ATTRIBUTES, ...).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from runtime.errors import SettingError
from runtime.tracing.genai import OtelSpan, otel_spans
from store.tracing import Trace

_MISSING = (
    "STEPWELL_OTEL=1: the packages opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http are not installed; "
    "install both with `.venv/bin/pip install --require-hashes -r requirements-otel.txt`, or unset STEPWELL_OTEL"
)


def otlp_collector() -> OtlpCollector:
    """The collector that the environment names; raises `SettingError` when the extra is not installed."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
    except ImportError as error:
        raise SettingError(_MISSING) from error
    # The standard variables win over the name that is ours.
    resource = Resource({"service.name": "stepwell"}).merge(Resource.create())
    named = resource.attributes.get("service.name")
    if str(named).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": "stepwell"}))
    return OtlpCollector(OTLPSpanExporter(), resource)


class OtlpCollector:
    """Sends spans in a thread, so that a slow collector holds nobody up."""

    def __init__(self, exporter: Any, resource: Any) -> None:
        self._exporter = exporter
        self._resource = resource

    @property
    def resource(self) -> Mapping[str, Any]:
        """What every request says of this process."""
        attributes: Mapping[str, Any] = self._resource.attributes
        return attributes

    async def send(self, traces: Sequence[Trace]) -> bool:
        """Whether the collector has taken them; the exporter itself tries again for a while."""
        return await asyncio.to_thread(self._send, traces)

    def close(self) -> None:
        """End the pauses between the tries of a request that is under way; the request itself is waited for."""
        self._exporter.shutdown()

    def _send(self, traces: Sequence[Trace]) -> bool:
        from opentelemetry.sdk.trace.export import SpanExportResult

        spans = [self._readable(span) for trace in traces for span in otel_spans(trace)]
        return bool(self._exporter.export(spans) is SpanExportResult.SUCCESS)

    def _readable(self, span: OtelSpan) -> Any:
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

        def context(span_id: int) -> SpanContext:
            return SpanContext(span.trace_id, span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))

        return ReadableSpan(
            name=span.name,
            context=context(span.span_id),
            parent=None if span.parent_id is None else context(span.parent_id),
            resource=self._resource,
            attributes=dict(span.attributes),
            kind=SpanKind.CLIENT if span.is_client else SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR, span.error) if span.failed else Status(StatusCode.UNSET),
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=InstrumentationScope("stepwell"),
        )
