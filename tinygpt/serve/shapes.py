"""The JSON of an answer, whole or in chunks, as OpenAI's completions and chat have it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from tinygpt.serve.answers import Piece
from tinygpt.serve.asking import Asked
from tinygpt.serve.scoring import Scored, of_chat, of_completion

Scores = Sequence[list[Scored] | None]  # of each text, where they were asked for


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

    def whole(self, texts: Sequence[Piece], scores: Scores) -> dict[str, Any]:
        choices = [
            self.choice(piece._replace(text=self.echo(piece.choice) + piece.text), rows)
            for piece, rows in zip(texts, scores, strict=True)
        ]
        return self.body(self.kind, choices, usage=self.usage(sum(piece.tokens for piece in texts)))

    def choice(self, piece: Piece, rows: list[Scored] | None = None) -> dict[str, Any]:
        logprobs = None if rows is None else of_completion(rows)
        return {"text": piece.text, "index": piece.choice, "logprobs": logprobs, "finish_reason": piece.finish}


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

    def whole(self, texts: Sequence[Piece], scores: Scores) -> dict[str, Any]:
        choices = [
            {
                "index": piece.choice,
                "message": {"role": "assistant", "content": piece.text, "refusal": None},
                "logprobs": None if rows is None else of_chat(rows),
                "finish_reason": piece.finish,
            }
            for piece, rows in zip(texts, scores, strict=True)
        ]
        return self.body(self.kind, choices, usage=self.usage(sum(piece.tokens for piece in texts)))
