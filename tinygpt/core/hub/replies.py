"""What the server's status means: wait and ask again, or one clear sentence."""

from tinygpt.core.errors import TinyGPTError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ATTEMPTS = 6
ATTEMPTS_WITHOUT_ANSWER = 3
LONGEST_WAIT_SECONDS = 120.0
RETRIED_STATUSES = (429, 500, 502, 503, 504)
LONGEST_REASON = 200  # characters of the server's own words


class Patience:
    """With one request."""

    def __init__(self, dataset: str, server: str) -> None:
        self.dataset = dataset
        self.server = server
        self.attempt = 0

    def after_silence(self, why: str) -> float:
        """Seconds to wait where no answer came."""
        self.attempt += 1
        if self.attempt >= ATTEMPTS_WITHOUT_ANSWER:
            raise TinyGPTError(
                f"Cannot reach the datasets server at {self.server} ({why}): "
                "check the network connection and try again."
            )
        return backoff(self.attempt)

    def after_busy(self, status: int, told: float, content: "dict[str, Any] | None") -> float:
        """Seconds to wait where one of RETRIED_STATUSES came, and with it the seconds that it asks for (else 0)."""
        self.attempt += 1
        delay = max(backoff(self.attempt), told)
        if self.attempt < ATTEMPTS and delay <= LONGEST_WAIT_SECONDS:
            return delay
        raise TinyGPTError(
            f"The datasets server is too busy to serve {self.dataset} "
            f"(HTTP {status}{reason(content)}): try again in a few minutes."
        )


def backoff(attempt: int) -> float:
    return float(0.25 * 2**attempt)


def check_status(dataset: str, status: int, content: "dict[str, Any] | None", remedy: str) -> None:
    """Refuse whatever is not an answer to read; `remedy` is what to do about a token."""
    if status in (401, 403):
        raise TinyGPTError(
            f"The dataset {dataset} is gated, private or missing{reason(content)}: check the name, and {remedy}."
        )
    if status == 404:
        raise TinyGPTError(
            f"The datasets server has no such dataset, config or split of {dataset}{reason(content)}: "
            "check the spelling."
        )
    if status != 200:
        raise TinyGPTError(
            f"The datasets server cannot serve {dataset} (HTTP {status}{reason(content)}): try another dataset."
        )


def reason(content: "dict[str, Any] | None") -> str:
    """The server's own words, made to sit inside a sentence."""
    message = (content or {}).get("error")
    words = " ".join(message.split())[:LONGEST_REASON].rstrip(".") if isinstance(message, str) else ""
    return f", it says “{words}”" if words else ""
