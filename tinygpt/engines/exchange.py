"""Where a runner fetches its commands: HTTP on this machine, for our own runner alone.

A random token in the path is the right to take commands and to answer them. Hosts and origins other than ours are
refused altogether, so that no page of another site reaches us through a browser. Files of the repository need no token.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol, cast

from tinygpt.core.errors import TinyGPTError

HOST = "127.0.0.1"
CLOSE_SECONDS = 0.05  # how soon a close is noticed
ISOLATION = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
}
PAGE = b"""<!doctype html><title>TinyGPT</title><script type="module">
const worker = new Worker("worker.js", { type: "module" });
worker.onerror = (event) => fetch("failed", { method: "POST", body: event.message || "the worker failed" });
let missed = 0; // we are gone: so is the tab, and with it the browser
const gone = () => { if (++missed > 2) { worker.terminate(); window.close(); } };
setInterval(() => fetch("alive").then(() => (missed = 0), gone), 1000);
</script>"""
WORKER = b"""import { serve } from "/players/runner.ts";
serve("", async (file) => {
  const response = await fetch("/kernels/" + file);
  if (!response.ok) throw new Error("there are no kernels " + file);
  return response.arrayBuffer();
});
"""
OWN_FILES = {"": (PAGE, "text/html"), "worker.js": (WORKER, "text/javascript"), "alive": (b"", "text/plain")}


class Served(Protocol):
    """What the exchange needs of a runner."""

    headers: dict[str, str]
    fault: str
    heard: float

    def file(self, path: str) -> tuple[bytes, str] | None: ...

    def next_command(self, answer: bytes) -> bytes: ...

    def next_stop(self) -> bytes: ...


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # an answer leaves at once
    wbufsize = -1  # and in one piece

    @property
    def exchange(self) -> Exchange:
        return cast("Exchange", self.server)

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def parse_request(self) -> bool:
        """Also who asks: `ours` is whether the token was there, `name` the path behind it."""
        if not super().parse_request():
            return False
        host, origin = self.headers.get("Host"), self.headers.get("Origin", self.exchange.origin)
        token, _, name = self.path[1:].partition("/")
        self.ours = hmac.compare_digest(token.encode(), self.exchange.token.encode())
        self.name = name if self.ours else self.path[1:]
        if f"http://{host}" == origin == self.exchange.origin and (self.ours or self.command == "GET"):
            return True
        self.close_connection = True
        self.reply(b"", status=403)
        return False

    def reply(self, body: bytes, kind: str = "application/octet-stream", status: int = 200) -> None:
        self.send_response(status)
        for name, value in self.exchange.runner.headers.items():
            self.send_header(name, value)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def do_GET(self) -> None:
        runner = self.exchange.runner
        try:
            if self.ours:
                runner.heard = time.monotonic()
            file = OWN_FILES.get(self.name) if self.ours else runner.file(self.name)
            if file is None:
                self.reply(b"", status=404)
            else:
                self.reply(*file)
        except (TinyGPTError, OSError) as error:
            runner.fault = str(error)
            self.reply(b"", status=500)

    def do_POST(self) -> None:
        runner = self.exchange.runner
        runner.heard = time.monotonic()
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.name == "exchange":
            self.reply(runner.next_command(body))
        elif self.name == "stops":
            self.reply(runner.next_stop())
        else:
            runner.fault = body.decode(errors="replace")
            self.reply(b"")


class Exchange(ThreadingHTTPServer):
    """Serves one runner, from now until it is closed; whoever knows `address` is that runner."""

    daemon_threads = True

    def __init__(self, runner: Served) -> None:
        super().__init__((HOST, 0), Handler)
        self.runner = runner
        self.token = secrets.token_urlsafe(32)
        self.origin = f"http://{HOST}:{self.server_port}"
        self.address = f"{self.origin}/{self.token}"
        threading.Thread(target=self.serve_forever, args=(CLOSE_SECONDS,), daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A runner that is ended leaves its last request half way."""

    def close(self) -> None:
        self.shutdown()
        self.server_close()
