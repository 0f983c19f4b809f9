"""Makes a built site one that any host can serve, at any address, also one that sends no headers.

Addresses in its pages become relative, each page states its own policy, and a service worker keeps the files for when
there is no network and adds the headers (web/src/offline/serviceworker.ts).
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

from tinygpt.serve.headers import HEADERS_FILE, headers_for, read_rules

SERVICE_WORKER = "sw.js"
POLICY = "Content-Security-Policy"
IN_HEADERS_ONLY = "frame-ancestors"  # browsers complain of it inside a page
ADDRESS = re.compile(r'((?:href|src|component-url|renderer-url|before-hydration-url)=")/(?!/)')
WHEN_USED = ("corpora/", "kernels/", "models/", "steps/")  # kept by the service worker once they are
AS_READ = ("source/", "notebooks/")  # pages of which few are read: kept once they were, until the next build
LATER = (
    "learn/",
    "reference/",
    "step/",
    "pictures/",
    "search.json.gz",
)  # pages to read: kept after what trains and writes


def addressed(path: str, content: bytes) -> str:
    """An address that says what is there, so that no cache gives anything else for it."""
    return f"{path}?{hashlib.sha256(content).hexdigest()[:16]}"


def settle(site: Path) -> None:
    """Of pages and stylesheets as Astro made them."""
    headers = headers_for(read_rules((site / HEADERS_FILE).read_text(encoding="utf-8")), "/")
    for path in sorted(site.rglob("*.html")):
        depth = len(path.relative_to(site).parts) - 1
        page = relative(path.read_text(encoding="utf-8"), "../" * depth or "./")
        path.write_text(with_policy(page, headers[POLICY]), encoding="utf-8")
    for path in sorted(site.rglob("*.css")):
        depth = len(path.relative_to(site).parts) - 1
        style = path.read_text(encoding="utf-8")
        path.write_text(style.replace("url(/", "url(" + ("../" * depth or "./")), encoding="utf-8")


def relative(page: str, root: str) -> str:
    return ADDRESS.sub(lambda match: match[1] + root, page)


def with_policy(page: str, policy: str) -> str:
    """In front of whatever it is about."""
    stated = "; ".join(part for part in policy.split("; ") if not part.startswith(IN_HEADERS_ONLY))
    return page.replace("<head>", f'<head><meta http-equiv="{POLICY}" content="{stated}">', 1)


def write_service_worker(site: Path, script: str) -> None:
    """`script` without its types; in front of it stands what it is to keep and to add."""
    shell: dict[str, str] = {}
    later: dict[str, str] = {}
    used: list[str] = []
    for path in sorted(path for path in site.rglob("*") if path.is_file()):
        name = path.relative_to(site).as_posix()
        if name.startswith(WHEN_USED):
            used.append(addressed(name, path.read_bytes()))
        elif name.startswith(LATER):
            later[address_of(name, path)] = integrity(path.read_bytes())
        elif (
            name not in (HEADERS_FILE, SERVICE_WORKER)
            and not path.name.startswith(".")
            and not name.startswith(AS_READ)
        ):
            shell[address_of(name, path)] = integrity(path.read_bytes())
    headers = headers_for(read_rules((site / HEADERS_FILE).read_text(encoding="utf-8")), "/")
    version = hashlib.sha256(json.dumps([shell, later, used, headers, script]).encode()).hexdigest()[:16]
    build = {"version": version, "shell": shell, "later": later, "addressed": used, "headers": headers}
    (site / SERVICE_WORKER).write_text(f"const BUILD = {json.dumps(build)};\n{script}", encoding="utf-8")


def address_of(name: str, path: Path) -> str:
    """How the site's own pages ask for a file: a page by its folder, a picture with its digest."""
    if name.startswith("pictures/"):
        return addressed(name, path.read_bytes())
    return re.sub(r"(^|/)index\.html$", r"\1", name)


def integrity(content: bytes) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content).digest()).decode()}"
