"""One request's record: what was asked, what came, when. A line of requests.jsonl."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from rift_benchmarks import sse
from rift_benchmarks.client import Reply

Phase = Literal["warmup", "measure"]


@dataclass(frozen=True)
class Record:
    """Times in seconds since the level's start; `chunks_s` when each chunk with tokens came.

    A failed record keeps what was seen; its `error` says why it does not count.
    """

    id: str
    phase: Phase
    concurrency: int
    scheduled_s: float
    sent_s: float
    done_s: float
    input_tokens: int | None
    output_tokens: int | None
    chunks_s: tuple[float, ...]
    error_kind: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class Stream:
    """What a completions stream said. `usage` and finish reason from whichever event had them."""

    chunk_times: tuple[float, ...]
    usage: dict[str, Any] | None
    finish_reason: str | None
    error: str | None


def read_stream(parts: list[tuple[float, bytes]]) -> Stream:
    """Interpret the events of a streamed completion."""
    times: list[float] = []
    usage = finish = error = None
    for at, data in sse.events(parts):
        if data.strip() == b"[DONE]":
            continue
        try:
            event = json.loads(data)
        except ValueError:
            error = error or f"an event is not JSON: {data[:80]!r}"
            continue
        if not isinstance(event, dict) or event.get("error") or event.get("object") == "error":
            error = error or f"error in the stream: {_message(event)}"
            continue
        if not _well_formed(event):
            error = error or f"an event is no completion: {data[:80]!r}"
            continue
        usage = event.get("usage") or usage
        for choice in event.get("choices") or ():
            finish = choice.get("finish_reason") or finish
            if choice.get("text") is not None:
                times.append(at)
    return Stream(tuple(times), usage, finish, error)


def judge(stream: Stream, reply: Reply, n_in: int, n_out: int) -> tuple[str, str] | None:
    """(kind, message) of what is wrong with a request, or None: only exact ones count."""
    if reply.error is not None:
        kind = "connect" if reply.error.startswith("cannot connect") else "broken"
        return kind, reply.error
    if reply.status != 200:
        body = b"".join(data for _, data in reply.parts)
        return f"http {reply.status}", f"HTTP {reply.status}: {_body_message(body)}"
    if stream.error is not None:
        return "in-band error", stream.error
    if stream.finish_reason is None:
        return "cut short", f"no finish_reason after {len(stream.chunk_times)} chunks"
    if stream.usage is None:
        return "no usage", "the server sent no usage, so its token counts are unknown"
    got_in, got_out = stream.usage.get("prompt_tokens"), stream.usage.get("completion_tokens")
    if got_in != n_in:
        return "input tokens", f"sent {n_in} tokens, the server counted {got_in}"
    if got_out != n_out:
        return "output tokens", f"asked for {n_out} tokens, the server sent {got_out}"
    if len(stream.chunk_times) < 2:
        return "not streamed", f"{n_out} tokens came in {len(stream.chunk_times)} chunk(s)"
    return None


def record(
    request_id: str,
    phase: Phase,
    concurrency: int,
    scheduled: float,
    reply: Reply,
    start: float,
    n_in: int,
    n_out: int,
) -> Record:
    """The record of a reply; start is the level's beginning on the client's clock."""
    ok_body = reply.parts if reply.status == 200 else []
    stream = read_stream(ok_body)
    wrong = judge(stream, reply, n_in, n_out)
    usage = stream.usage or {}
    return Record(
        id=request_id,
        phase=phase,
        concurrency=concurrency,
        scheduled_s=round(scheduled - start, 6),
        sent_s=round(reply.sent - start, 6),
        done_s=round(reply.done - start, 6),
        input_tokens=usage.get("prompt_tokens"),
        output_tokens=usage.get("completion_tokens"),
        chunks_s=tuple(round(t - start, 6) for t in stream.chunk_times),
        error_kind=wrong[0] if wrong else None,
        error=wrong[1] if wrong else None,
    )


def _well_formed(event: dict[str, Any]) -> bool:
    choices = event.get("choices") or []
    return (
        isinstance(choices, list)
        and all(isinstance(choice, dict) for choice in choices)
        and isinstance(event.get("usage") or {}, dict)
    )


def _message(event: object) -> str:
    error = event.get("error") if isinstance(event, dict) else event
    return str(error.get("message", error) if isinstance(error, dict) else error)[:300]


def _body_message(body: bytes) -> str:
    try:
        return _message(json.loads(body))
    except ValueError:
        return body[:300].decode("utf-8", "replace")
