"""The HTTP of it: OpenAI's completions and chat, whole or streamed, and a page to try them."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from tinygpt.core.errors import TinyGPTError
from tinygpt.serve.answers import Piece, pieces
from tinygpt.serve.asking import Asked, Refused, chat, completion
from tinygpt.serve.metrics import Metrics
from tinygpt.serve.scoring import Scored, scored
from tinygpt.serve.server import NAMES, TYPES
from tinygpt.serve.shapes import Chat, Completion
from tinygpt.serve.writer import Writer

HERE = Path(__file__).parent
LARGEST_BODY = 1 << 20  # bytes
BODY_S = 30.0  # in which a body must have come
WATCH_S = 0.05  # between two looks whether a client is still there
UNKEPT = {"Cache-Control": "no-store"}
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
AGAIN = {"Retry-After": "1"}
NO_KEY = Refused(
    "this server requires an API key: send it as the header Authorization: Bearer KEY",
    status=401,
    code="invalid_api_key",
)
HEADERS = {
    401: {"WWW-Authenticate": "Bearer"},
    408: {"Connection": "close"},
    429: AGAIN,
    503: AGAIN,
}  # by the status of an answer
Log = Callable[[str], None]
T = TypeVar("T")


class Api:
    def __init__(self, writers: Mapping[str, Writer], log: Log, body_s: float) -> None:
        self.writers, self.log, self.body_s = writers, log, body_s
        self.began = int(time.time())
        self.metrics = Metrics(writers)

    async def completions(self, request: Request) -> Response:
        asked = completion(await body_of(request, self.body_s), self.writers)
        return await self.answer(request, asked, Completion(asked))

    async def chat(self, request: Request) -> Response:
        asked = chat(await body_of(request, self.body_s), self.writers)
        return await self.answer(request, asked, Chat(asked))

    async def answer(self, request: Request, asked: Asked, shape: Completion | Chat) -> Response:
        began = time.perf_counter()
        news = pieces(asked, self.writers[asked.model])
        try:
            first = await unless_gone(request, anext(news))  # a fault is told before anything is sent
            told = Telling(asked.model, began, self.log, self.metrics)
            if asked.stream:
                return Events(self.events(first, news, shape, told), news)
            texts = await unless_gone(request, whole_texts(first, news, len(asked.texts())))
            scores: list[list[Scored] | None] = [None] * len(texts)
            if asked.logprobs is not None:
                scores = await unless_gone(request, self.scores(asked, asked.logprobs, texts))
        except BaseException:
            await news.aclose()
            raise
        told.done(sum(piece.tokens for piece in texts))
        return JSONResponse(shape.whole(texts, scores), headers=UNKEPT)

    async def scores(self, asked: Asked, count: int, texts: list[Piece]) -> list[list[Scored] | None]:
        """Of each text its bytes' probabilities, with so many of the most likely bytes beside each."""
        scorer = self.writers[asked.model].scorer

        def score(piece: Piece) -> list[Scored]:
            return scored(scorer, asked.prompts[piece.choice // asked.count], piece.written, asked.echo, count)

        return [await asyncio.to_thread(score, piece) for piece in texts]

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
            told.done(written)
        except TinyGPTError as fault:
            yield event(as_refused(fault).body())
        yield "data: [DONE]\n\n"

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
        """503 while an engine is down, with the reason."""
        models = {name: health_of(writer) for name, writer in self.writers.items()}
        down = any(writer.problem for writer in self.writers.values())
        return JSONResponse({"status": "error" if down else "ok", "models": models}, 503 if down else 200, UNKEPT)

    async def metered(self, request: Request) -> Response:
        return Response(self.metrics.text(), headers=UNKEPT | {"Content-Type": CONTENT_TYPE_LATEST})


def health_of(writer: Writer) -> dict[str, Any]:
    told = {"engine": writer.description, "writing": len(writer.writing), "waiting": len(writer.waiting)}
    return told | ({"problem": writer.problem} if writer.problem else {})


class Telling:
    """A line in the terminal for every request that was answered, and what it adds to the metrics."""

    def __init__(self, model: str, began: float, log: Log, metrics: Metrics) -> None:
        self.model, self.began, self.log, self.metrics = model, began, log, metrics
        self.first = time.perf_counter() - began

    def done(self, written: int) -> None:
        seconds = time.perf_counter() - self.began
        self.metrics.add(self.model, written, self.first, seconds)
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
            piece.choice,
            before.text + piece.text,
            piece.finish or before.finish,
            before.tokens + piece.tokens,
            piece.written,
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


async def body_of(request: Request, seconds: float) -> Any:
    """Its JSON. The type must be stated: a page of another site can send any other type without asking first."""
    if request.headers.get("Content-Type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refused("the body must be sent with the header Content-Type: application/json", status=415)
    content = b""
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                content += part
                if len(content) > LARGEST_BODY:
                    raise Refused(f"the body has more than {LARGEST_BODY:,} bytes", status=413)
    except TimeoutError:
        raise Refused(f"the body did not come within {seconds:g} seconds", status=408) from None
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise Refused("the body is no JSON") from None


def as_refused(fault: TinyGPTError) -> Refused:
    return fault if isinstance(fault, Refused) else Refused(str(fault), status=500)


async def refused(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, TinyGPTError)
    told = as_refused(fault)
    return JSONResponse(told.body(), told.status, HEADERS.get(told.status))


async def no_such_place(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, HTTPException)
    said = {404: "unknown endpoint", 405: "this address takes another method"}
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


class KeyRequired:
    """Of every request to the API, but not of those for the page and for the health."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self.app, self.expected = app, f"Bearer {key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = dict(scope["headers"]).get(b"authorization", b"")
        if scope["path"].startswith("/v1") and not hmac.compare_digest(given, self.expected):
            await (await refused(Request(scope), NO_KEY))(scope, receive, send)
        else:
            await self.app(scope, receive, send)


def api_app(
    writers: Mapping[str, Writer],
    log: Log,
    hosts: Sequence[str] = NAMES,
    api_key: str | None = None,
    body_s: float = BODY_S,
) -> Starlette:
    """`hosts` are the names by which clients may call it; any other one was made to lead here by somebody else."""
    api = Api(writers, log, body_s)
    return Starlette(
        routes=[
            Route("/", file("page.html")),
            Route("/page.js", file("page.js")),
            Route("/page.css", file("page.css")),
            Route("/health", api.health),
            Route("/metrics", api.metered),
            Route("/v1/models", api.models),
            Route("/v1/models/{name:path}", api.model),
            Route("/v1/completions", api.completions, methods=["POST"]),
            Route("/v1/chat/completions", api.chat, methods=["POST"]),
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False),
            *([Middleware(KeyRequired, key=api_key)] if api_key else []),
        ],
        exception_handlers={TinyGPTError: refused, HTTPException: no_such_place, ClientDisconnect: nobody},
    )
