"""What of a kernel differs from lane to lane of its thread loop, and what all lanes share."""

from __future__ import annotations

from rift_compiler.expr import IrError, Node, walk
from rift_compiler.tile_ir import (
    AllReduce,
    Assign,
    For,
    If,
    Let,
    Local,
    Stmt,
    TileKernel,
    statements,
)


def lane_of(k: TileKernel) -> Node | None:
    """The thread axis of a kernel; more than one cannot be rendered."""
    lanes = {s.axis for s in statements(k.body) if isinstance(s, For) and s.axis.bind == "thread"}
    if len(lanes) > 1:
        raise IrError(f"{k.name}: C++ runs one thread loop in vectors, got {len(lanes)}")
    return next(iter(lanes), None)


def varying_names(k: TileKernel, lane: Node) -> frozenset[str]:
    """The locals that differ from lane to lane: what is assigned so, directly or by others."""
    names: set[str] = set()
    shared = {s.name for s in statements(k.body) if isinstance(s, Local) and s.shared}
    reduced = {s.name for s in statements(k.body) if isinstance(s, AllReduce)}

    def differs(n: Node) -> bool:
        return any(x is lane or (x.op == "var" and x.name in names) for x in walk(n))

    def visit(body: tuple[Stmt, ...], masked: bool) -> None:
        for s in body:
            if isinstance(s, If):
                visit(s.body, masked or differs(s.condition))
            elif isinstance(s, For):
                visit(s.body, masked)
            elif (isinstance(s, Let) and differs(s.value)) or (
                isinstance(s, Assign) and s.name not in shared and (masked or differs(s.value))
            ):
                names.add(s.name)

    names |= reduced
    size = -1
    while len(names) != size:
        size = len(names)
        visit(k.body, False)
    return frozenset(names)
