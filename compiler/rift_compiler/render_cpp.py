"""Pass: Tile IR to C++: one function a kernel, and one entry that runs them all."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rift_compiler.cost import cost
from rift_compiler.expr import IrError, Node, const
from rift_compiler.lanes import lane_of, reduced_once, varying_names
from rift_compiler.render import Dialect, Render, locals_of, prelude
from rift_compiler.render_lanes import LaneRender
from rift_compiler.tensor_ir import Buffer, Dim
from rift_compiler.tile_ir import For, Stmt, TileKernel
from rift_compiler.unroll import unroll

PARALLEL = 20_000  # operations of a kernel from which starting threads pays: about 10 us of work


def _loop(r: Render, s: For, pad: str) -> list[str]:
    if s.axis.bind == "thread":  # what is in it runs in lanes, see render_lanes
        return [f"{pad}{{", *r.block(s.body, pad + "  "), f"{pad}}}"]
    i, n = s.axis.name, r.index(s.axis.extent)
    return [
        f"{pad}for (int64_t {i} = 0; {i} < {n}; {i}++) {{",
        *r.block(s.body, pad + "  "),
        f"{pad}}}",
    ]


def _barrier(r: Render, s: Stmt, pad: str) -> list[str]:
    raise IrError(f"C++ has no {type(s).__name__}")


CPP = Dialect("C++", "int64_t", "INFINITY", "NAN", _loop, _barrier)


def render(k: TileKernel, dims: Sequence[Dim]) -> str:
    """One kernel as a C++ function of its buffers and the program's dims."""
    params = [f"const {b.dtype.cpp}* __restrict {b.name}" for b in k.reads]
    params += [f"{b.dtype.cpp}* __restrict {b.name}" for b in k.outs]
    params += [f"int64_t {d.name}" for d in dims]
    buffers, lane = {b.name: b for b in (*k.reads, *k.outs)}, lane_of(k)
    lines = _threads(k)
    r = Render(CPP, buffers, locals_of(k))
    if lane is not None:
        k = reduced_once(unroll(k))
        names, streams = varying_names(k, lane), frozenset(b.name for b in k.outs)
        r = LaneRender(CPP, buffers, locals_of(k), lane, names, streams)
        lines = [*(_stream(r, b) for b in k.outs), *lines]
    lines += r.block(k.body, "  ")
    return "\n".join([f"static void {k.name}({', '.join(params)}) {{", *lines, "}"])


def _stream(r: Render, b: Buffer) -> str:
    """Whether an output is written past the caches: it is large, and its rows are whole lines."""
    total, row = r.index(_product(b.shape)), r.index(b.shape[-1] if b.shape else const(1))
    size = b.dtype.bytes
    return (
        f"  const bool {b.name}_stream = rift_streams({b.name}, {total} * {size}, {row} * {size});"
    )


def _product(shape: Sequence[Node]) -> Node:
    total: Node = const(1)
    for s in shape:
        total = total * s
    return total


def _threads(k: TileKernel) -> list[str]:
    """The pragma by which threads share the outermost loops, if it pays."""
    depth, body = 0, k.body
    total: Node = const(1)
    while len(body) == 1 and isinstance(body[0], For) and body[0].axis.bind == "grid":
        depth, total, body = depth + 1, total * body[0].axis.extent, body[0].body
    if not depth or (total.op == "const" and total.value == 1):
        return []
    work = cost(k, {}).operations
    if work < PARALLEL:
        return []
    return [f"  #pragma omp parallel for collapse({depth}) schedule(static)"]


def program(
    kernels: Sequence[TileKernel],
    buffers: Sequence[Buffer],
    dims: Sequence[Dim],
    prepared: Collection[str] = (),
) -> str:
    """A whole file. rift_run(buffers in order, dims in order) returns rift_errors(); rift_prepare
    has run before, and makes the buffers named by prepared."""
    lanes = any(lane_of(k) is not None for k in kernels)
    lines = [prelude(n) for n in ("cpp.h", "scalar.h", *(("lanes.h",) if lanes else ()))]
    lines += [render(k, dims) + "\n" for k in kernels]
    first = [k for k in kernels if k.outs[0].name in prepared]
    lines += _entry("rift_prepare", first, buffers, len(dims))
    lines += _entry("rift_run", [k for k in kernels if k not in first], buffers, len(dims))
    return "\n".join(lines)


def _entry(
    name: str, kernels: Sequence[TileKernel], buffers: Sequence[Buffer], dims: int
) -> list[str]:
    place = {b.name: n for n, b in enumerate(buffers)}
    lines = [f'extern "C" int {name}(void** b, const int64_t* d) {{']
    for k in kernels:
        args = [f"(const {b.dtype.cpp}*)b[{place[b.name]}]" for b in k.reads]
        args += [f"({b.dtype.cpp}*)b[{place[b.name]}]" for b in k.outs]
        args += [f"d[{n}]" for n in range(dims)]
        lines.append(f"  {k.name}({', '.join(args)});")
    return [*lines, "  return rift_errors();", "}", ""]
