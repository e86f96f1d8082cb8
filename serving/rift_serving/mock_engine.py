"""`engine: mock`: an OpenAI-compatible test server whose tokens come at exactly known times.

Token chunk k of a request leaves at arrival + ttft + k * gap, on an absolute schedule; when it
really left is written to --truth, so that a client's figures can be checked against it. There is
no model: the text is the same word again and again.
"""

from __future__ import annotations

import argparse
import asyncio
import hmac
import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

WORD = " tok"
VERSION = "rift-mock"  # what /version says, so that a benchmark knows what it loads


@dataclass
class Server:
    """Settings and counters of one mock engine. Times in seconds, stamps of time.monotonic()."""

    name: str
    context: int
    ttft_s: float
    gap_s: float
    tokens_per_chunk: int
    fail_every: int
    key: str | None
    truth: TextIO | None
    received: int = 0
    tokens: dict[str, int] = field(default_factory=lambda: {"prompt": 0, "generation": 0})

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection, one after the other."""
        try:
            while head := await _read_head(reader):
                method, path, headers = head
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                await self._answer(method, path, headers, body, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client went away
        finally:
            writer.close()

    async def _answer(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes,
        writer: asyncio.StreamWriter,
    ) -> None:
        arrived = time.monotonic()
        sent = headers.get("authorization", "").encode()
        locked = self.key is not None and path.startswith("/v1/")
        if locked and not hmac.compare_digest(sent, f"Bearer {self.key}".encode()):
            return await _reply(writer, 401, {"error": {"message": "wrong or missing API key"}})
        if method == "GET" and path in ("/health", "/v1/models", "/version", "/metrics"):
            return await _reply(writer, 200, self._get(path))
        if method == "POST" and path in ("/tokenize", "/v1/completions"):
            try:
                request = json.loads(body)
            except ValueError as error:
                return await _reply(writer, 400, {"error": {"message": f"not JSON: {error}"}})
            if path == "/tokenize":
                return await _reply(writer, 200, self._tokenize(request))
            return await self._complete(request, headers, arrived, writer)
        return await _reply(writer, 404, {"error": {"message": f"no {method} {path} here"}})

    def _get(self, path: str) -> Any:
        if path == "/v1/models":
            return {"data": [{"id": self.name, "object": "model", "max_model_len": self.context}]}
        if path == "/metrics":
            lines = [f"vllm:{kind}_tokens_total {n}" for kind, n in self.tokens.items()]
            return "\n".join([*lines, "vllm:prefix_cache_hits_total 0", ""])
        return {"version": VERSION}

    def _tokenize(self, request: dict[str, Any]) -> dict[str, Any]:
        ids = list(str(request.get("prompt", "")).encode())
        return {"count": len(ids), "max_model_len": self.context, "tokens": ids}

    async def _complete(
        self,
        request: dict[str, Any],
        headers: dict[str, str],
        arrived: float,
        writer: asyncio.StreamWriter,
    ) -> None:
        prompt = request.get("prompt", "")
        n_in = len(prompt) if isinstance(prompt, list) else len(str(prompt).encode())
        n_out = int(request.get("max_tokens", 16))
        if n_in + n_out > self.context:
            text = f"maximum context length is {self.context}, got {n_in} + {n_out} tokens"
            return await _reply(writer, 400, {"error": {"message": text}})
        if not request.get("stream"):
            return await _reply(writer, 400, {"error": {"message": "this mock only streams"}})
        self.received += 1
        fail = self.fail_every and self.received % self.fail_every == 0
        stamps = await self._stream(n_in, n_out, bool(fail), arrived, writer)
        self.tokens["prompt"] += n_in
        self.tokens["generation"] += n_out
        if self.truth is not None:
            record = {"id": headers.get("x-request-id"), "arrived": arrived, "stamps": stamps}
            print(json.dumps(record), file=self.truth, flush=True)

    async def _stream(
        self, n_in: int, n_out: int, fail: bool, arrived: float, writer: asyncio.StreamWriter
    ) -> list[float]:
        """Send the answer on schedule; returns when each chunk left."""
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        stamps, left, k = [], n_out, 0
        while left > 0:
            size = min(self.tokens_per_chunk, left)
            left -= size
            await asyncio.sleep(arrived + self.ttft_s + k * self.gap_s - time.monotonic())
            if writer.is_closing():
                break  # the client went away
            if fail and n_out - left > n_out // 2:
                _event(writer, {"error": {"message": "mock failure", "code": 500}})
                break
            reason = None if left else "length"
            _event(
                writer, {"choices": [{"index": 0, "text": WORD * size, "finish_reason": reason}]}
            )
            stamps.append(time.monotonic())
            k += 1
        else:
            usage = {"prompt_tokens": n_in, "completion_tokens": n_out}
            _event(writer, {"choices": [], "usage": usage | {"total_tokens": n_in + n_out}})
        _chunk(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return stamps


async def _read_head(reader: asyncio.StreamReader) -> tuple[str, str, dict[str, str]] | None:
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = raw.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    pairs = (line.partition(":") for line in lines if line)
    return method, path.partition("?")[0], {k.lower(): v.strip() for k, _, v in pairs}


async def _reply(writer: asyncio.StreamWriter, status: int, body: Any) -> None:
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status} Mock\r\nContent-Length: {len(data)}\r\n"
    writer.write(head.encode() + b"Content-Type: application/json\r\n\r\n" + data)
    await writer.drain()


def _event(writer: asyncio.StreamWriter, data: dict[str, Any]) -> None:
    _chunk(writer, b"data: " + json.dumps({"id": "cmpl-mock", **data}).encode() + b"\n\n")


def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%s\r\n" % (len(data), data))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--name", default="mock")
    parser.add_argument("--bind", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--context", type=int, default=32768)
    parser.add_argument("--ttft-ms", type=float, default=50.0)
    parser.add_argument("--gap-ms", type=float, default=10.0)
    parser.add_argument("--tokens-per-chunk", type=int, default=1)
    parser.add_argument("--fail-every", type=int, default=0)
    parser.add_argument("--truth", type=Path)
    return parser.parse_args()


async def _main(options: argparse.Namespace) -> None:
    server = Server(
        name=options.name,
        context=options.context,
        ttft_s=options.ttft_ms / 1e3,
        gap_s=options.gap_ms / 1e3,
        tokens_per_chunk=options.tokens_per_chunk,
        fail_every=options.fail_every,
        key=os.environ.get("RIFT_MOCK_API_KEY"),
        truth=options.truth.open("a", encoding="utf-8") if options.truth else None,
    )
    listener = await asyncio.start_server(server.serve, options.bind, options.port)
    print(f"mock engine on {options.bind}:{options.port}", flush=True)
    async with listener:
        await listener.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(_arguments()))
