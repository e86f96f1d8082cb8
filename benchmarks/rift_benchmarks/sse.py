"""Server-sent events out of bytes that came in any pieces, each with the time it was complete.

Follows the WHATWG HTML standard, section 9.2.6 "Interpreting an event stream": lines end with CR,
LF or CRLF, comments start with a colon, one space after the colon of a field is dropped, an event
ends at a blank line, and what stands after the last blank line is no event.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate

LINE = re.compile(rb"([^\r\n]*)(\r\n|\r|\n)")
BOM = b"\xef\xbb\xbf"


def events(parts: Sequence[tuple[float, bytes]]) -> Iterator[tuple[float, bytes]]:
    """Yield (time, data) of each event that has data.

    parts: (time of arrival, bytes) in order. An event's time is that of the part which brought
    the first byte of the line end that completes it.
    """
    body = b"".join(data for _, data in parts)
    ends = list(accumulate(len(data) for _, data in parts))
    start = len(BOM) if body.startswith(BOM) else 0
    lines: list[bytes] = []
    for match in LINE.finditer(body, start):
        line = match[1]
        if line:
            field, _, value = line.partition(b":")
            if field == b"data":
                lines.append(value.removeprefix(b" "))
        elif lines:
            complete = match.start(2) + 1
            yield parts[bisect_left(ends, complete)][0], b"\n".join(lines)
            lines = []
