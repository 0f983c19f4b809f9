"""A host of static files that knows nothing of the page: no headers of its own, and the page in some folder."""

from __future__ import annotations

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread


class PlainHost:
    """Serves `folder` until it is ended; another one can follow on the same port. `asked` is every path."""

    def __init__(self, folder: Path, port: int = 0) -> None:
        self.asked: list[str] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", port), partial(Handler, directory=str(folder), host=self))
        self.port = self.server.server_address[1]
        self.thread = Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    def end(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Handler(SimpleHTTPRequestHandler):
    def __init__(self, *arguments, directory: str, host: PlainHost) -> None:
        self.host = host
        super().__init__(*arguments, directory=directory)

    def do_GET(self) -> None:
        self.host.asked.append(self.path)
        super().do_GET()

    def log_message(self, *_: object) -> None:
        pass
