"""A loopback server that speaks like the Hugging Face datasets server."""

import contextlib
import json
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass
class Reply:
    """An answer given once, before the dataset's own."""

    status: int
    error: str = "something is wrong"
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    raw: Iterable[bytes] | None = None  # instead of all that: what goes over the wire, until the client hangs up


@dataclass
class Request:
    path: str
    query: dict[str, str]
    authorization: str | None


class FakeDatasetsServer:
    """Serves `datasets[name][(config, split)]`, a list of rows, 100 per page at most."""

    def __init__(self) -> None:
        self.datasets: dict[str, dict[tuple[str, str], list[dict[str, Any]]]] = {}
        self.truncated: set[tuple[int, str]] = set()
        self.partial = False
        self.feature_types: dict[str, Any] = {}  # by column, instead of those that the rows suggest
        self.replies: list[Reply] = []
        self.requests: list[Request] = []
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def add(self, name: str, rows: list[dict[str, Any]], config: str = "default", split: str = "train") -> None:
        self.datasets.setdefault(name, {})[config, split] = rows

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()

    def answer(self, request: Request) -> tuple[int, dict[str, Any]]:
        splits = self.datasets.get(request.query["dataset"])
        if splits is None:
            return 401, {"error": "The dataset does not exist, or is not accessible without authentication."}
        if request.path == "/splits":
            listed = [{"dataset": request.query["dataset"], "config": c, "split": s} for c, s in splits]
            return 200, {"splits": listed, "pending": [], "failed": []}
        rows = splits.get((request.query["config"], request.query["split"]))
        if request.path != "/rows" or rows is None:
            return 404, {"error": "Not found."}
        offset, length = int(request.query["offset"]), int(request.query["length"])
        if length > 100:
            return 422, {"error": "Parameter 'length' must not be greater than 100"}
        columns = list(rows[0]) if rows else ["text"]
        return 200, {
            "features": [
                {"feature_idx": i, "name": name, "type": self.feature_types.get(name, self.feature_type(rows, name))}
                for i, name in enumerate(columns)
            ],
            "rows": [
                {"row_idx": i, "row": row, "truncated_cells": [c for c in columns if (i, c) in self.truncated]}
                for i, row in list(enumerate(rows))[offset : offset + length]
            ],
            "num_rows_total": len(rows),
            "num_rows_per_page": 100,
            "partial": self.partial,
        }

    @staticmethod
    def feature_type(rows: list[dict[str, Any]], column: str) -> dict[str, str]:
        is_text = bool(rows) and isinstance(rows[0][column], str)
        return {"dtype": "string" if is_text else "int64", "_type": "Value"}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                query = {key: values[0] for key, values in parse_qs(parts.query).items()}
                request = Request(parts.path, query, self.headers.get("Authorization"))
                fake.requests.append(request)
                reply = fake.replies.pop(0) if fake.replies else None
                if reply is None:
                    status, content = fake.answer(request)
                    self.send(status, json.dumps(content).encode(), {})
                elif reply.raw is not None:
                    self.send_raw(reply.raw)
                else:
                    body = json.dumps({"error": reply.error}).encode() if reply.body is None else reply.body
                    self.send(reply.status, body, reply.headers)

            def send_raw(self, pieces: Iterable[bytes]) -> None:
                self.close_connection = True
                with contextlib.suppress(OSError):
                    for piece in pieces:
                        self.wfile.write(piece)

            def send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler
