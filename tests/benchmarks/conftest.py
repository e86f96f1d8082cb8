"""A mock engine as a process of its own, and an address where nobody listens."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

MOCK = "rift_serving.mock_engine"


@pytest.fixture(scope="module")
def mock_engine() -> Iterator[Callable[..., str]]:
    """start(*options, key=None) -> URL of a new mock engine; all of them end with the module."""
    with ExitStack() as running:

        def start(*options: str, key: str | None = None) -> str:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            outside = {k: v for k, v in os.environ.items() if not k.startswith("RIFT_")}
            process = running.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", MOCK, "--port", str(port), *options],
                    env=outside | ({"RIFT_MOCK_API_KEY": key} if key else {}),
                    stdout=subprocess.PIPE,
                )
            )
            running.callback(process.terminate)
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"mock engine on"), "it did not start"
            return f"http://127.0.0.1:{port}"

        yield start


@pytest.fixture
def dead_url() -> Iterator[str]:
    """The URL of a port that is taken but where nobody listens: connecting is refused."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"
