"""What counts as a good request: the stream shapes that public clients got wrong.

The shapes and what each client made of them: research of 2026-11 over vllm bench, guidellm, aiperf
and inference-perf; the comments name the public reports.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from rift_benchmarks.client import Reply
from rift_benchmarks.requests_log import judge, read_stream, record

N_IN, N_OUT = 8, 20
USAGE = {"prompt_tokens": N_IN, "completion_tokens": N_OUT, "total_tokens": N_IN + N_OUT}
DONE = b"data: [DONE]\n\n"
Parts = list[tuple[float, bytes]]


def event(**fields: Any) -> bytes:
    return b"data: " + json.dumps({"id": "cmpl-1", "object": "text_completion", **fields}).encode()


def chunk(text: str | None = " tok", finish: str | None = None, **more: Any) -> bytes:
    return event(choices=[{"index": 0, "text": text, "finish_reason": finish}], **more)


def usage(**change: Any) -> bytes:
    return event(choices=[], usage={**USAGE, **change})


def stream(*events: bytes, end: bytes = DONE) -> Parts:
    """Each event in a part of its own, 10 ms apart."""
    pieces = [one + b"\n\n" for one in events] + [end]
    return [(round(0.01 * i, 6), piece) for i, piece in enumerate(pieces)]


CHUNKS = [chunk() for _ in range(N_OUT - 1)] + [chunk(finish="length")]
FIRST = CHUNKS[:-1]
GOOD = {
    "plain": stream(*CHUNKS, usage()),
    "no [DONE]": stream(*CHUNKS, usage(), end=b""),
    # vllm bench looks for usage only in a chunk without choices
    "usage in the last content chunk": stream(*FIRST, chunk(finish="length", usage=USAGE)),
    "usage in every chunk": stream(
        *(chunk(usage={**USAGE, "completion_tokens": i + 1}) for i in range(N_OUT - 1)),
        chunk(finish="length", usage=USAGE),
    ),
    "usage null until the end": stream(
        *(chunk(usage=None) for _ in FIRST), chunk(finish="length", usage=None), usage()
    ),
    # inference-perf counts 60 of 120 tokens here
    "empty-string tokens": stream(
        *(chunk("" if i % 2 else " tok") for i in range(N_OUT - 1)), chunk(finish="length"), usage()
    ),
    # inference-perf#452
    "heartbeats without choices": stream(*(e for c in CHUNKS for e in (event(), c)), usage()),
    "null text is no chunk": stream(chunk(None), *CHUNKS, usage()),
    # vllm-rs loses the rest of the stream
    "comments between": stream(*(e for c in CHUNKS for e in (b": ping", c)), usage()),
    "finish reason after the text": stream(*FIRST, chunk(), chunk(None, "stop"), usage()),
    # guidellm fails all of these
    "U+2028 in the text": stream(*(chunk("a\u2028b") for _ in FIRST), CHUNKS[-1], usage()),
}
BAD = {
    # vllm#57519, guidellm#743: partial tokens counted as a success
    "error in the stream": (
        stream(*FIRST[:10], event(error={"message": "out of memory", "code": 500})),
        "in-band error",
        "error in the stream: out of memory",
    ),
    "error as text": (
        stream(*FIRST[:10], event(error="worker died")),
        "in-band error",
        "error in the stream: worker died",
    ),
    "the first of two errors, then a good end": (
        stream(event(error={"message": "hiccup"}), event(error="gone"), *CHUNKS, usage()),
        "in-band error",
        "error in the stream: hiccup",
    ),
    "event that is no object": (
        stream(FIRST[0], b'data: "busy"'),
        "in-band error",
        "error in the stream: busy",
    ),
    "not JSON": (
        stream(FIRST[0], b"data: <html>oops"),
        "in-band error",
        "an event is not JSON: b'<html>oops'",
    ),
    "not UTF-8": (
        stream(FIRST[0], b'data: {"text": "\xff\xfe"}'),
        "in-band error",
        'an event is not JSON: b\'{"text": "\\xff\\xfe"}\'',
    ),
    "choices of another shape": (
        stream(FIRST[0], b'data: {"choices":["tok"]}'),
        "in-band error",
        'an event is no completion: b\'{"choices":["tok"]}\'',
    ),
    "usage of another shape": (
        stream(FIRST[0], b'data: {"usage":28}'),
        "in-band error",
        "an event is no completion: b'{\"usage\":28}'",
    ),
    # guidellm assumes the requested length, the others count a success
    "clean end after 10 tokens": (
        stream(*FIRST[:10]),
        "cut short",
        "no finish_reason after 10 chunks",
    ),
    "an empty answer": (stream(end=b""), "cut short", "no finish_reason after 0 chunks"),
    "no usage": (
        stream(*CHUNKS),
        "no usage",
        "the server sent no usage, so its token counts are unknown",
    ),
    # vllm#42532: 1,000 ids became 5,128 tokens
    "wrong input": (
        stream(*CHUNKS, usage(prompt_tokens=41)),
        "input tokens",
        "sent 8 tokens, the server counted 41",
    ),
    # dynamo#723: min_tokens not honoured
    "5 tokens for 20": (
        stream(*FIRST[:4], chunk(finish="stop"), usage(completion_tokens=5)),
        "output tokens",
        "asked for 20 tokens, the server sent 5",
    ),
    "counts missing": (
        stream(*CHUNKS, event(choices=[], usage={"total_tokens": 28})),
        "input tokens",
        "sent 8 tokens, the server counted None",
    ),
    "all at once": (
        stream(chunk(" tok" * N_OUT, "length"), usage()),
        "not streamed",
        "20 tokens came in 1 chunk(s)",
    ),
}


def judged(reply: Reply) -> tuple[str, str] | None:
    return judge(read_stream(reply.parts), reply, N_IN, N_OUT)


@pytest.mark.parametrize("parts", GOOD.values(), ids=list(GOOD))
def test_good_shapes_count_with_every_chunk(parts: Parts) -> None:
    read = read_stream(parts)

    assert judged(Reply(status=200, parts=parts)) is None
    assert len(read.chunk_times) == N_OUT
    assert read.usage == USAGE


@pytest.mark.parametrize(("parts", "kind", "message"), BAD.values(), ids=list(BAD))
def test_bad_shapes_fail_with_kind_and_message(parts: Parts, kind: str, message: str) -> None:
    assert judged(Reply(status=200, parts=parts)) == (kind, message)


def test_four_tokens_per_chunk_are_five_chunks_at_their_times() -> None:
    texts = [chunk(" tok" * 4) for _ in range(4)] + [chunk(" tok" * 4, "length")]
    parts = stream(*texts, usage())

    read = read_stream(parts)

    assert judged(Reply(status=200, parts=parts)) is None
    assert read.chunk_times == (0.0, 0.01, 0.02, 0.03, 0.04)


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (429, b'{"error":{"message":"slow down"}}', "http 429", "HTTP 429: slow down"),
        (500, b"Internal Server Error", "http 500", "HTTP 500: Internal Server Error"),
        (500, b"", "http 500", "HTTP 500: "),
        (503, b"\xff busy", "http 503", "HTTP 503: \ufffd busy"),
        (400, b'{"error":"no model"}', "http 400", "HTTP 400: no model"),
        (502, b"<html>" + b"x" * 1000, "http 502", "HTTP 502: <html>" + "x" * 294),
    ],
)
def test_http_errors_carry_the_servers_words(
    status: int, body: bytes, kind: str, message: str
) -> None:
    assert judged(Reply(status=status, parts=[(0.0, body)])) == (kind, message)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("cannot connect: refused", "connect"),
        ("connection lost: closed by the server before the end", "broken"),
        ("no end after 5 s", "broken"),
    ],
)
def test_a_broken_connection_fails_even_a_stream_that_reads_well(error: str, kind: str) -> None:
    reply = Reply(status=200, parts=GOOD["plain"], error=error)

    assert judged(reply) == (kind, error)


def test_a_record_counts_from_the_levels_start() -> None:
    reply = Reply(sent=100.25, done=101.0, status=200, parts=GOOD["plain"])
    reply.parts = [(100.5 + at, data) for at, data in reply.parts]

    one = record("r1", "measure", 2, 100.125, reply, 100.0, N_IN, N_OUT)

    assert (one.id, one.phase, one.concurrency) == ("r1", "measure", 2)
    assert (one.scheduled_s, one.sent_s, one.done_s) == (0.125, 0.25, 1.0)
    assert (one.input_tokens, one.output_tokens) == (N_IN, N_OUT)
    assert one.chunks_s == tuple(round(0.5 + 0.01 * i, 6) for i in range(N_OUT))
    assert (one.error_kind, one.error) == (None, None)


def test_a_failed_record_keeps_what_was_seen() -> None:
    parts = BAD["error in the stream"][0]

    one = record(
        "r1", "measure", 1, 0.0, Reply(status=200, parts=parts, done=1.0), 0.0, N_IN, N_OUT
    )

    assert one.error_kind == "in-band error"
    assert len(one.chunks_s) == 10
    assert one.output_tokens is None


def test_the_body_of_an_http_error_is_no_stream() -> None:
    one = record("r1", "measure", 1, 0.0, Reply(status=500, parts=GOOD["plain"]), 0.0, N_IN, N_OUT)

    assert one.error_kind == "http 500"
    assert one.chunks_s == ()
