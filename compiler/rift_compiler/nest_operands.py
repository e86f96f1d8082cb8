"""Part of nest.py: operands that a lane keeps in registers, and whole vectors of them."""

from __future__ import annotations

from collections.abc import Sequence

from rift_compiler.expr import (
    TRUE,
    Node,
    axis,
    const,
    make,
    replaced,
    rewrite,
    substitute,
    walk,
)
from rift_compiler.index import simplest, to_poly
from rift_compiler.nest_values import Context, Values
from rift_compiler.tile_ir import (
    Assign,
    For,
    If,
    Local,
    Stmt,
    Vector,
)


class Operands(Values):
    """Ways to read an operand once that is used many times."""

    def registers(
        self, bodies: list[Node], loops: list[Node], own: frozenset[Node], c: Context
    ) -> list[Node]:
        """Operands of inner folds that this loop reads again and again, held by each lane."""
        if not self.schedule.fragments or not c.uniform:
            return bodies
        left = self.schedule.fragments
        held: dict[Node, Node] = {f: f for f in own}
        for n in (n for b in bodies for n in walk(b, skip=own) if n.op == "load"):
            inner = sorted(n.free - c.scope, key=lambda a: a.name)
            fixed = all(a.extent.op == "const" and a not in loops for a in inner)
            if n in held or not inner or not fixed or frozenset(self.lanes) - n.free:
                continue
            sizes = tuple(a.extent.value for a in inner)
            total = 1
            for s in sizes:
                total *= s
            if total > left or n.free & frozenset(loops) or any(a.bind == "array" for a in inner):
                continue
            left -= total
            name = self.name("r")
            filled = [axis(self.name("j"), a.extent, "array") for a in inner]
            read = substitute(n, dict(zip(inner, filled, strict=True)))
            body: tuple[Stmt, ...] = (Assign(name, tuple(filled), self.value(read, c)),)
            for a in reversed(filled):
                body = (For(a, body),)
            c.out += [Local(name, n.dtype, sizes, None), *body]
            held[n] = make("var", tuple(inner), (name, c.scope), n.dtype)
        return [replaced(b, held) for b in bodies]

    def fragments(self, roots: list[Node], c: Context, arrays: tuple[Node, ...]) -> None:
        """Read what varies with some of the array axes once, into arrays of its own."""
        if not self.schedule.fragments:
            return
        for n in list(self.visible(roots, c)):
            mine = tuple(a for a in arrays if a in n.free)
            staged = n.op == "var" and n.args
            if not (n.op == "load" or staged) or not mine or not n.free <= c.scope | set(arrays):
                continue
            wide = n.op == "load" and self.whole_vector(n, mine)
            if len(mine) == len(arrays) and not wide:
                continue
            name = self.name("r")
            c.out.append(Local(name, n.dtype, tuple(a.extent.value for a in mine), None))
            if wide:
                at = tuple(at_start(self.value(i, c), mine[0]) for i in n.index)
                move: Stmt = Vector(name, n.name, at, False)
                guard = at_start(self.value(n.guard, c), mine[0])
                c.out.append(move if guard is TRUE else If(guard, (move,)))
            else:
                body: tuple[Stmt, ...] = (Assign(name, mine, self.value(n, c)),)
                for a in reversed(mine):
                    body = (For(a, body),)
                c.out += body
            c.known[n] = make("var", mine, (name, n.free - set(mine)), n.dtype)

    def whole_vector(self, n: Node, mine: tuple[Node, ...]) -> bool:
        """Whether a load reads consecutive elements along one array axis, in whole vectors."""
        return self.schedule.vector and len(mine) == 1 and steps_by_one(n.index, mine[0])


def at_start(n: Node, along: Node) -> Node:
    """n at the first element of an array axis."""
    return rewrite(substitute(n, {along: const(0)}), simplest)


def steps_by_one(index: Sequence[Node], along: Node) -> bool:
    """Whether only the last index varies with along, by one, and starts at whole vectors."""
    if any(along in i.free for i in index[:-1]):
        return False
    size = along.extent.value
    terms = dict(to_poly(index[-1]))
    if terms.pop((along,), 0) != 1 or any(along in a.free for t in terms for a in t):
        return False
    return all(k % size == 0 for k in terms.values())
