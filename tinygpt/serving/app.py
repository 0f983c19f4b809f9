"""The HTTP of it: OpenAI's completions and chat, whole or streamed, and a page to try them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from tinygpt.core.errors import TinyGPTError
from tinygpt.server import NAMES, TYPES
from tinygpt.serving.answers import Piece, pieces
from tinygpt.serving.asking import Asked, Refused, chat, completion
from tinygpt.serving.writer import Writer

HERE = Path(__file__).parent
LARGEST_BODY = 1 << 20  # bytes
WATCH_S = 0.05  # between two looks whether a client is still there
UNKEPT = {"Cache-Control": "no-store"}
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
Log = Callable[[str], None]
T = TypeVar("T")


class Shape:
    """How an answer is written down: completions and chat differ in names alone."""

    def __init__(self, kind: str, id_prefix: str, asked: Asked) -> None:
        self.kind, self.asked = kind, asked
        self.id, self.made = f"{id_prefix}-{uuid4().hex}", int(time.time())

    def body(self, kind: str, choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        told = {"id": self.id, "object": kind, "created": self.made, "model": self.asked.model}
        return {**told, "choices": choices, **more}

    def usage(self, written: int) -> dict[str, int]:
        read = sum(map(len, self.asked.prompts))
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}

    def opening(self) -> list[dict[str, Any]]:
        """Chunks that stand before the first piece."""
        return []

    def echo(self, choice: int) -> str:
        prompt = self.asked.prompts[choice // self.asked.count]
        return prompt.decode("utf-8", "replace") if self.asked.echo else ""


class Completion(Shape):
    def __init__(self, asked: Asked) -> None:
        super().__init__("text_completion", "cmpl", asked)

    def opening(self) -> list[dict[str, Any]]:
        choices = range(len(self.asked.texts()) if self.asked.echo else 0)
        return [self.chunk(Piece(choice, self.echo(choice))) for choice in choices]

    def chunk(self, piece: Piece) -> dict[str, Any]:
        return self.body(self.kind, [self.choice(piece)])

    def whole(self, texts: Sequence[Piece]) -> dict[str, Any]:
        choices = [self.choice(piece._replace(text=self.echo(piece.choice) + piece.text)) for piece in texts]
        return self.body(self.kind, choices, usage=self.usage(sum(piece.tokens for piece in texts)))

    def choice(self, piece: Piece) -> dict[str, Any]:
        return {"text": piece.text, "index": piece.choice, "logprobs": None, "finish_reason": piece.finish}


class Chat(Shape):
    def __init__(self, asked: Asked) -> None:
        super().__init__("chat.completion", "chatcmpl", asked)

    def opening(self) -> list[dict[str, Any]]:
        roles = [self.delta(i, {"role": "assistant", "content": ""}) for i in range(self.asked.count)]
        return [self.body("chat.completion.chunk", [role]) for role in roles]

    def chunk(self, piece: Piece) -> dict[str, Any]:
        content = {"content": piece.text} if piece.text else {}
        return self.body("chat.completion.chunk", [self.delta(piece.choice, content, piece.finish)])

    def delta(self, index: int, content: dict[str, str], finish: str | None = None) -> dict[str, Any]:
        return {"index": index, "delta": content, "logprobs": None, "finish_reason": finish}

    def whole(self, texts: Sequence[Piece]) -> dict[str, Any]:
        choices = [
            {
                "index": piece.choice,
                "message": {"role": "assistant", "content": piece.text, "refusal": None},
                "logprobs": None,
                "finish_reason": piece.finish,
            }
            for piece in texts
        ]
        return self.body(self.kind, choices, usage=self.usage(sum(piece.tokens for piece in texts)))


class Api:
    def __init__(self, writers: Mapping[str, Writer], log: Log) -> None:
        self.writers, self.log = writers, log
        self.began = int(time.time())

    async def completions(self, request: Request) -> Response:
        asked = completion(await body_of(request), self.writers)
        return await self.answer(request, asked, Completion(asked))

    async def chat(self, request: Request) -> Response:
        asked = chat(await body_of(request), self.writers)
        return await self.answer(request, asked, Chat(asked))

    async def answer(self, request: Request, asked: Asked, shape: Completion | Chat) -> Response:
        began = time.perf_counter()
        news = pieces(asked, self.writers[asked.model])
        try:
            first = await unless_gone(request, anext(news))  # a fault is told before anything is sent
            told = Telling(asked.model, began, self.log)
            if asked.stream:
                return Events(self.events(first, news, shape, told), news)
            texts = await unless_gone(request, whole_texts(first, news, len(asked.texts())))
        except BaseException:
            await news.aclose()
            raise
        told.done(sum(piece.tokens for piece in texts))
        return JSONResponse(shape.whole(texts), headers=UNKEPT)

    async def events(
        self, first: Piece, news: AsyncGenerator[Piece], shape: Completion | Chat, told: Telling
    ) -> AsyncIterator[str]:
        written = 0
        try:
            for chunk in shape.opening():
                yield event(chunk)
            piece: Piece | None = first
            while piece is not None:
                written += piece.tokens
                if piece.text or piece.finish:
                    yield event(shape.chunk(piece))
                piece = await anext(news, None)
            if shape.asked.usage:
                yield event(shape.chunk(Piece(0, "")) | {"choices": [], "usage": shape.usage(written)})
            yield "data: [DONE]\n\n"
            told.done(written)
        except TinyGPTError as fault:
            yield event(as_refused(fault).body())

    async def models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self.model_facts(name) for name in self.writers]})

    async def model(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self.writers:
            raise Refused(f"there is no model {name!r} here", "model", 404, "model_not_found")
        return JSONResponse(self.model_facts(name))

    def model_facts(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": self.began, "owned_by": "tinygpt"}

    async def health(self, request: Request) -> Response:
        models = {
            name: {"engine": writer.description, "writing": len(writer.writing), "waiting": len(writer.waiting)}
            for name, writer in self.writers.items()
        }
        return JSONResponse({"status": "ok", "models": models}, headers=UNKEPT)


class Telling:
    """A line in the terminal for every request that was answered."""

    def __init__(self, model: str, began: float, log: Log) -> None:
        self.model, self.began, self.log = model, began, log
        self.first = time.perf_counter() - began

    def done(self, written: int) -> None:
        seconds = time.perf_counter() - self.began
        rate = written / seconds if seconds else 0.0
        self.log(f"{self.model}: {written:,} bytes, the first after {1000 * self.first:.0f} ms, {rate:,.0f} bytes/s")


def event(body: dict[str, Any]) -> str:
    return f"data: {json.dumps(body, ensure_ascii=False)}\n\n"


async def whole_texts(first: Piece, news: AsyncGenerator[Piece], count: int) -> list[Piece]:
    texts = [Piece(choice, "") for choice in range(count)]
    piece: Piece | None = first
    while piece is not None:
        before = texts[piece.choice]
        texts[piece.choice] = Piece(
            piece.choice, before.text + piece.text, piece.finish or before.finish, before.tokens + piece.tokens
        )
        piece = await anext(news, None)
    return texts


async def unless_gone(request: Request, work: Awaitable[T]) -> T:
    """What comes of it, unless the client goes away before."""

    async def gone() -> None:
        while not await request.is_disconnected():
            await asyncio.sleep(WATCH_S)

    watch, task = asyncio.ensure_future(gone()), asyncio.ensure_future(work)
    try:
        await asyncio.wait([watch, task], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        watch.cancel()
        task.cancel()
        await asyncio.gather(watch, task, return_exceptions=True)


class Events(StreamingResponse):
    """Server-sent events. However it ends, the writing ends with it."""

    def __init__(self, events: AsyncIterator[str], news: AsyncGenerator[Piece]) -> None:
        super().__init__(events, media_type="text/event-stream", headers=UNKEPT)
        self.news = news

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self.news.aclose()


async def body_of(request: Request) -> Any:
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > LARGEST_BODY:
            raise Refused(f"the body has more than {LARGEST_BODY:,} bytes", status=413)
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise Refused("the body is no JSON") from None


def as_refused(fault: TinyGPTError) -> Refused:
    return fault if isinstance(fault, Refused) else Refused(str(fault), status=500)


async def refused(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, TinyGPTError)
    told = as_refused(fault)
    headers = {"Retry-After": "1"} if told.status == 429 else None
    return JSONResponse(told.body(), told.status, headers)


async def no_such_place(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, HTTPException)
    said = {404: "there is nothing at this address", 405: "this address takes another method"}
    return JSONResponse(
        Refused(said.get(fault.status_code, fault.detail), status=fault.status_code).body(), fault.status_code
    )


async def nobody(request: Request, fault: Exception) -> Response:
    """Whoever asked has gone."""
    return Response(status_code=499)


def file(name: str) -> Callable[[Request], Any]:
    async def send(request: Request) -> Response:
        return FileResponse(HERE / name, media_type=TYPES[Path(name).suffix], headers=PAGE_HEADERS)

    return send


def api_app(writers: Mapping[str, Writer], log: Log, hosts: Sequence[str] = NAMES) -> Starlette:
    """`hosts` are the names by which clients may call it; any other one was made to lead here by somebody else."""
    api = Api(writers, log)
    return Starlette(
        routes=[
            Route("/", file("page.html")),
            Route("/page.js", file("page.js")),
            Route("/page.css", file("page.css")),
            Route("/health", api.health),
            Route("/v1/models", api.models),
            Route("/v1/models/{name:path}", api.model),
            Route("/v1/completions", api.completions, methods=["POST"]),
            Route("/v1/chat/completions", api.chat, methods=["POST"]),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)],
        exception_handlers={TinyGPTError: refused, HTTPException: no_such_place, ClientDisconnect: nobody},
    )
