"""Tile IR with one thread loop as C++: its lanes run in lockstep in vector registers.

What varies with the lane is a Lanes<T, L> of prelude/lanes.h, the rest stays scalar; the text of
an expression is the same for both. A load or store whose place steps by one with the lane moves a
vector, any other goes lane by lane. Under a condition that varies with the lane, statements are
written twice: plainly for when every lane meets it, else under a mask.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rift_compiler.dtypes import DType, bf16, bool_, f16, f32, i64
from rift_compiler.expr import (
    FALSE,
    TRUE,
    IrError,
    Node,
    all_of,
    const,
    rewrite,
    substitute,
    walk,
)
from rift_compiler.index import fits_int, simplest, to_poly
from rift_compiler.render import Render
from rift_compiler.scalar_ops import SCALAR_OPS
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
    Sync,
)
from rift_compiler.unroll import scatters

REDUCE = {
    "sum": "a + b", "prod": "a * b", "max": "rift_max(a, b)", "min": "rift_min(a, b)",
    "any": "a | b", "all": "a & b",
}  # fmt: skip


@dataclass(frozen=True)
class LaneRender(Render):
    """Renders the statements of a kernel with lanes.

    known: conditions that all lanes meet here. mask: the variable that says which lanes are here,
    and only: the one lane that is, by number or name. at: the lane an expression is being written
    for, alone.
    """

    lane: Node = TRUE  # the thread axis
    varying: frozenset[str] = frozenset()
    streams: frozenset[str] = frozenset()
    known: frozenset[Node] = frozenset()
    mask: str = ""
    only: int | str | None = None
    at: str = ""

    @property
    def count(self) -> int:
        return int(self.lane.extent.value)

    def varies(self, n: Node) -> bool:
        """Whether a value differs from lane to lane."""
        return any(x is self.lane or (x.op == "var" and x.name in self.varying) for x in walk(n))

    def wide(self, n: Node) -> bool:
        """Whether n is written as Lanes here."""
        return not self.at and self.varies(n)

    def alone(self, at: str) -> LaneRender:
        """For the text of one lane."""
        return replace(self, at=at, mask="")

    def type(self, dtype: DType) -> str:
        return f"Lanes<{dtype.cpp}, {self.count}>"

    # Statements.

    def statement(self, s: Stmt, pad: str) -> list[str]:
        if isinstance(s, If) and self.varies(s.condition):
            return self._masked(s, pad)
        if isinstance(s, For) and self.only is None and s.axis.bind == "array" and scatters(s):
            head = f"for (int64_t rift_t = 0; rift_t < {self.count}; rift_t++) {{"
            one = replace(self, only="rift_t")
            return [f"{pad}{head}", *one.statement(s, pad + "  "), f"{pad}}}"]
        if isinstance(s, Let) and s.name in self.varying:
            value = self._spread(s.value)
            return [f"{pad}const {self.type(s.value.dtype)} {s.name} = {value};"]
        if isinstance(s, Local):
            return self._declare(s, pad)
        if isinstance(s, Assign):
            return self._assign(s, pad)
        if isinstance(s, StoreTo):
            place = self.place(s.buffer, s.index)
            return self._store(s.buffer, place, s.value, pad, s.buffer in self.streams)
        if isinstance(s, AllReduce):
            return self._reduce(s, pad)
        if isinstance(s, Sync):
            return []  # every statement is one: lanes are in lockstep
        if isinstance(s, Prefetch):
            first = self.index(self._first(self.place(s.buffer, s.index)))
            return [f"{pad}rift_prefetch<{self.count}>(&{s.buffer}[{first}]);"]
        return super().statement(s, pad)

    def _reduce(self, s: AllReduce, pad: str) -> list[str]:
        name, cpp = self._element(s.name, s.index), self.locals[s.name].dtype.cpp
        how = f"[](auto a, auto b) {{ return {REDUCE[s.monoid]}; }}"
        value, spread = f"rift_reduce({name}, {how})", f"rift_spread<{self.count}, {cpp}>"
        if s.index:
            return [f"{pad}{name} = {spread}({value});"]
        one = f"{pad}const {cpp} {name}_all = {value};"
        return [one, f"{pad}{name} = {spread}({name}_all);"]

    def _declare(self, s: Local, pad: str) -> list[str]:
        if s.shared:
            return [f"{pad}alignas(64) {s.dtype.cpp} {s.name}[{_product(s.sizes)}];"]
        if s.name not in self.varying:
            return self._local(s, pad)
        sizes = "".join(f"[{n}]" for n in s.sizes)
        start = "" if s.init is None else self._spread(s.init)
        if not s.sizes or not start:
            equals = f" = {start}" if start else ""
            return [f"{pad}{self.type(s.dtype)} {s.name}{sizes}{equals};"]
        target = f"(&{s.name}{'[0]' * len(s.sizes)})[rift_i]"
        head = f"for (int rift_i = 0; rift_i < {_product(s.sizes)}; rift_i++)"
        return [f"{pad}{self.type(s.dtype)} {s.name}{sizes};", f"{pad}{head} {target} = {start};"]

    def _assign(self, s: Assign, pad: str) -> list[str]:
        local = self.locals[s.name]
        if local.shared:
            return self._store(s.name, _flat(s.index, local.sizes), s.value, pad, False)
        if s.name not in self.varying:
            return super().statement(s, pad)
        target, value = self._element(s.name, s.index), self._spread(s.value)
        if self.mask:
            value = f"rift_where({self.mask}, {value}, {target})"
        return [f"{pad}{target} = {value};"]

    def _store(self, name: str, place: Node, value: Node, pad: str, stream: bool) -> list[str]:
        if self.only is not None:
            one = self.alone(str(self.only))
            test = f"if ({self.mask}[{self.only}]) " if self.mask else ""
            return [f"{pad}{test}{name}[{one.index(place)}] = {one.text(value)};"]
        step = self._step(place)
        if step == 0 and not self.varies(value) and not self.mask:
            return [f"{pad}{name}[{self.index(place)}] = {self.text(value)};"]
        text = self._spread(value)
        if step == 1 and not self.mask:
            flag = f"{name}_stream" if stream else "false"
            return [f"{pad}rift_store(&{name}[{self.index(self._first(place))}], {text}, {flag});"]
        test = f"if ({self.mask}[rift_t]) " if self.mask else ""
        head = f"for (int64_t rift_t = 0; rift_t < {self.count}; rift_t++) {test}"
        target = f"{name}[{self.alone('rift_t').index(place)}]"
        return [
            f"{pad}{{ const auto rift_v = {text};",
            f"{pad}  {head}{target} = rift_v[rift_t]; }}",
        ]

    def _masked(self, s: If, pad: str) -> list[str]:
        parts = _parts(s.condition)
        lane = next((c.args[1].value for c in parts if self._one_lane(c)), None)
        if lane is not None:
            rest = all_of(*(c for c in parts if not self._one_lane(c)))
            return replace(self, only=lane).block(
                (If(rest, s.body),) if rest is not TRUE else s.body, pad
            )
        every = all_of(*(self._every(c) for c in parts))
        plain = replace(self, known=self.known | set(parts)).block(s.body, pad + "  ")
        if every is TRUE and not self.mask:
            return [f"{pad}{{", *plain, f"{pad}}}"]
        name = f"rift_m{len(pad)}"
        under = replace(self, mask=name).block(s.body, pad + "  ")
        both = f" & {self.mask}" if self.mask else ""
        masked = [
            f"{pad}  const {self.type(bool_)} {name} = {self._spread(s.condition)}{both};",
            *under,
        ]
        if every is FALSE or self.mask:
            return [f"{pad}{{", *masked, f"{pad}}}"]
        return [f"{pad}if ({self.text(every)}) {{", *plain, f"{pad}}} else {{", *masked, f"{pad}}}"]

    def _one_lane(self, c: Node) -> bool:
        return c.op == "eq" and c.args[0] is self.lane and c.args[1].op == "const"

    def _every(self, c: Node) -> Node:
        """Whether all lanes meet a condition, as one that does not vary; FALSE where unclear."""
        if not self.varies(c):
            return c
        if c.op not in ("lt", "le") or c.args[0].dtype is not i64:
            return FALSE
        steps = [self._step(a) for a in c.args]
        if None in steps:
            return FALSE
        last = const(self.count - 1)
        low, high = steps[0] or 0, steps[1] or 0
        at = last if low - high > 0 else const(0)
        return rewrite(substitute(c, {self.lane: at}), simplest)

    # Places: how an index moves with the lane.

    def _step(self, place: Node) -> int | None:
        """By how much a place moves from lane to lane; None where that is no number."""
        if self.at or not self.varies(place):
            return 0
        terms = dict(to_poly(place))
        step = terms.pop((self.lane,), 0)
        return None if any(self.varies(a) for t in terms for a in t) else int(step)

    def _first(self, place: Node) -> Node:
        """A place at the first lane."""
        return rewrite(substitute(place, {self.lane: const(0)}), simplest)

    # Expressions.

    def _spread(self, n: Node) -> str:
        """n as Lanes."""
        text = self.text(n)
        return text if self.wide(n) else f"rift_spread<{self.count}, {n.dtype.cpp}>({text})"

    def text(self, n: Node, index: bool = False) -> str:
        if n is self.lane:
            return self.at or f"Lanes<int64_t, {self.count}>::each([](int64_t t) {{ return t; }})"
        if n.op == "var":
            return self._variable(n)
        if n.op == "load":
            return self._load(n)
        if not self.wide(n):
            return super().text(n, index)
        if n.op == "where":
            c, a, b = n.args
            if not self.wide(c):
                return f"({self.text(c)} ? {self._spread(a)} : {self._spread(b)})"
            return f"rift_where({self.text(c)}, {self._spread(a)}, {self._spread(b)})"
        if n.op == "cast":
            return self._cast_lanes(n)
        return self._apply_lanes(n)

    def _variable(self, n: Node) -> str:
        local = self.locals.get(n.name)
        if local is not None and local.shared:
            return self._read(n.name, _flat(n.args, local.sizes), n.dtype, TRUE)
        text = self._element(n.name, n.args)
        return f"{text}[{self.at}]" if self.at and n.name in self.varying else text

    def _load(self, n: Node) -> str:
        guard = all_of(*(c for c in _parts(n.guard) if c not in self.known))
        return self._read(n.name, self.place(n.name, n.index), n.dtype, guard)

    def _read(self, name: str, place: Node, dtype: DType, guard: Node) -> str:
        """An element, or what a vector reads; 0 where the guard is false."""
        zero = f"{dtype.cpp}{{}}" if dtype in (f16, bf16) else self._const(const(0, dtype))
        wide = not self.at and (self.varies(place) or self.varies(guard))
        if not wide:
            read = f"{name}[{self.index(place)}]"
            return read if guard is TRUE else f"({self.text(guard)} ? {read} : {zero})"
        step, one = self._step(place), self.alone("rift_t")
        whole = f"rift_load<{self.count}>(&{name}[{self.index(self._first(place))}])"
        if step == 1 and guard is TRUE and not self.mask:
            return whole
        test = " && ".join(([f"{self.mask}[rift_t]"] if self.mask else []) + (
            [one.text(guard)] if guard is not TRUE else []))  # fmt: skip
        read = f"{name}[{one.index(place)}]"
        read = f"({test}) ? {read} : {zero}" if test else read
        each = f"{self.type(dtype)}::each([&](int64_t rift_t) {{ return {read}; }})"
        every = all_of(*(self._every(c) for c in _parts(guard)))
        if step != 1 or self.mask or every is FALSE:
            return each
        return whole if every is TRUE else f"({self.text(every)} ? {whole} : {each})"

    def _cast_lanes(self, n: Node) -> str:
        (x,) = n.args
        text = self.text(x)
        if x.dtype in (f16, bf16):
            text, x_dtype = f"rift_{x.dtype}_to_f32({text})", f32
        else:
            x_dtype = x.dtype
        if n.dtype in (f16, bf16):
            text = text if x_dtype is f32 else f"rift_cast<float>({text})"
            return f"rift_f32_to_{n.dtype}({text})"
        return text if n.dtype is x_dtype else f"rift_cast<{n.dtype.cpp}>({text})"

    def _apply_lanes(self, n: Node) -> str:
        row = SCALAR_OPS.get(n.op)
        if row is None:
            raise IrError(f"no C++ for {n.op}")
        if row.rule == "compare" and n.args[0].dtype is i64 and all(map(fits_int, n.args)):
            args = [self._int32(a) for a in n.args]
        else:
            args = [self._spread(a) for a in n.args]
        if self.mask and n.op in ("checked", "floordiv", "mod", "truncdiv", "fmod"):
            args = self._harmless(n, args)
        return row.cpp.format(*args)

    def _harmless(self, n: Node, args: list[str]) -> list[str]:
        """Arguments that cannot fail in lanes that are not here."""
        which, safe = (0, 0) if n.op == "checked" else (1, 1)
        instead = self._spread(const(safe, n.dtype))
        args[which] = f"rift_where({self.mask}, {args[which]}, {instead})"
        return args

    def _int32(self, n: Node) -> str:
        """An index that fits 32 bits, in lanes of 32 bits."""
        step = self._step(n)
        if step is None:
            return f"rift_cast<int32_t>({self._spread(n)})"
        first = f"(int32_t)({self.index(self._first(n))})"
        return f"rift_steps<{self.count}>({first}, {step})"


def _parts(condition: Node) -> list[Node]:
    """The conditions of a conjunction."""
    if condition is TRUE:
        return []
    if condition.op == "and_":
        return [p for a in condition.args for p in _parts(a)]
    return [condition]


def _product(sizes: tuple[int, ...]) -> int:
    total = 1
    for n in sizes:
        total *= n
    return total


def _flat(index: tuple[Node, ...], sizes: tuple[int, ...]) -> Node:
    place: Node = const(0)
    for i, size in zip(index, sizes, strict=True):
        place = place * size + i
    return place
