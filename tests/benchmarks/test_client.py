"""The client against the mock engine's own clock, and against servers that misbehave."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import httptools
import pytest
import uvloop

from rift_benchmarks import client, endpoint, load, requests_log
from rift_benchmarks.client import Reply, Target
from rift_benchmarks.load import Phases, Progress
from rift_benchmarks.requests_log import Record

N_OUT = 20
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
EVENT = b'data: {"choices":[{"text":" tok"}]}\n\n'
CHUNK = b"%x\r\n%s\r\n" % (len(EVENT), EVENT)
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nServer: test\r\n\r\n"
T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def ask(*pieces: bytes, stalls: bool = False, timeout_s: float = 30.0) -> Reply:
    """The reply to one request from a server that sends these bytes and then closes or stalls."""

    async def exchange() -> Reply:
        served = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(ConnectionError):
                await reader.readuntil(b"\r\n\r\n")
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
                if stalls:
                    await reader.read()
            writer.close()
            served.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        target = Target.of(f"http://127.0.0.1:{port}", None)
        async with server:
            reply = await client.post(target, target.request("r1", b"{}"), timeout_s, ignore)
            await served.wait()
        return reply

    return run(exchange())


def ignore(_: object) -> None:
    pass


def body_of(reply: Reply) -> bytes:
    return b"".join(data for _, data in reply.parts)


def truths(file: Path, number: int) -> dict[str, dict[str, Any]]:
    """The mock's own records by request id, once it has written that many."""
    while len(lines := file.read_text(encoding="utf-8").splitlines()) < number:
        time.sleep(0.01)
    return {row["id"]: row for row in map(json.loads, lines)}


def completions(url: str, concurrency: int, number: int) -> dict[str, Reply]:
    """Replies to `number` requests by id, sent straight through client.post."""
    target = Target.of(url, None)
    body = {"prompt": [1] * 8, "max_tokens": N_OUT, "stream": True}
    free = asyncio.Semaphore(concurrency)

    async def one(name: str) -> Reply:
        async with free:
            request = target.request(name, json.dumps(body).encode())
            return await client.post(target, request, 30.0, ignore)

    async def all_of_them() -> dict[str, Reply]:
        names = [f"r{i}" for i in range(number)]
        return dict(zip(names, await asyncio.gather(*map(one, names)), strict=True))

    return run(all_of_them())


def closed_loop(url: str, work: Phases) -> list[Record]:
    seen: list[Record] = []

    done = load.run(endpoint.connect(url, None, None), work, 30.0, seen.append, ignore)

    assert seen == done.records
    return seen


def test_the_clients_clock_is_the_mocks() -> None:
    ours, theirs = (time.get_clock_info(name) for name in ("perf_counter", "monotonic"))

    assert client.now is time.perf_counter
    assert ours.implementation == theirs.implementation == "clock_gettime(CLOCK_MONOTONIC)"


@pytest.mark.parametrize("concurrency", [1, 8])
def test_stamps_are_those_of_the_server(
    concurrency: int, mock_engine: Callable[..., str], tmp_path: Path
) -> None:
    file = tmp_path / "truth.jsonl"
    url = mock_engine("--truth", str(file), "--ttft-ms", "60", "--gap-ms", "3")

    replies = completions(url, concurrency, number=8 + concurrency)

    truth = truths(file, len(replies))
    late: dict[int, list[float]] = {0: [], -1: []}
    for name, reply in replies.items():
        came, left = requests_log.read_stream(reply.parts).chunk_times, truth[name]["stamps"]
        assert len(came) == len(left) == N_OUT
        for place, lateness in late.items():
            lateness.append(abs(came[place] - left[place]))
    assert median(late[0]) < 0.015
    assert median(late[-1]) < 0.015


def test_chunks_of_four_tokens_are_counted_as_chunks(mock_engine: Callable[..., str]) -> None:
    url = mock_engine("--tokens-per-chunk", "4", "--ttft-ms", "5", "--gap-ms", "5")

    (reply,) = completions(url, 1, number=1).values()

    read = requests_log.read_stream(reply.parts)
    assert len(read.chunk_times) == 5
    assert requests_log.judge(read, reply, 8, N_OUT) is None


@pytest.mark.parametrize("concurrency", [1, 6])
def test_a_closed_loop_keeps_its_number_in_flight(
    concurrency: int, mock_engine: Callable[..., str], tmp_path: Path
) -> None:
    file = tmp_path / "truth.jsonl"
    url = mock_engine("--truth", str(file), "--ttft-ms", "60", "--gap-ms", "2")

    records = closed_loop(url, Phases("measure", concurrency, 12, 32, N_OUT, "n"))

    rows = truths(file, 12).values()
    changes = sorted([(r["arrived"], 1) for r in rows] + [(r["stamps"][-1], -1) for r in rows])
    levels = [sum(step for _, step in changes[: i + 1]) for i in range(len(changes))]
    assert max(levels) == concurrency
    assert {r.id for r in records} == {r["id"] for r in rows}
    assert [r.error for r in records] == [None] * 12
    assert {(r.input_tokens, r.output_tokens, len(r.chunks_s)) for r in records} == {(32, 20, 20)}


