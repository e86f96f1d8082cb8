"""Pass: Tile IR to C++: one function a kernel, and one entry that runs them all."""

from __future__ import annotations

from collections.abc import Sequence

from rift_compiler.expr import IrError
from rift_compiler.render import Dialect, Render, locals_of, prelude
from rift_compiler.tensor_ir import Buffer, Dim
from rift_compiler.tile_ir import For, Stmt, TileKernel


def _loop(r: Render, s: For, pad: str) -> list[str]:
    if s.axis.bind == "thread":
        raise IrError(f"C++ has no lanes: {s.axis.name}")
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
    r = Render(CPP, {b.name: b for b in (*k.reads, *k.outs)}, locals_of(k))
    return "\n".join([f"static void {k.name}({', '.join(params)}) {{", *r.block(k.body, "  "), "}"])


def program(kernels: Sequence[TileKernel], buffers: Sequence[Buffer], dims: Sequence[Dim]) -> str:
    """A whole file. rift_run(buffers in order, dims in order) returns rift_error."""
    place = {b.name: n for n, b in enumerate(buffers)}
    lines = [prelude("cpp.h"), prelude("scalar.h")]
    lines += [render(k, dims) + "\n" for k in kernels]
    lines.append('extern "C" int rift_run(void** b, const int64_t* d) {\n  rift_error = 0;')
    for k in kernels:
        args = [f"(const {b.dtype.cpp}*)b[{place[b.name]}]" for b in k.reads]
        args += [f"({b.dtype.cpp}*)b[{place[b.name]}]" for b in k.outs]
        args += [f"d[{n}]" for n in range(len(dims))]
        lines.append(f"  {k.name}({', '.join(args)});")
    return "\n".join([*lines, "  return rift_error;\n}\n"])
