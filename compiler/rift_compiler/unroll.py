"""Pass: Tile IR to Tile IR: small array loops written out, and their local arrays as variables.

A C++ compiler keeps variables in registers; arrays, only where it has unrolled every loop that
indexes them. On a CPU the register tile of a kernel depends on it, so it is not left to chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rift_compiler.expr import NO_AXES, Node, const, make, replaced, rewrite, walk
from rift_compiler.index import simplest, to_poly
from rift_compiler.tile_ir import (
    AllReduce,
    Assign,
    For,
    If,
    Let,
    Local,
    Prefetch,
    Stmt,
    StoreTo,
    TileKernel,
    Vector,
    expressions,
    statements,
)

LARGEST = 96  # statements that one nest of array loops may become


def unroll(k: TileKernel) -> TileKernel:
    """k with array loops written out where that makes few statements."""
    body = _block(k.body)
    split = _variables(body)
    return replace(k, body=_split(body, split) if split else body)


def mapped(s: Stmt, names: Mapping[Node, Node]) -> Stmt:
    """A statement with nodes of its expressions replaced; those inside it likewise."""

    def new(n: Node) -> Node:
        return rewrite(replaced(n, dict(names)), simplest)

    if isinstance(s, For):
        return replace(s, body=tuple(mapped(x, names) for x in s.body))
    if isinstance(s, If):
        body = tuple(mapped(x, names) for x in s.body)
        return replace(s, condition=new(s.condition), body=body)
    if isinstance(s, Let):
        return replace(s, value=new(s.value))
    if isinstance(s, Local):
        return s if s.init is None else replace(s, init=new(s.init))
    if isinstance(s, Assign | StoreTo):
        return replace(s, index=tuple(map(new, s.index)), value=new(s.value))
    if isinstance(s, Vector | AllReduce | Prefetch):
        return replace(s, index=tuple(map(new, s.index)))
    return s


def _block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, For | If):
            s = replace(s, body=_block(s.body))
        if isinstance(s, For) and s.axis.bind == "array" and _fits(s) and not scatters(s):
            for n in range(s.axis.extent.value):
                out += _renamed(tuple(mapped(x, {s.axis: const(n)}) for x in s.body), n)
        else:
            out.append(s)
    return tuple(out)


def scatters(s: For) -> bool:
    """Whether a loop does nothing but store along memory, lanes far apart, what arrays hold."""
    inner = s.body[0]
    while isinstance(inner, If) and len(inner.body) == 1:
        inner = inner.body[0]
    return (
        len(s.body) == 1
        and isinstance(inner, StoreTo)
        and dict(to_poly(inner.index[-1])).get((s.axis,)) == 1
        and any(a.bind == "thread" for i in inner.index[:-1] for a in i.free)
        and any(n.op == "var" and s.axis in n.args for n in walk(inner.value))
    )


def _fits(s: For) -> bool:
    own = sum(1 for _ in statements(s.body))
    loops = any(isinstance(x, For) for x in statements(s.body))
    return not loops and own * int(s.axis.extent.value) <= LARGEST


def _renamed(body: tuple[Stmt, ...], n: int) -> tuple[Stmt, ...]:
    """Lets and locals of one copy under names of their own."""
    names = {s.name: f"{s.name}_{n}" for s in statements(body) if isinstance(s, Let | Local)}
    if not names:
        return body
    every = [e for s in statements(body) for e in expressions(s)]
    new = {
        v: make("var", v.args, (names[v.name], NO_AXES), v.dtype)
        for v in walk(*every)
        if v.op == "var" and v.name in names
    }
    return tuple(_named(mapped(s, new), names) for s in body)


def _named(s: Stmt, names: Mapping[str, str]) -> Stmt:
    if isinstance(s, For | If):
        return replace(s, body=tuple(_named(x, names) for x in s.body))
    if isinstance(s, Let | Local | Assign | AllReduce | Vector) and s.name in names:
        return replace(s, name=names[s.name])
    return s


def _variables(body: tuple[Stmt, ...]) -> dict[str, Local]:
    """Local arrays that are indexed by numbers only."""
    locals_ = {
        s.name: s for s in statements(body) if isinstance(s, Local) and s.sizes and not s.shared
    }
    for s in statements(body):
        if isinstance(s, Vector):
            locals_.pop(s.name, None)
        if isinstance(s, Assign | AllReduce) and any(i.op != "const" for i in s.index):
            locals_.pop(s.name, None)
        for n in walk(*expressions(s)):
            if n.op == "var" and any(i.op != "const" for i in n.args):
                locals_.pop(n.name, None)
    return locals_


def _split(body: tuple[Stmt, ...], split: Mapping[str, Local]) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Local) and s.name in split:
            out += [replace(s, name=n, sizes=()) for n in _elements(s.name, s.sizes)]
            continue
        names = {
            v: make("var", (), (_element(v.name, v.args), NO_AXES), v.dtype)
            for v in walk(*expressions(s))
            if v.op == "var" and v.name in split
        }
        inner = mapped(s, names) if names else s
        if isinstance(inner, For | If):
            inner = replace(inner, body=_split(inner.body, split))
        if isinstance(inner, Assign | AllReduce) and inner.name in split:
            inner = replace(inner, name=_element(inner.name, inner.index), index=())
        out.append(inner)
    return tuple(out)


def _element(name: str, index: tuple[Node, ...]) -> str:
    return "_".join([name, *(str(i.value) for i in index)])


def _elements(name: str, sizes: tuple[int, ...]) -> list[str]:
    out = [name]
    for size in sizes:
        out = [f"{o}_{n}" for o in out for n in range(size)]
    return out