def test_a_slot_schedules_its_next_request_when_the_last_has_ended(
    mock_engine: Callable[..., str],
) -> None:
    url = mock_engine("--ttft-ms", "5", "--gap-ms", "1")

    records = closed_loop(url, Phases("measure", 1, 4, 8, 4, "n"))

    assert [r.scheduled_s for r in records] == [0.0, *(r.done_s for r in records[:-1])]
    assert all(r.scheduled_s <= r.sent_s < r.chunks_s[0] <= r.done_s for r in records)


@pytest.mark.parametrize("options", [[], ["--tokens-per-chunk", "4"]])
def test_errors_in_the_stream_become_failed_records(
    options: list[str], mock_engine: Callable[..., str]
) -> None:
    url = mock_engine("--fail-every", "3", "--ttft-ms", "5", "--gap-ms", "1", *options)
    shown: list[Progress] = []
    work = Phases("measure", 2, 9, 8, N_OUT, "n")

    done = load.run(endpoint.connect(url, None, None), work, 30.0, ignore, shown.append)

    failed = [r for r in done.records if r.error]
    assert {(r.error_kind, r.error) for r in failed} == {
        ("in-band error", "error in the stream: mock failure")
    }
    assert len(failed) == 3
    last = shown[-1]
    assert (last.done, last.failed, last.in_flight) == (9, 3, 0)


def test_a_refused_connection_is_a_reply(dead_url: str) -> None:
    target = Target.of(dead_url, None)

    reply = run(client.post(target, target.request("r1", b"{}"), 5.0, ignore))

    assert reply.error is not None
    assert reply.error.startswith("cannot connect: ")
    assert reply.done >= reply.sent > 0


@pytest.mark.parametrize("sent", [b"", CHUNKED + CHUNK])
def test_a_request_ends_at_its_deadline(sent: bytes) -> None:
    reply = ask(sent, stalls=True, timeout_s=0.3)

    assert reply.error == "no end after 0.3 s"
    assert reply.done - reply.sent > 0.2  # the loop counts in milliseconds
    assert body_of(reply) == (EVENT if sent else b"")


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        HEAD[:20],
        CHUNKED + CHUNK,
        CHUNKED + CHUNK + b"40\r\ndata",
        HEAD + b"Content-Length: 99\r\n\r\n",
    ],
    ids=["nothing", "half a head", "between chunks", "in a chunk", "short body"],
)
def test_a_server_that_closes_too_early(sent: bytes) -> None:
    reply = ask(sent)

    assert reply.error == "connection lost: closed by the server before the end"
    assert body_of(reply).startswith(EVENT) == (CHUNK in sent)


def test_what_is_not_http_is_said_so() -> None:
    reply = ask(b"SSH-2.0-OpenSSH_9.9\r\n")

    assert reply.error is not None
    assert reply.error.startswith("not HTTP: ")


@pytest.mark.parametrize(
    "pieces",
    [
        [CHUNKED + CHUNK + CHUNK + b"0\r\n\r\n"],
        [bytes([b]) for b in CHUNKED + CHUNK + CHUNK + b"0\r\n\r\n"],
        [HEAD + b"Content-Length: %d\r\n\r\n" % (2 * len(EVENT)), EVENT, EVENT],
        [HEAD + b"\r\n", EVENT, EVENT],
        [b"HTTP/1.0 200 OK\r\n\r\n" + EVENT + EVENT],
    ],
    ids=["chunked", "one byte at a time", "with a length", "until the close", "HTTP/1.0"],
)
def test_every_framing_of_http_gives_the_same_body(pieces: list[bytes]) -> None:
    reply = ask(*pieces)

    assert (reply.status, reply.error) == (200, None)
    assert body_of(reply) == EVENT * 2
    assert all(reply.sent <= at <= reply.done for at, _ in reply.parts)


def test_an_error_status_keeps_its_body() -> None:
    body = b'{"error":{"message":"slow down"}}'
    head = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: %d\r\n\r\n" % len(body)

    reply = ask(head + body)

    assert (reply.status, reply.error, body_of(reply)) == (429, None, body)


@pytest.mark.parametrize(
    ("url", "host", "port", "path"),
    [
        ("http://h:8000", "h", 8000, "/v1/completions"),
        ("https://h/proxy/", "h", 443, "/proxy/v1/completions"),
        ("http://[::1]:80", "::1", 80, "/v1/completions"),
    ],
)
def test_a_request_is_one_that_a_parser_of_http_reads(
    url: str, host: str, port: int, path: str
) -> None:
    target = Target.of(url, "k3y")
    headers: dict[bytes, bytes] = {}
    urls: list[bytes] = []
    bodies: list[bytes] = []

    class Seen:
        on_header = headers.__setitem__
        on_url = urls.append
        on_body = bodies.append

    parser = httptools.HttpRequestParser(Seen())
    parser.feed_data(target.request("r1", b'{"stream":true}'))

    assert (target.host, target.port, target.tls is not None) == (host, port, port == 443)
    assert (parser.get_method(), urls, bodies) == (b"POST", [path.encode()], [b'{"stream":true}'])
    assert headers[b"Authorization"] == b"Bearer k3y"
    assert headers[b"X-Request-Id"] == b"r1"
    assert headers[b"Host"] == url.split("/")[2].encode()
