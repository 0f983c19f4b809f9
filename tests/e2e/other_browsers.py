"""Firefox by WebDriver BiDi and WebKit by WebDriver: as much of them as a test of the page needs."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

from tinygpt.core.errors import TinyGPTError
from tinygpt.store.formats import load_tinygpt

PATIENCE = 120  # seconds
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # what WebDriver calls an element in JSON
MINI_BROWSER = "usr/lib/*/webkit2gtk-4.1/MiniBrowser"


def wait_for(what: str, found: Any) -> Any:
    """Whatever `found` returns once that is something."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if value := found():
            return value
        time.sleep(0.1)
    raise AssertionError(f"waited {PATIENCE} s for {what}")


def is_whole(file: Path) -> bool:
    try:
        load_tinygpt(file)
    except TinyGPTError:
        return False
    return True


class Tab(ABC):
    """One tab. Downloads go to `folder`; `complaints` are the console's, where the browser tells them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.complaints: list[str] = []

    @abstractmethod
    def open(self, url: str) -> None: ...

    @abstractmethod
    def call(self, function: str, *arguments: str) -> Any:
        """What the JavaScript function returns, or its promise."""

    @abstractmethod
    def choose(self, selector: str, file: Path) -> None:
        """A file for an input."""

    def until(self, function: str, *arguments: str) -> Any:
        try:
            return wait_for(function, lambda: self.call(function, *arguments))
        except AssertionError as fault:
            seen = self.call("() => document.body.innerText")
            raise AssertionError(f"{fault}\nthe page:\n{seen}\nthe console: {self.complaints}") from None

    def press(self, name: str) -> None:
        self.until(
            """name => {
              const [button] = [...document.querySelectorAll("button")].filter(({ innerText }) => innerText === name);
              button?.click();
              return button !== undefined;
            }""",
            name,
        )

    def text(self, selector: str) -> str:
        return str(self.call("selector => document.querySelector(selector)?.innerText ?? ''", selector))

    def downloaded(self) -> Path:
        """The first model file that is whole: browsers fill it while it has its name already."""
        return wait_for("a whole model file", lambda: next(filter(is_whole, self.folder.glob("*.tinygpt")), None))


class Firefox(Tab):
    def __init__(self, connection: ClientConnection, folder: Path) -> None:
        super().__init__(folder)
        self.connection = connection
        self.sent = 0
        self.ask("session.new", capabilities={})
        self.ask("session.subscribe", events=["log.entryAdded"])
        allowed = {"type": "allowed", "destinationFolder": str(folder)}
        self.ask("browser.setDownloadBehavior", downloadBehavior=allowed)
        self.context = self.ask("browsingContext.getTree")["contexts"][0]["context"]

    def ask(self, method: str, **params: Any) -> Any:
        self.sent += 1
        self.connection.send(json.dumps({"id": self.sent, "method": method, "params": params}))
        while True:
            heard = json.loads(self.connection.recv(timeout=PATIENCE))
            if heard.get("method") == "log.entryAdded" and heard["params"]["level"] == "error":
                self.complaints.append(heard["params"]["text"])
            if heard.get("id") == self.sent:
                assert heard["type"] == "success", heard
                return heard["result"]

    def open(self, url: str) -> None:
        self.ask("browsingContext.navigate", context=self.context, url=url, wait="complete")

    def call(self, function: str, *arguments: str) -> Any:
        answer = self.ask(
            "script.callFunction",
            functionDeclaration=f"async (...given) => JSON.stringify((await ({function})(...given)) ?? null)",
            arguments=[{"type": "string", "value": argument} for argument in arguments],
            target={"context": self.context},
            awaitPromise=True,
        )
        assert answer["type"] == "success", answer["exceptionDetails"]["text"]
        return json.loads(answer["result"]["value"])

    def choose(self, selector: str, file: Path) -> None:
        locator = {"type": "css", "value": selector}
        (node,) = self.ask("browsingContext.locateNodes", context=self.context, locator=locator)["nodes"]
        self.ask("input.setFiles", context=self.context, element={"sharedId": node["sharedId"]}, files=[str(file)])


class WebKit(Tab):
    def __init__(self, client: httpx.Client, browser: str, folder: Path) -> None:
        super().__init__(folder)
        self.client = client
        options = {"binary": browser, "args": ["--automation"]}
        wanted = {"capabilities": {"alwaysMatch": {"webkitgtk:browserOptions": options}}}
        self.session = ""
        self.session = f"/{self.ask('', **wanted)['sessionId']}"

    def ask(self, command: str, **body: Any) -> Any:
        answer = self.client.post(f"/session{self.session}{command}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["value"]

    def open(self, url: str) -> None:
        self.ask("/url", url=url)

    def call(self, function: str, *arguments: str) -> Any:
        return self.ask("/execute/sync", script=f"return ({function})(...arguments)", args=arguments)

    def choose(self, selector: str, file: Path) -> None:
        element = self.ask("/element", using="css selector", value=selector)[ELEMENT]
        self.ask(f"/element/{element}/value", text=str(file))


@contextmanager
def running(command: list[str], **options: Any) -> Iterator[None]:
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, **quiet, **options) as process:
        try:
            yield
        finally:
            process.terminate()


@contextmanager
def firefox(folder: Path) -> Iterator[Tab]:
    profile = folder / "profile"
    profile.mkdir()
    told = profile / "WebDriverBiDiServer.json"
    command = ["firefox-esr", "--headless", "--no-remote", "--profile", str(profile), "--remote-debugging-port", "0"]
    with running(command, env={**os.environ, "HOME": str(profile)}):
        wait_for("Firefox", lambda: told.is_file() and told.read_text().endswith("}"))
        at = json.loads(told.read_text())
        with connect(f"ws://{at['ws_host']}:{at['ws_port']}/session", max_size=None, proxy=None) as connection:
            yield (tab := Firefox(connection, folder))
            tab.ask("browser.close")


@contextmanager
def webkit(folder: Path) -> Iterator[Tab]:
    """On a display of its own. Its home is the folder, where it puts downloads. "C", which it takes for a language
    where a machine names none, is none."""
    (browser,) = Path("/").glob(MINI_BROWSER)
    with ExitStack() as stack:
        told, tell = os.pipe()
        stack.enter_context(running(["Xvfb", "-displayfd", str(tell), "-nolisten", "tcp"], pass_fds=[tell]))
        os.close(tell)
        with os.fdopen(told) as line:
            display = f":{line.readline().strip()}"
        port = free_port()
        environment = {**os.environ, "DISPLAY": display, "HOME": str(folder), "LC_ALL": "en_US.UTF-8"}
        stack.enter_context(running(["WebKitWebDriver", f"--port={port}"], env=environment))
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE, trust_env=False)
        stack.enter_context(client)
        wait_for("WebKit's driver", lambda: is_ready(client))
        yield (tab := WebKit(client, str(browser), folder))
        client.delete(f"/session{tab.session}")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def is_ready(client: httpx.Client) -> bool:
    try:
        return bool(client.get("/status").json()["value"]["ready"])
    except httpx.ConnectError:
        return False


BROWSERS = {"firefox": (firefox, ["firefox-esr"]), "webkit": (webkit, ["WebKitWebDriver", "Xvfb"])}


@contextmanager
def tab_of(name: str, folder: Path) -> Iterator[Tab]:
    """A tab of this browser; where it is not installed the test is skipped, but not where `make setup` installs it."""
    start, programs = BROWSERS[name]
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        say = pytest.fail if os.name == "posix" and os.geteuid() == 0 and shutil.which("apt-get") else pytest.skip
        say(f"{', '.join(missing)} cannot be found: `make setup` installs it on Debian, for root")
    with start(folder) as tab:
        yield tab
