"""What a client asks for: the JSON of a request, understood or refused in one sentence."""

from __future__ import annotations

import reprlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tinygpt.core.config import SEEDS, SampleConfig
from tinygpt.core.errors import TinyGPTError

DEFAULT_TOKENS = 256
MOST_TOKENS = 100_000  # bytes of a text
MOST_TEXTS = 64  # of a request
MOST_STOPS = 16
LONGEST_STOP = 256  # bytes
MOST_LIKELY = 20  # bytes beside each that was written
LONGEST_SCORED = 16_384  # bytes of a text whose bytes' probabilities are asked for
ROLES = ("system", "developer", "user", "assistant")
# Of the API, but not of ours; what stands beside them asks for nothing.
REFUSED: dict[str, tuple[Any, ...]] = {
    "suffix": (None, ""),
    "logit_bias": (None, {}),
    "frequency_penalty": (None, 0),
    "presence_penalty": (None, 0),
    "tools": (None, []),
    "functions": (None, []),
    "response_format": (None, {"type": "text"}),
}


class Refused(TinyGPTError):
    """A request that gets no text: the status of the answer, and the parameter that is at fault."""

    def __init__(self, message: str, param: str | None = None, status: int = 400, code: str | None = None) -> None:
        super().__init__(message)
        self.param, self.status, self.code = param, status, code

    def body(self) -> dict[str, Any]:
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


@dataclass(frozen=True)
class Asked:
    model: str
    prompts: tuple[bytes, ...]
    count: int  # texts per prompt
    settings: SampleConfig  # of the first text; each further one has the next seed
    stops: tuple[bytes, ...]
    stream: bool
    usage: bool  # told at the end of a stream, too
    echo: bool = False
    logprobs: int | None = None  # how many of the most likely bytes are told with each; None: no probabilities

    def texts(self) -> list[tuple[bytes, SampleConfig]]:
        """A prompt and its settings for every choice, in the order of their numbers."""
        return [(prompt, self.settings.of_text(number)) for prompt in self.prompts for number in range(self.count)]


def completion(body: Any, names: Mapping[str, object]) -> Asked:
    """POST /v1/completions."""
    stated = checked(body, names)
    return asked(
        stated,
        prompts_of(stated.get("prompt")),
        whole(stated, "max_tokens", DEFAULT_TOKENS, 1, MOST_TOKENS),
        (),
        flag(stated, "echo"),
        None if stated.get("logprobs") in (None, False) else whole(stated, "logprobs", 0, 0, MOST_LIKELY),
    )


def chat(body: Any, names: Mapping[str, object]) -> Asked:
    """POST /v1/chat/completions: the messages as a plain text, a line each, which the model goes on with."""
    stated = checked(body, names)
    messages = stated.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refused("messages must be a list of at least one message", "messages")
    lines = [f"{role.capitalize()}: {content}\n" for role, content in map(message_of, messages)]
    key = "max_completion_tokens" if stated.get("max_completion_tokens") is not None else "max_tokens"
    tokens = whole(stated, key, DEFAULT_TOKENS, 1, MOST_TOKENS)
    likely = whole(stated, "top_logprobs", 0, 0, MOST_LIKELY)
    if likely and not flag(stated, "logprobs"):
        raise Refused("top_logprobs needs logprobs: true beside it", "top_logprobs")
    logprobs = likely if flag(stated, "logprobs") else None
    prompt = "".join(lines) + "Assistant:"
    return asked(stated, (prompt,), tokens, (b"\nUser:", b"\nSystem:"), logprobs=logprobs)


def message_of(message: Any) -> tuple[str, str]:
    role = message.get("role") if isinstance(message, dict) else None
    if role not in ROLES:
        raise Refused(f"a message needs a role, one of {', '.join(ROLES)}", "messages")
    content = message.get("content")
    if isinstance(content, list):
        parts = [
            part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None for part in content
        ]
        content = None if None in parts else "".join(map(str, parts))
    if not isinstance(content, str):
        raise Refused("the content of a message must be a text: there is no other kind here", "messages")
    return role, content


def checked(body: Any, names: Mapping[str, object]) -> dict[str, Any]:
    """An object that names one of these models, and asks for nothing that there is not."""
    if not isinstance(body, dict):
        raise Refused("the body must be a JSON object")
    model = body.get("model")
    if not isinstance(model, str):
        raise Refused(f"model must be a name: {', '.join(names)}", "model")
    if model not in names:
        known = ", ".join(names)
        raise Refused(f"there is no model {shown(model)} here, only {known}", "model", 404, "model_not_found")
    for name, idle in REFUSED.items():
        if name in body and body[name] not in idle:
            raise Refused(f"{name} is not supported: leave it out", name)
    if body.get("best_of") not in (None, body.get("n") or 1):
        raise Refused("best_of is not supported: leave it out", "best_of")
    return body


