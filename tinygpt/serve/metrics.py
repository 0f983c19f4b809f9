"""What Prometheus asks for at /metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from tinygpt.serve.writer import Writer

FIRST_S = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
WHOLE_S = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)


class Metrics:
    def __init__(self, writers: Mapping[str, Writer]) -> None:
        self.writers, self.registry = writers, CollectorRegistry()
        of: dict[str, Any] = {"labelnames": ["model"], "registry": self.registry}
        self.requests = Counter("tinygpt_requests", "Requests that were answered in full.", **of)
        self.written = Counter("tinygpt_written_bytes", "Bytes (tokens) that models wrote for them.", **of)
        self.first = Histogram("tinygpt_first_byte_seconds", "From a request to its first byte.", buckets=FIRST_S, **of)
        self.whole = Histogram("tinygpt_request_seconds", "From a request to its last byte.", buckets=WHOLE_S, **of)
        self.writing = Gauge("tinygpt_writing_texts", "Texts that are being written.", **of)
        self.waiting = Gauge("tinygpt_waiting_texts", "Texts that wait for a free row.", **of)
        self.up = Gauge("tinygpt_engine_up", "1, or 0 while an engine is down.", **of)

    def add(self, model: str, written: int, first_s: float, whole_s: float) -> None:
        self.requests.labels(model).inc()
        self.written.labels(model).inc(written)
        self.first.labels(model).observe(first_s)
        self.whole.labels(model).observe(whole_s)

    def text(self) -> bytes:
        for name, writer in self.writers.items():
            self.writing.labels(name).set(len(writer.writing))
            self.waiting.labels(name).set(len(writer.waiting))
            self.up.labels(name).set(not writer.problem)
        return generate_latest(self.registry)
