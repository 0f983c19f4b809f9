"""A loopback server that speaks the Hugging Face Hub's protocol, as far as its clients use it for models."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "c0ffee" * 6 + "c0ff"
TOKEN = "hf_test"


class FakeHub:
    """`models[user/name]` is a repository: its files by path. Whatever is written needs TOKEN."""

    def __init__(self, seen_at: str = "") -> None:
        """`seen_at`: its address in answers, where clients see it under another than its own."""
        self.models: dict[str, dict[str, bytes]] = {}
        self.private: set[str] = set()
        self.large: dict[str, bytes] = {}  # by sha256
        self.asked: list[str] = []
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        self.seen_at = seen_at or self.url
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()

    def answer(self, method: str, path: str, body: bytes, token: str) -> tuple[int, Any, dict[str, str]]:
        """Status, JSON or bytes, headers."""
        self.asked.append(f"{method} {path}")
        if found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)", path):
            return self.resolved(found[1], found[2], token)
        if path == "/api/whoami-v2":
            return (200, {"name": "me", "type": "user"}, {}) if token == TOKEN else refused()
        if method in ("GET", "HEAD"):
            return 404, {"error": "not here"}, {}
        if path.startswith("/large/"):
            self.large[path.removeprefix("/large/")] = body
            return 200, {}, {}
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}, {}
        if token != TOKEN:
            return refused()
        asked = json.loads(body) if "/commit/" not in path else None
        if path == "/api/repos/create":
            repo = f"{asked.get('organization') or 'me'}/{asked['name']}"
            if asked.get("visibility") == "private" or asked.get("private"):
                self.private.add(repo)
            status = 409 if repo in self.models else 200
            self.models.setdefault(repo, {})
            return status, {"url": f"{self.seen_at}/{repo}", "id": repo, "name": repo}, {}
        if path.endswith("/preupload/main"):
            modes = [{"path": one["path"], "uploadMode": mode_of(one["path"])} for one in asked["files"]]
            return 200, {"files": [{**one, "shouldIgnore": False} for one in modes]}, {}
        if path.endswith("/info/lfs/objects/batch"):
            objects = [
                {**one, "actions": {"upload": {"href": f"{self.seen_at}/large/{one['oid']}"}}}
                for one in asked["objects"]
            ]
            return 200, {"transfer": "basic", "objects": objects}, {}
        found = re.fullmatch(r"/api/models/([^/]+/[^/]+)/commit/main", path)
        assert found, path
        return self.committed(found[1], [json.loads(line) for line in body.splitlines()])

    def resolved(self, repo: str, path: str, token: str) -> tuple[int, Any, dict[str, str]]:
        files = self.models.get(repo)
        if files is None or (repo in self.private and token != TOKEN):
            return 401, {"error": "no such repository"}, {"X-Error-Code": "RepoNotFound"}
        if path not in files:
            return 404, {"error": "no such file"}, {"X-Error-Code": "EntryNotFound"}
        etag = hashlib.sha256(files[path]).hexdigest()
        return 200, files[path], {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT}

    def committed(self, repo: str, lines: list[dict[str, Any]]) -> tuple[int, Any, dict[str, str]]:
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                self.models[repo][value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                content = self.large[value["oid"]]
                assert hashlib.sha256(content).hexdigest() == value["oid"]
                self.models[repo][value["path"]] = content
        return 200, {"commitUrl": f"{self.seen_at}/{repo}/commit/{COMMIT}", "commitOid": COMMIT, "hookOutput": ""}, {}

    def handler(self) -> type[BaseHTTPRequestHandler]:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def speak(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
                path = self.path.partition("?")[0]
                status, told, headers = hub.answer(self.command, path, body, token)
                content = told if isinstance(told, bytes) else json.dumps(told).encode()
                asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
                if asked and status == 200:
                    first, end = int(asked[1]), min(int(asked[2] or len(content)) + 1, len(content))
                    status, headers = 206, {**headers, "Content-Range": f"bytes {first}-{end - 1}/{len(content)}"}
                    content = content[first:end]
                self.send_response(status)
                kind = "application/octet-stream" if isinstance(told, bytes) else "application/json"
                for name, value in {"Content-Type": kind, "Content-Length": str(len(content)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_GET = do_HEAD = do_POST = do_PUT = speak

            def log_message(self, *arguments: object) -> None:
                pass

        return Handler


def mode_of(path: str) -> str:
    return "regular" if path.endswith(".md") else "lfs"


def refused() -> tuple[int, Any, dict[str, str]]:
    return 401, {"error": "Invalid credentials in Authorization header"}, {}
