"""A model server that speaks the OpenAI protocol on loopback, takes a fixed time for each chat call, and counts.

Usage: python benchmarks/stub_server.py [--latency 0.2]

Chat replies follow from the prompts by rule (stub_replies.py). Embeddings are those of all-MiniLM-L6-v2, or made by
hashing words with `--embeddings hash`, kept for the next time. Prints its URL as JSON. `StubServer` runs it for the
other scripts, in a process of its own, so that its work is none of theirs.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import socket
import struct
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

LENGTH_OF_TOKEN = 4
"""Characters of a token in usage; an estimate, the same for everybody."""


class Account:
    """What was asked since the last reset."""

    def __init__(self) -> None:
        self.latency = 0.0
        self.calls: list[dict[str, Any]] = []
        self.prompts: list[str] = []
        self.embedding_calls = 0
        self.embedded_texts = 0

    def reset(self, latency: float) -> None:
        """Start anew."""
        self.__init__()
        self.latency = latency

    def summary(self) -> dict[str, Any]:
        """Return the counts and times of all chat calls since the last reset."""
        spans = [(call["start"], call["end"]) for call in self.calls]
        return {
            "latency_s": self.latency,
            "calls": len(self.calls),
            "in_sequence": in_sequence(spans),
            "at_once": at_once(spans),
            "under_way_s": round(union(spans), 3),
            "in_sequence_s": round(in_sequence_seconds(spans), 4),
            "tokens_in": sum(call["in"] for call in self.calls),
            "tokens_out": sum(call["out"] for call in self.calls),
            "prefix_share": prefix_share(self.prompts),
            "steps": dict(Counter(call["step"] for call in self.calls)),
            "embedding_calls": self.embedding_calls,
            "embedded_texts": self.embedded_texts,
        }


def in_sequence(spans: list[tuple[float, float]]) -> int:
    """Return the length of the longest chain of calls of which each began when the one before had ended."""
    length, free = 0, float("-inf")
    for start, end in sorted(spans, key=lambda span: span[1]):
        if start >= free:
            length, free = length + 1, end
    return length


def in_sequence_seconds(spans: list[tuple[float, float]]) -> float:
    """Return the seconds that the longest chain took of calls of which each began when the one before had ended."""
    chains: list[tuple[float, float]] = []
    for start, end in sorted(spans, key=lambda span: span[1]):
        before = max((seconds for ended, seconds in chains if ended <= start), default=0.0)
        chains.append((end, before + end - start))
    return max((seconds for _, seconds in chains), default=0.0)


def at_once(spans: list[tuple[float, float]]) -> int:
    """Return how many calls were under way at the same time at most."""
    changes = sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans])
    most = now = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


def union(spans: list[tuple[float, float]]) -> float:
    """Return the seconds in which any call was under way."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def prefix_share(prompts: list[str]) -> float:
    """Return the share of all characters that an earlier prompt began with, as a cache of exact prefixes holds them.

    In sorted order the prompts that share most stand side by side.
    """
    known: list[str] = []
    shared = 0
    for prompt in prompts:
        known.append(prompt)
        known.sort()
        place = known.index(prompt)
        beside = [known[other] for other in (place - 1, place + 1) if 0 <= other < len(known)]
        shared += max((common(prompt, other) for other in beside), default=0)
    return round(shared / max(1, sum(map(len, prompts))), 3)