def asked(
    stated: dict[str, Any],
    prompts: tuple[Any, ...],
    tokens: int,
    own_stops: tuple[bytes, ...],
    echo: bool = False,
    logprobs: int | None = None,
) -> Asked:
    count = whole(stated, "n", 1, 1, MOST_TEXTS)
    if count * len(prompts) > MOST_TEXTS:
        raise Refused(f"n times the prompts are {count * len(prompts)} texts, and a request may have {MOST_TEXTS}", "n")
    options = stated.get("stream_options") or {}
    if not isinstance(options, dict):
        raise Refused(f"stream_options must be an object, not {shown(options)}", "stream_options")
    read = tuple(prompt.encode("utf-8", "replace") if isinstance(prompt, str) else prompt for prompt in prompts)
    if logprobs is not None:
        if flag(stated, "stream"):
            raise Refused("logprobs come with a whole answer: leave stream out", "logprobs")
        if max(map(len, read)) + tokens > LONGEST_SCORED:
            raise Refused(
                f"with logprobs a prompt and max_tokens may have {LONGEST_SCORED:,} bytes together", "logprobs"
            )
    seed = stated.get("seed")
    settings = SampleConfig(
        tokens=tokens,
        temperature=number(stated, "temperature", 1.0, 0.0, 2.0),
        top_p=number(stated, "top_p", 1.0, 0.0, 1.0),
        top_k=whole(stated, "top_k", 0, 0, 256),  # not of the API, and useful
        seed=secrets.randbelow(SEEDS) if seed is None else whole(stated, "seed", 0, -(2**63), 2**63) % SEEDS,
    )
    return Asked(
        stated["model"],
        read,
        count,
        settings,
        stops_of(stated.get("stop")) + own_stops,
        flag(stated, "stream"),
        options.get("include_usage") is True,
        echo,
        logprobs,
    )


def prompts_of(prompt: Any) -> tuple[str | bytes, ...]:
    """A text, bytes as numbers, or a list of either."""
    if prompt is None or isinstance(prompt, str):
        return (prompt or "",)
    if is_bytes(prompt):
        return (bytes(prompt),)
    if isinstance(prompt, list) and 0 < len(prompt) <= MOST_TEXTS:
        if all(isinstance(one, str) for one in prompt):
            return tuple(prompt)
        if all(map(is_bytes, prompt)):
            return tuple(map(bytes, prompt))
    raise Refused(
        f"prompt must be a text, tokens (which are bytes, 0 to 255), or 1 to {MOST_TEXTS} of one kind", "prompt"
    )


def is_bytes(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(one) is int and 0 <= one < 256 for one in value)


def stops_of(stop: Any) -> tuple[bytes, ...]:
    stops = [] if stop is None else [stop] if isinstance(stop, str) else stop
    if not isinstance(stops, list) or not all(isinstance(one, str) for one in stops) or len(stops) > MOST_STOPS:
        raise Refused(f"stop must be a text or up to {MOST_STOPS} texts", "stop")
    coded = tuple(one.encode("utf-8", "replace") for one in stops if one)
    if any(len(one) > LONGEST_STOP for one in coded):
        raise Refused(f"a text to stop at may have {LONGEST_STOP} bytes", "stop")
    return coded


def number(stated: dict[str, Any], name: str, usual: float, low: float, high: float) -> float:
    value = usual if stated.get(name) is None else stated[name]
    if type(value) not in (int, float) or not low <= value <= high:
        raise Refused(f"{name} must be a number from {low:g} to {high:g}, not {shown(value)}", name)
    return float(value)


def whole(stated: dict[str, Any], name: str, usual: int, low: int, high: int) -> int:
    value = usual if stated.get(name) is None else stated[name]
    if type(value) is not int or not low <= value <= high:
        raise Refused(f"{name} must be a whole number from {low} to {high}, not {shown(value)}", name)
    return value


def flag(stated: dict[str, Any], name: str) -> bool:
    value = stated.get(name)
    if value is not None and type(value) is not bool:  # 1 == True, but a client that sends 1 means something else
        raise Refused(f"{name} must be true or false, not {shown(value)}", name)
    return value is True


def shown(value: Any) -> str:
    return reprlib.repr(value)
