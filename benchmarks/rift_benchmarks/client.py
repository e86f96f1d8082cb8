"""The load client: streams completions over HTTP/1.1 and stamps every piece as it arrives.

While load runs it only reads the clock and keeps bytes; they are parsed when the request is over.
That keeps the time between a token's arrival and its stamp short, however many streams there are.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httptools

Clock = Callable[[], float]
now: Clock = time.perf_counter


@dataclass(frozen=True)
class Target:
    """Where requests go. `path` is that of the completions endpoint."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    path: str
    headers: dict[str, str]

    @staticmethod
    def of(url: str, key: str | None) -> Target:
        """The completions endpoint under a base URL such as http://host:8000."""
        parts = urlsplit(url)
        secure = parts.scheme == "https"
        headers = {"Host": parts.netloc, "Content-Type": "application/json"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        return Target(
            host=parts.hostname or "",
            port=parts.port or (443 if secure else 80),
            tls=ssl.create_default_context() if secure else None,
            path=parts.path.rstrip("/") + "/v1/completions",
            headers=headers,
        )

    def request(self, request_id: str, body: bytes) -> bytes:
        """The bytes of one POST on a connection of its own."""
        headers = {
            **self.headers,
            "X-Request-Id": request_id,
            "Content-Length": str(len(body)),
            "Connection": "close",
        }
        lines = "".join(f"{key}: {value}\r\n" for key, value in headers.items())
        return f"POST {self.path} HTTP/1.1\r\n{lines}\r\n".encode("ascii") + body


@dataclass
class Reply:
    """What came back: status, body pieces with their times, and why it ended if not well."""

    sent: float = 0.0
    done: float = 0.0
    status: int = 0
    parts: list[tuple[float, bytes]] = field(default_factory=list)
    error: str | None = None


class _Exchange(asyncio.Protocol):
    """One request and its response on one connection."""

    def __init__(self, over: asyncio.Future[None], on_piece: Callable[[bytes], None]) -> None:
        self.reply = Reply()
        self.over = over
        self._on_piece = on_piece
        self._parser = httptools.HttpResponseParser(self)
        self._now = 0.0
        self._framed = False

    def data_received(self, data: bytes) -> None:
        self._now = now()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._end(f"not HTTP: {error}")

    def on_header(self, name: bytes, _: bytes) -> None:
        self._framed |= name.lower() in (b"content-length", b"transfer-encoding")

    def on_headers_complete(self) -> None:
        self.reply.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self.reply.parts.append((self._now, body))
        self._on_piece(body)

    def on_message_complete(self) -> None:
        self._end(None)

    def connection_lost(self, error: Exception | None) -> None:
        if error is None and self.reply.status and not self._framed:
            self._end(None)  # a body of no stated length ends with its connection: RFC 9112, 6.3
        self._end(f"connection lost: {error or 'closed by the server before the end'}")

    def _end(self, error: str | None) -> None:
        if not self.over.done():
            self.reply.done, self.reply.error = now(), error
            self.over.set_result(None)


async def post(
    target: Target, request: bytes, timeout_s: float, on_piece: Callable[[bytes], None]
) -> Reply:
    """Send one request and return the reply; every failure is a reply with its error.

    on_piece sees each piece of the body as it comes, for progress only.
    """
    loop = asyncio.get_running_loop()
    started = now()
    try:
        async with asyncio.timeout(timeout_s):
            transport, exchange = await loop.create_connection(
                lambda: _Exchange(loop.create_future(), on_piece),
                target.host,
                target.port,
                ssl=target.tls,
            )
    except (OSError, TimeoutError) as error:
        return Reply(sent=started, done=now(), error=f"cannot connect: {error or 'timed out'}")
    reply = exchange.reply
    try:
        reply.sent = now()
        transport.write(request)
        async with asyncio.timeout(timeout_s):
            await exchange.over
    except TimeoutError:
        reply.done, reply.error = now(), f"no end after {timeout_s:g} s"
    finally:
        transport.abort()
    return reply
