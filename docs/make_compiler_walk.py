"""Writes docs/compiler-walk.md: three programs through every IR, in the compiler's own words.

Run: .venv/bin/python docs/make_compiler_walk.py   (a test holds that the page is up to date)
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

import rift_compiler
from rift_compiler import render_cpp, render_cuda

PAGE = Path(__file__).with_name("compiler-walk.md")


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax(q @ k.mT * 0.125, -1) @ v


PROGRAMS: tuple[tuple[str, str, Callable[..., Any], tuple[torch.Tensor, ...], str], ...] = (
    (
        "RMSNorm",
        "One fold a row, and what follows from it. `v1` varies with the row alone, so Tile IR "
        "computes it once a row; on a GPU a block has a row and its lanes share the fold.",
        nn.RMSNorm(1024),
        (torch.zeros(8, 1024),),
        "nn.RMSNorm(1024)(torch.randn(8, 1024))",
    ),
    (
        "Matrix product",
        "Multiply, then sum: Tensor IR knows no matmul. The product of every pair is a tensor of "
        "three dimensions until fusion reads it where it is summed. On a GPU both operands are "
        "staged in shared memory, and each lane keeps 4 x 4 results in registers.",
        torch.matmul,
        (torch.zeros(128, 96), torch.zeros(96, 64)),
        "torch.matmul(torch.randn(128, 96), torch.randn(96, 64))",
    ),
    (
        "Attention",
        "Two products and a softmax become one kernel. No rule knows attention: `factor-out` takes "
        "the division out of the last sum, and `twist` lets both sums follow the running maximum "
        "(`act=` is how), so that all three folds run in one loop and each score is computed once.",
        attention,
        (torch.zeros(2, 128, 64), torch.zeros(2, 128, 64), torch.zeros(2, 128, 64)),
        "torch.softmax(torch.randn(2, 128, 64) @ torch.randn(2, 64, 128), -1) "
        "@ torch.randn(2, 128, 64)",
    ),
)  # fmt: skip


def page() -> str:
    """The page's text."""
    parts = [
        "# Three programs through every IR\n",
        f"Made by `docs/make_compiler_walk.py` with torch {version()}: every text below is what "
        "the compiler printed. To see a stage of your own program: "
        "`rift compile -c EXPRESSION --ir STAGE`.\n",
    ]
    for title, text, function, inputs, expression in PROGRAMS:
        with torch.no_grad():
            cpu = rift_compiler.compile(function, inputs, target="x86-64-v3")
            gpu = rift_compiler.compile(function, inputs, target="sm_90a")
        taken = [f"`{s.rule}`" for s in cpu.stages.steps if s.taken and s.rule != "inline"]
        dims = cpu.stages.tensor.dims
        parts += [
            f"\n## {title}\n\n{text}\n\n`rift compile -c '{expression}' --explain` says what "
            f"each rule did. Rules that were taken, inlining aside: "
            f"{', '.join(dict.fromkeys(taken)) or 'none'}.\n",
            _block("Torch IR", cpu.traced),
            _block("Tensor IR", cpu.stages.tensor),
            _block("Loop IR", cpu.stages.loop),
            _block("Tile IR for a CPU with AVX2", *cpu.stages.tiles),
            _block("C++", *(render_cpp.render(k, dims) for k in cpu.stages.tiles), kind="cpp"),
            _block(
                "Tile IR for a GPU",
                *(
                    f"# {s}\n{k}"
                    for s, k in zip(gpu.stages.schedules, gpu.stages.tiles, strict=True)
                ),
            ),
            _block(
                "CUDA", *(render_cuda.render(k, dims).text for k in gpu.stages.tiles), kind="cuda"
            ),
        ]
    return "".join(parts)


def version() -> str:
    """torch's version, without what it was built for."""
    return torch.__version__.partition("+")[0]


def _block(title: str, *texts: object, kind: str = "python") -> str:
    body = "\n\n".join(str(t).strip() for t in texts)
    return f"\n### {title}\n\n```{kind}\n{body}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
