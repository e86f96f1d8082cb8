"""What the emulator's tests share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rift_compiler.build_cuda import compile_cuda
from rift_compiler.emulator import Result, launch

Run = Callable[..., Result]


@pytest.fixture
def run_cuda() -> Run:
    """run_cuda(source, grid, block, args, target="sm_80", **launch options): its Result."""

    def run(source: str, grid: Any, block: Any, args: Any, target: str = "sm_80",
            entry: str | None = None, **options: Any) -> Result:  # fmt: skip
        ptx = compile_cuda('extern "C" {\n' + source + "\n}", target).ptx
        return launch(ptx, entry, grid, block, args, **options)

    return run


@pytest.fixture
def run_ptx() -> Run:
    """run_ptx(body, args, params=(".u64 a", ..), grid=1, block=1, ...): a kernel of this body."""

    def run(body: str, args: Any, params: Any, grid: Any = 1, block: Any = 1,
            target: str = "sm_90a", outside: str = "", **options: Any) -> Result:  # fmt: skip
        listed = ",\n".join(f".param {p}" for p in params)
        text = (
            f".version 8.7\n.target {target}\n.address_size 64\n{outside}\n"
            f".visible .entry k({listed})\n{{\n{body}\nret;\n}}\n"
        )
        return launch(text, "k", grid, block, args, **options)

    return run
