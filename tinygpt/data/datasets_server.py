"""One polite client of the Hugging Face datasets server: retries, waits when told to, stops when cancelled."""

from __future__ import annotations

import email.utils
import json
import os
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tinygpt.core.errors import TinyGPTError

if TYPE_CHECKING:
    import httpx  # where it is needed it is imported late: it takes longer than all the rest

DEFAULT_SERVER = "https://datasets-server.huggingface.co"
ATTEMPTS = 6
ATTEMPTS_WITHOUT_ANSWER = 3
LONGEST_WAIT_SECONDS = 120.0
RETRIED_STATUSES = (429, 500, 502, 503, 504)


class Cancelled(TinyGPTError):
    """The caller's `cancelled()` said so."""


class DatasetsServer:
    def __init__(
        self,
        *,
        token: str | None = None,
        cancelled: Callable[[], bool] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        import httpx

        self.url = os.environ.get("TINYGPT_HF_DATASETS_SERVER", DEFAULT_SERVER).rstrip("/")
        self.token = (token or os.environ.get("HF_TOKEN", "")).strip()
        self.cancelled = cancelled or (lambda: False)
        self.sleep = sleep
        # httpx drops the Authorization header when a redirect leaves the host it was meant for.
        self.http = httpx.Client(
            headers={"Authorization": f"Bearer {self.token}"} if self.token else {},
            follow_redirects=True,
            timeout=httpx.Timeout(60, connect=15),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.http.close()

    def get(self, path: str, dataset: str, **parameters: str | int) -> dict[str, Any]:
        """The JSON object at `path`; what the server will not give is a TinyGPTError naming the dataset."""
        import httpx

        for attempt in range(ATTEMPTS):
            try:
                response, body = self.request(path, {"dataset": dataset, **parameters})
            except (httpx.RequestError, httpx.InvalidURL) as error:
                if attempt + 1 >= ATTEMPTS_WITHOUT_ANSWER:
                    raise TinyGPTError(
                        f"Cannot reach the datasets server at {self.url} ({type(error).__name__}): "
                        "check the network connection and try again."
                    ) from error
                self.wait(backoff(attempt))
                continue
            if response.status_code not in RETRIED_STATUSES:
                return self.answer(dataset, response, body)
            delay = max(backoff(attempt), retry_after(response))
            if attempt + 1 < ATTEMPTS and delay <= LONGEST_WAIT_SECONDS:
                self.wait(delay)
            else:
                break
        raise TinyGPTError(
            f"The datasets server is too busy to serve {dataset} "
            f"(HTTP {response.status_code}{reason(body)}): try again in a few minutes."
        )

    def request(self, path: str, parameters: dict[str, str | int]) -> tuple[httpx.Response, bytes]:
        self.check_cancelled()
        chunks = []
        with self.http.stream("GET", f"{self.url}{path}", params=parameters) as response:
            for chunk in response.iter_bytes():
                self.check_cancelled()
                chunks.append(chunk)
        return response, b"".join(chunks)

    def answer(self, dataset: str, response: httpx.Response, body: bytes) -> dict[str, Any]:
        status = response.status_code
        if status in (401, 403):
            remedy = "check that your token may read it" if self.token else "set HF_TOKEN if you may read it"
            raise TinyGPTError(
                f"The dataset {dataset} is gated, private or missing{reason(body)}: check the name, and {remedy}."
            )
        if status == 404:
            raise TinyGPTError(
                f"The datasets server has no such dataset, config or split of {dataset}{reason(body)}: "
                "check the spelling."
            )
        if status != 200:
            raise TinyGPTError(
                f"The datasets server cannot serve {dataset} (HTTP {status}{reason(body)}): try another dataset."
            )
        content = parse_object(body)
        if content is None:
            raise TinyGPTError(
                f"What answers at {response.url.host} is no datasets server: check TINYGPT_HF_DATASETS_SERVER."
            )
        return content

    def wait(self, seconds: float) -> None:
        while seconds > 0:
            self.check_cancelled()
            slice_seconds = min(seconds, 1.0)
            self.sleep(slice_seconds)
            seconds -= slice_seconds

    def check_cancelled(self) -> None:
        if self.cancelled():
            raise Cancelled("The download was cancelled and nothing of it was kept: start it again when you like.")


def backoff(attempt: int) -> float:
    return float(0.5 * 2**attempt)


def retry_after(response: httpx.Response) -> float:
    """Seconds the server asks to wait, given as a number or as a date."""
    value = response.headers.get("Retry-After", "")
    try:
        return float(value)
    except ValueError:
        pass
    try:
        return email.utils.parsedate_to_datetime(value).timestamp() - time.time()
    except ValueError:
        return 0.0


def reason(body: bytes) -> str:
    """The server's own words, made to sit inside a sentence."""
    message = str((parse_object(body) or {}).get("error", "")).strip()
    return f", it says “{' '.join(message.split())[:200].rstrip('.')}”" if message else ""


def parse_object(body: bytes) -> dict[str, Any] | None:
    try:
        content = json.loads(body)
    except ValueError:
        return None
    return content if isinstance(content, dict) else None