def common(left: str, right: str) -> int:
    """Return how many characters two texts share at their beginning."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if left[:middle] == right[:middle] else (low, middle - 1)
    return low


def application(embeddings: str, latency: float) -> Any:
    """Return the server.

    Args:
        embeddings: `minilm`, or `hash` for vectors made of words.
        latency: Seconds that a chat call takes, until it is told otherwise.
    """
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route
    from stub_replies import UnknownPrompt, reply_to, step_of, text_of

    if embeddings == "minilm":
        from dualmem.local.embeddings import local_embeddings

        model: Any = local_embeddings("minilm")
    else:
        from dualmem.testing import WordEmbeddings

        model = WordEmbeddings(384)
    account = Account()
    account.latency = latency
    vectors: dict[str, list[float]] = {}
    packed: dict[str, str] = {}
    """The vectors as base64, made once: what the server computes is not to be waited for."""

    async def chat(request: Request) -> JSONResponse:
        start = time.perf_counter()
        body = await request.json()
        messages = body["messages"]
        prompt = "\n".join(f"{message['role']}: {text_of(message)}" for message in messages)
        try:
            step, reply = step_of(messages, body), reply_to(messages, body)
        except UnknownPrompt as error:
            return JSONResponse({"error": {"message": str(error), "type": "unknown_prompt"}}, 400)
        said = (reply.get("content") or "") + "".join(
            call["function"]["arguments"] for call in reply.get("tool_calls", [])
        )
        tokens_in, tokens_out = len(prompt) // LENGTH_OF_TOKEN, len(said) // LENGTH_OF_TOKEN
        await asyncio.sleep(max(0.0, account.latency - (time.perf_counter() - start)))
        account.prompts.append(prompt)
        account.calls.append(
            {"step": step, "start": start, "end": time.perf_counter(), "in": tokens_in, "out": tokens_out}
        )
        return JSONResponse(
            {
                "id": f"chatcmpl-{len(account.calls)}",
                "object": "chat.completion",
                "created": 0,
                "model": body.get("model", "stub"),
                "choices": [
                    {
                        "index": 0,
                        "message": reply,
                        "finish_reason": "tool_calls" if reply.get("tool_calls") else "stop",
                    }
                ],
                "usage": {
                    "prompt_tokens": tokens_in,
                    "completion_tokens": tokens_out,
                    "total_tokens": tokens_in + tokens_out,
                },
            }
        )

    async def embed(request: Request) -> JSONResponse:
        body = await request.json()
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        account.embedding_calls += 1
        account.embedded_texts += len(texts)
        missing = [text for text in dict.fromkeys(texts) if text not in vectors]
        if missing:
            vectors.update(zip(missing, await asyncio.to_thread(model.embed_documents, missing), strict=True))
            for text in missing:
                numbers = struct.pack(f"<{len(vectors[text])}f", *vectors[text])
                packed[text] = base64.b64encode(numbers).decode()
        known: dict[str, Any] = packed if body.get("encoding_format") == "base64" else vectors
        data = [{"object": "embedding", "index": place, "embedding": known[text]} for place, text in enumerate(texts)]
        usage = {"prompt_tokens": 0, "total_tokens": 0}
        return JSONResponse({"object": "list", "data": data, "model": body.get("model", "stub"), "usage": usage})

    async def reset(request: Request) -> JSONResponse:
        account.reset(float((await request.json())["latency"]))
        return JSONResponse({})

    async def summary(request: Request) -> JSONResponse:
        return JSONResponse(account.summary())

    return Starlette(
        routes=[
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/v1/embeddings", embed, methods=["POST"]),
            Route("/reset", reset, methods=["POST"]),
            Route("/summary", summary),
        ]
    )


class StubServer:
    """The server in a process of its own, for the time of a `with`.

    Args:
        embeddings: `minilm` or `hash`.
    """

    def __init__(self, embeddings: str = "minilm") -> None:
        self._embeddings = embeddings
        self.url = ""

    def __enter__(self) -> Self:
        """Start it and wait until it listens."""
        command = [sys.executable, str(Path(__file__)), "--embeddings", self._embeddings]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = json.loads(self._process.stdout.readline())["url"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it."""
        self._process.terminate()
        self._process.wait()

    def reset(self, latency: float) -> None:
        """Forget what was counted; from now on a chat call takes `latency` seconds."""
        self._ask("/reset", {"latency": latency})

    def summary(self) -> dict[str, Any]:
        """Return what was counted since."""
        return self._ask("/summary")

    def _ask(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        url = self.url.removesuffix("/v1") + path
        reply = httpx.get(url, timeout=30) if body is None else httpx.post(url, json=body, timeout=30)
        found: dict[str, Any] = reply.raise_for_status().json()
        return found


async def serve(options: argparse.Namespace) -> None:
    """Serve until the process is stopped."""
    import uvicorn

    config = uvicorn.Config(
        application(options.embeddings, options.latency),
        host="127.0.0.1",
        port=options.port,
        log_level="error",
        access_log=False,
    )

    class Server(uvicorn.Server):
        """Says where it listens."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            port = self.servers[0].sockets[0].getsockname()[1]
            print(json.dumps({"url": f"http://127.0.0.1:{port}/v1"}), flush=True)

    await Server(config).serve()


def main() -> None:
    """Read the options and serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds of a chat call")
    parser.add_argument("--embeddings", choices=("minilm", "hash"), default="minilm")
    parser.add_argument("--port", type=int, default=0, help="by default any that is free")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
