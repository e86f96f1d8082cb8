"""The event reader against the standard's own examples and httpx2's decoder."""

from __future__ import annotations

from itertools import pairwise

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rift_benchmarks import sse

STEADY = settings(deadline=None, derandomize=True)
VALUE = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=12)
LINE = st.one_of(
    st.builds("data:{}{}".format, st.sampled_from(["", " "]), VALUE),
    st.builds(":{}".format, VALUE),
    st.just("data"),
    st.just("unknown: field"),
    st.just(""),
)
BODY = st.lists(
    st.builds("{}{}".format, LINE, st.sampled_from(["\n", "\r", "\r\n"])), max_size=20
).map(lambda lines: "".join([*lines, "\n\n"]).encode())


def data_of(body: bytes) -> list[bytes]:
    return [data for _, data in sse.events([(0.0, body)])]


def cut(body: bytes, places: list[int]) -> list[tuple[float, bytes]]:
    """The body in parts that begin at these places; part i arrives at time i."""
    edges = [0, *sorted(place % (len(body) + 1) for place in places), len(body)]
    return [(float(i), body[a:b]) for i, (a, b) in enumerate(pairwise(edges))]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "data: This is the first message.\n\n"
            "data: This is the second message, it\ndata: has two lines.\n\n"
            "data: This is the third message.\n\n",
            [
                "This is the first message.",
                "This is the second message, it\nhas two lines.",
                "This is the third message.",
            ],
        ),
        ("data: YHOO\ndata: +2\ndata: 10\n\n", ["YHOO\n+2\n10"]),
        (
            ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\n"
            "data:  third event\n\n",
            ["first event", "second event", " third event"],
        ),
        ("data\n\ndata\ndata\n\ndata:", ["", "\n"]),
        ("data:test\n\ndata: test\n\n", ["test", "test"]),
    ],
    ids=["messages", "stock", "comment", "empty", "space"],
)
def test_examples_of_the_html_standard(body: str, expected: list[str]) -> None:
    assert [data.decode() for data in data_of(body.encode())] == expected


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_every_line_end_of_the_standard(end: str) -> None:
    body = f"data: a{end}{end}: ping{end}{end}data:b{end}data: c{end}{end}"

    assert data_of(body.encode()) == [b"a", b"b\nc"]


def test_a_byte_order_mark_is_dropped_at_the_start_only() -> None:
    mark = "\N{ZERO WIDTH NO-BREAK SPACE}"

    assert data_of(f"{mark}data: a\n\n{mark}data: b\n\n".encode()) == [b"a"]


@pytest.mark.parametrize("char", ["\u2028", "\u2029", "\x85", "\v", "\f"])
def test_only_the_line_ends_of_the_standard_end_a_line(char: str) -> None:
    text = f'{{"text":"a{char}b"}}'

    assert data_of(f"data: {text}\n\n".encode()) == [text.encode()]


@pytest.mark.parametrize("size", [1, 7, 65_536])
def test_a_200_kb_line_in_segments(size: int) -> None:
    text = b"x" * 200_000
    body = b"data: " + text + b"\n\n"
    parts = [(float(i), body[i : i + size]) for i in range(0, len(body), size)]

    assert list(sse.events(parts)) == [(parts[-1][0], text)]


@pytest.mark.parametrize("rest", ["data: b", "data: b\n", "data: b\r\n", "da"])
def test_an_unfinished_last_event_is_dropped(rest: str) -> None:
    assert data_of(f"data: a\n\n{rest}".encode()) == [b"a"]


def test_no_bytes_are_no_events() -> None:
    assert list(sse.events([])) == []


def test_a_line_end_is_there_with_its_first_byte() -> None:
    parts = [(0.0, b"data: a\r\n\r"), (1.0, b"\ndata: b\n"), (2.0, b"\n")]

    assert list(sse.events(parts)) == [(0.0, b"a"), (2.0, b"b")]


@STEADY
@given(body=BODY, places=st.lists(st.integers(0, 400), max_size=30))
def test_any_split_gives_the_same_events_at_the_part_that_completes_each(
    body: bytes, places: list[int]
) -> None:
    parts = cut(body, places)
    had = [len(data_of(b"".join(data for _, data in parts[: i + 1]))) for i in range(len(parts))]

    events = list(sse.events(parts))

    assert [data for _, data in events] == data_of(body)
    assert [at for at, _ in events] == [
        next(float(i) for i, number in enumerate(had) if number > k) for k in range(len(events))
    ]


@STEADY
@given(body=BODY.filter(lambda body: not body.startswith(b"\xef\xbb\xbf")))
def test_agrees_with_httpx2(body: bytes) -> None:
    response = httpx2.Response(
        200,
        headers={"content-type": "text/event-stream"},
        content=body,
        request=httpx2.Request("GET", "http://test"),
    )

    assert [data.decode() for data in data_of(body)] == [
        event.data for event in httpx2.EventSource(response)
    ]
