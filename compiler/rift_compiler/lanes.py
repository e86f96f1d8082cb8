"""What of a kernel differs from lane to lane of its thread loop, and what all lanes share."""

from __future__ import annotations

from dataclasses import replace

from rift_compiler.expr import NO_AXES, IrError, Node, make, walk
from rift_compiler.tile_ir import (
    AllReduce,
    Assign,
    For,
    If,
    Let,
    Local,
    Stmt,
    TileKernel,
    expressions,
    statements,
)
from rift_compiler.unroll import mapped


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


def reduced_once(k: TileKernel) -> TileKernel:
    """k, where what lanes have reduced is read under another name, which is the same in each."""
    return replace(k, body=_renamed(k.body))


def _renamed(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    names, out = dict[Node, Node](), list[Stmt]()
    for n, s in enumerate(body):
        s = mapped(s, names) if names else s
        out.append(replace(s, body=_renamed(s.body)) if isinstance(s, For | If) else s)
        if isinstance(s, AllReduce) and not s.index and not _assigned(s.name, body[n + 1 :]):
            for v in _uses(s.name, body[n + 1 :]):
                names[v] = make("var", (), (f"{s.name}_all", NO_AXES), v.dtype)
    return tuple(out)


def _assigned(name: str, body: tuple[Stmt, ...]) -> bool:
    return any(isinstance(s, Assign | AllReduce) and s.name == name for s in statements(body))


def _uses(name: str, body: tuple[Stmt, ...]) -> set[Node]:
    every = [e for s in statements(body) for e in expressions(s)]
    return {n for n in walk(*every) if n.op == "var" and n.name == name and not n.args}
