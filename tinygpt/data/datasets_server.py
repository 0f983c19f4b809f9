"""One polite client of the Hugging Face datasets server: retries, waits when told to, stops when cancelled.

It trusts nothing that it is sent: the bytes and seconds that an answer may take are bounded, those of a visit too.
"""

from __future__ import annotations

import email.utils
import json
import os
import time
import zlib
from collections.abc import Callable
from concurrent.futures import wait
from contextlib import ExitStack, aclosing
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.hub.names import SERVER, address
from tinygpt.core.hub.replies import RETRIED_STATUSES, Patience, check_status

if TYPE_CHECKING:
    import httpx  # where it is needed it is imported late: it takes longer than all the rest

MOST_REDIRECTS = 10
ANSWER_BYTES = 32 << 20  # unpacked; the real server keeps its pages near one MiB
ANSWER_SECONDS = 60.0  # from the first byte sent to the last one received
VISIT_SECONDS = 3600.0  # all answers together, and the waiting between them
NO_SUCH_PORT = (OverflowError, ExceptionGroup)  # what sockets, and tasks that open them, say of one beyond 65535
CANCEL_SECONDS = 0.1  # how soon a cancelled answer is given up


class Cancelled(TinyGPTError):
    """The caller's `cancelled()` said so."""


@dataclass(frozen=True)
class Answer:
    status: int
    host: str
    retry_after: str
    body: bytes


def server_url() -> str:
    return os.environ.get("TINYGPT_HF_DATASETS_SERVER", SERVER).rstrip("/")


class DatasetsServer:
    """Open while the `with` lasts. Exchanges run in an event loop of their own, where any of them can be broken off."""

    def __init__(
        self,
        *,
        token: str | None = None,
        cancelled: Callable[[], bool] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = server_url()
        self.token = (token or os.environ.get("HF_TOKEN", "")).strip()
        if not (self.token.isascii() and self.token.isprintable()):
            raise TinyGPTError("HF_TOKEN holds characters that no token has: copy it anew, or unset it.")
        self.cancelled = cancelled or (lambda: False)
        self.sleep = sleep
        self.deadline = time.monotonic() + VISIT_SECONDS

    def __enter__(self) -> Self:
        from anyio.from_thread import start_blocking_portal

        with ExitStack() as opened:
            self.portal = opened.enter_context(start_blocking_portal())
            self.http = opened.enter_context(self.portal.wrap_async_context_manager(self.client()))
            self.opened = opened.pop_all()
        return self

    def client(self) -> httpx.AsyncClient:
        import httpx

        authorization = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        timeout = httpx.Timeout(ANSWER_SECONDS, connect=15)
        try:
            return httpx.AsyncClient(headers={"Accept-Encoding": "gzip", **authorization}, timeout=timeout)
        except (ValueError, OSError, ImportError, httpx.InvalidURL) as fault:
            raise TinyGPTError(
                f"The network cannot be used as the environment says ({fault}): "
                "check the variables whose names end in _PROXY, and SSL_CERT_FILE."
            ) from fault

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.opened.__exit__(kind, error, trace)

    def get(self, path: str, dataset: str, **parameters: str | int) -> dict[str, Any]:
        """The JSON object at `path`; what the server will not give is a TinyGPTError naming the dataset."""
        import httpx

        place = address(path, [("dataset", dataset), *parameters.items()])
        patience = Patience(dataset, self.url)
        while True:
            try:
                answer = self.request(place)
            except (httpx.RequestError, httpx.InvalidURL, TimeoutError, *NO_SUCH_PORT) as error:
                self.wait(patience.after_silence(type(error).__name__))
                continue
            if answer.status not in RETRIED_STATUSES:
                return self.content(dataset, answer)
            self.wait(patience.after_busy(answer.status, retry_after(answer), parse_object(answer.body)))

    def request(self, place: str) -> Answer:
        self.check_time()
        exchange = self.portal.start_task_soon(self.exchange, place)
        try:
            while not wait([exchange], CANCEL_SECONDS).done:
                self.check_time()
        finally:
            exchange.cancel()
        return exchange.result()

    async def exchange(self, place: str) -> Answer:
        """Redirects are followed by hand: httpx would read their bodies, however long."""
        from anyio import fail_after

        with fail_after(ANSWER_SECONDS):
            request = self.http.build_request("GET", self.url + place)
            for _ in range(MOST_REDIRECTS + 1):
                async with aclosing(await self.http.send(request, stream=True)) as response:
                    if response.next_request is None:
                        told_to_wait = response.headers.get("Retry-After", "")
                        return Answer(response.status_code, response.url.host, told_to_wait, await read(response))
                    request = response.next_request  # without the token where it leaves the host it was meant for
        raise no_datasets_server(response.url.host)

    def content(self, dataset: str, answer: Answer) -> dict[str, Any]:
        content = parse_object(answer.body)
        remedy = "check that your token may read it" if self.token else "set HF_TOKEN if you may read it"
        check_status(dataset, answer.status, content, remedy)
        if content is None:
            raise no_datasets_server(answer.host)
        return content

    def wait(self, seconds: float) -> None:
        while seconds > 0:
            self.check_time()
            slice_seconds = min(seconds, 1.0)
            self.sleep(slice_seconds)
            seconds -= slice_seconds

    def check_time(self) -> None:
        if self.cancelled():
            raise Cancelled("The download was cancelled and nothing of it was kept: start it again when you like.")
        if time.monotonic() > self.deadline:
            raise TinyGPTError(
                f"The datasets server took longer than {VISIT_SECONDS / 60:g} minutes: "
                "try again later, or ask for fewer bytes."
            )


async def read(response: httpx.Response) -> bytes:
    """The body, unpacked here: httpx would first unpack a whole chunk and then let it be counted."""
    packed = response.headers.get("Content-Encoding", "identity") != "identity"
    unpacking = zlib.decompressobj(zlib.MAX_WBITS | 16)  # gzip is all that was asked for
    body = bytearray()
    try:
        async for chunk in response.aiter_raw():
            body += unpacking.decompress(chunk, ANSWER_BYTES + 1 - len(body)) if packed else chunk
            if len(body) > ANSWER_BYTES:
                raise TinyGPTError(
                    f"What {response.url.host} sends is larger than {ANSWER_BYTES >> 20} MiB: try another dataset."
                )
    except zlib.error:
        raise no_datasets_server(response.url.host) from None
    return bytes(body)


def no_datasets_server(host: str) -> TinyGPTError:
    return TinyGPTError(f"What answers at {host} is no datasets server: check TINYGPT_HF_DATASETS_SERVER.")


def retry_after(answer: Answer) -> float:
    """Seconds the server asks to wait, given as a number or as a date."""
    try:
        return float(answer.retry_after)
    except ValueError:
        pass
    try:
        return email.utils.parsedate_to_datetime(answer.retry_after).timestamp() - time.time()
    except (ValueError, OverflowError):
        return 0.0


def parse_object(body: bytes) -> dict[str, Any] | None:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None
