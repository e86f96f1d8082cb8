"""Pass: Tile IR to CUDA C++: one __global__ function a kernel, and how to launch it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rift_compiler.expr import Node, const
from rift_compiler.render import Dialect, Render, locals_of, prelude
from rift_compiler.tensor_ir import Buffer, Dim
from rift_compiler.tile_ir import (
    AllReduce,
    For,
    Local,
    Stmt,
    Sync,
    TileKernel,
    Vector,
    statements,
)

FUNCTORS = {
    "sum": "rift_sum", "prod": "rift_prod", "max": "rift_of_max", "min": "rift_of_min",
    "any": "rift_any", "all": "rift_all",
}  # fmt: skip


@dataclass(frozen=True)
class CudaKernel:
    """A kernel's text and launch: the grid as an expression of the program's dims."""

    name: str
    text: str
    blocks: Node
    lanes: int
    params: tuple[str, ...]  # buffers in order; the program's dims follow


def _loop(r: Render, s: For, pad: str) -> list[str]:
    a = s.axis
    if a.bind in ("grid", "thread"):
        return [f"{pad}// {a.bind} loop {a.name} < {r.index(a.extent)}", *r.block(s.body, pad)]
    unroll = [f"{pad}#pragma unroll"] if a.bind == "array" else []
    kind, n = r.dialect.index_type, r.index(a.extent)
    head = f"{pad}for ({kind} {a.name} = 0; {a.name} < {n}; {a.name}++) {{"
    return [*unroll, head, *r.block(s.body, pad + "  "), f"{pad}}}"]


def _barrier(r: Render, s: Stmt, pad: str) -> list[str]:
    if isinstance(s, Sync):
        return [f"{pad}__syncthreads();"]
    if isinstance(s, Local):
        sizes = "".join(f"[{n}]" for n in s.sizes)
        return [f"{pad}__shared__ {s.dtype.cpp} {s.name}{sizes};"]
    if isinstance(s, AllReduce):
        place = s.name + "".join(f"[{r.index(i)}]" for i in s.index)
        lanes = s.axes[0].extent.value
        return [f"{pad}{place} = rift_allreduce<{lanes}>({place}, {FUNCTORS[s.monoid]}());"]
    assert isinstance(s, Vector)
    local = r.locals[s.name]
    run = f"rift_run<{local.dtype.cpp}, {local.sizes[-1]}>"
    place = f"{s.buffer}[{r.flat(s.buffer, s.index)}]"
    if s.store:
        return [f"{pad}*({run}*)&{place} = *(const {run}*)&{s.name};"]
    return [f"{pad}*({run}*)&{s.name} = *(const {run}*)&{place};"]


def _dialect(index_type: str) -> Dialect:
    return Dialect("CUDA", index_type, "RIFT_INF", "RIFT_NAN", _loop, _barrier)


def _index_type(buffers: Sequence[Buffer]) -> str:
    """int where no buffer has 2**31 elements; sizes known only at run time may be large."""
    for b in buffers:
        elements = 1
        for s in b.shape:
            elements *= s.value if s.op == "const" else 2**31
        if elements >= 2**31:
            return "int64_t"
    return "int"


def _ids(loops: list[Node], source: str, r: Render) -> list[str]:
    """The indices of grid or thread loops, from one linear id; the last varies fastest."""
    lines = []
    inner: Node = const(1)
    for a in reversed(loops):
        text = (
            source if inner.op == "const" and inner.value == 1 else f"{source} / {r.index(inner)}"
        )
        if a is not loops[0]:
            text = f"({text}) % {r.index(a.extent)}"
        lines.append(f"  const {r.dialect.index_type} {a.name} = {text};")
        inner = inner * a.extent
    return lines[::-1]


def render(k: TileKernel, dims: Sequence[Dim]) -> CudaKernel:
    """One kernel."""
    buffers = (*k.reads, *k.outs)
    r = Render(_dialect(_index_type(buffers)), {b.name: b for b in buffers}, locals_of(k))
    loops = [s.axis for s in statements(k.body) if isinstance(s, For)]
    grid = list(dict.fromkeys(a for a in loops if a.bind == "grid"))
    lanes = list(dict.fromkeys(a for a in loops if a.bind == "thread"))
    blocks: Node = const(1)
    for a in grid:
        blocks = blocks * a.extent
    count = 1
    for a in lanes:
        count *= a.extent.value
    params = [f"const {b.dtype.cpp}* __restrict__ {b.name}" for b in k.reads]
    params += [f"{b.dtype.cpp}* __restrict__ {b.name}" for b in k.outs]
    params += [f"int64_t {d.name}" for d in dims]
    lines = [
        f'extern "C" __global__ void __launch_bounds__({count}) {k.name}({", ".join(params)}) {{',
        *_ids(grid, "blockIdx.x", r),
        *_ids(lanes, "threadIdx.x", r),
        *r.block(k.body, "  "),
        "}",
    ]
    return CudaKernel(k.name, "\n".join(lines), blocks, count, tuple(b.name for b in buffers))


def program(kernels: Sequence[CudaKernel]) -> str:
    """A whole file, with as much of the prelude as it uses."""
    body = "\n\n".join(k.text for k in kernels)
    parts = [prelude("cuda.h"), prelude("scalar.h")]
    parts += [prelude("reduce.h")] if "rift_allreduce" in body else []
    return "\n".join([*parts, body, ""])
