"""Views: one load at other indices. Nothing is moved; fusion reads through them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from rift_compiler.expr import TRUE, Node, all_of, apply, cast, const, where
from rift_compiler.frontend.builder import Builder, Scalar, Tensor
from rift_compiler.frontend.registry import lowers
from rift_compiler.index import to_poly

ZERO, ONE = const(0), const(1)
Change = Callable[[Node], Node]
Shape = Sequence[Node]


def place(dim: int, rank: int) -> int:
    """A dimension counted from the front; a 0-d tensor has dimensions 0 and -1."""
    return dim % max(rank, 1)


def remap(b: Builder, x: Tensor, change: Mapping[int, Change], which: int = 0) -> Tensor:
    """The op's result: x with the index of some dimensions changed."""
    return b.result(
        lambda *axes: x.at(*(change[n](a) if n in change else a for n, a in enumerate(axes))), which
    )


@lowers("aten.permute.default")
def permute(b: Builder, x: Tensor, dims: list[int]) -> Tensor:
    def value(*axes: Node) -> Node:
        index = list(axes)
        for axis, d in zip(axes, dims, strict=True):
            index[d % x.rank] = axis
        return x.at(*index)

    return b.result(value)


@lowers("aten.expand.default")
def expand(b: Builder, x: Tensor, size: object, implicit: bool) -> Tensor:
    del size, implicit  # torch's result has the size, -1 worked out; implicit is for autograd
    return b.result(lambda *axes: x.broadcast(axes))


@lowers("aten.copy.default")
def copy(b: Builder, x: Tensor, src: Tensor, non_blocking: bool) -> Tensor:
    del non_blocking  # about when, not what
    return b.result(lambda *axes: cast(src.broadcast(axes), x.dtype))


@lowers(
    *(f"aten.{op}.default" for op in ("view", "_unsafe_view", "reshape", "squeeze", "unsqueeze")),
    *("aten.squeeze.dim", "aten.squeeze.dims"),
)
def view(b: Builder, x: Tensor, **shape: object) -> Tensor:
    del shape  # torch's result has it: -1 worked out, sizes of 1 gone or come
    return reshape(b, x, b.shape(), b.results[0])


def reshape(b: Builder, x: Tensor, shape: Shape, fake: Any = None) -> Tensor:
    """x's elements in row-major order under another shape."""

    def value(*axes: Node) -> Node:
        index = [ZERO] * x.rank
        for ours, theirs in runs(shape, x.shape):
            flat = flatten([axes[n] for n in ours], [shape[n] for n in ours])
            parts = unflatten(flat, [x.shape[n] for n in theirs])
            for n, part in zip(theirs, parts, strict=True):
                index[n] = part
        return x.at(*index)

    return b.define(x.dtype, shape, value, fake)


def flatten(index: Shape, shape: Shape) -> Node:
    """The row-major position of an index."""
    flat: Node = ZERO
    for i, size in zip(index, shape, strict=True):
        flat = flat * size + i
    return flat


def unflatten(flat: Node, shape: Shape) -> list[Node]:
    """The index at a row-major position."""
    out: list[Node] = []
    for size in reversed(shape[1:]):
        out.insert(0, flat % size)
        flat = flat // size
    return [flat, *out] if shape else []


def runs(one: Shape, two: Shape) -> list[tuple[list[int], list[int]]]:
    """Dimensions of two shapes of as many elements, in the shortest runs of equal products.

    It is what keeps indices plain: (b, s, 64) and (b*s, 8, 8) are (b, s) with (b*s), then the rest.
    Sizes of 1 are in no run.
    """
    ends = {product: n for n, product in _products(two)}
    out: list[tuple[list[int], list[int]]] = []
    begin = at = 0
    for n, product in _products(one):
        if product in ends:
            last = ends[product] + 1
            ours = [m for m in range(begin, n + 1) if one[m] is not ONE]
            out.append((ours, [m for m in range(at, last) if two[m] is not ONE]))
            begin, at = n + 1, last
    ours = [m for m in range(begin, len(one)) if one[m] is not ONE]
    theirs = [m for m in range(at, len(two)) if two[m] is not ONE]
    return [*out, (ours, theirs)] if ours or theirs else out


def _products(shape: Shape) -> list[tuple[int, frozenset[Any]]]:
    """The product of the sizes up to each dimension that is not 1, as a polynomial."""
    sizes = [(n, s) for n, s in enumerate(shape) if s is not ONE]
    totals = accumulate((s for _, s in sizes), lambda p, q: p * q)
    return [(n, frozenset(to_poly(t).items())) for (n, _), t in zip(sizes, totals, strict=True)]


@lowers("aten.slice.Tensor")
def slice_(b: Builder, x: Tensor, dim: int, start: Any, end: object, step: Any) -> Tensor:
    del end  # torch's result has the length
    first = b.size(0 if start is None else start)
    begin, by = slice_start(first, x.shape[place(dim, x.rank)]), b.size(step)
    return remap(b, x, {place(dim, x.rank): lambda a: begin + a * by})


def slice_start(start: Node, size: Node) -> Node:
    """Where a slice begins: from the end if negative, then not before 0.

    A start past the end needs no care: such a slice is empty.
    """
    back = start + size
    inside = back if (back >= 0) is TRUE else apply("max", back, ZERO)
    return where(start < 0, inside, start)


@lowers("aten.select.int")
def select(b: Builder, x: Tensor, dim: int, index: Any) -> Tensor:
    d = place(dim, x.rank)
    at = slice_start(b.size(index), x.shape[d])
    return b.result(lambda *axes: x.at(*axes[:d], at, *axes[d:]))


@lowers("aten.split_with_sizes.default")
def split(b: Builder, x: Tensor, split_sizes: list[Any], dim: int) -> list[Tensor]:
    starts = accumulate((b.size(s) for s in split_sizes), lambda p, q: p + q, initial=ZERO)
    d = place(dim, x.rank)
    return [
        remap(b, x, {d: lambda a, start=start: a + start}, which)  # type: ignore[misc]
        for which, start in zip(range(len(split_sizes)), starts, strict=False)
    ]


@lowers("aten.cat.default")
def cat(b: Builder, tensors: list[Tensor], dim: int) -> Tensor:
    rank = len(b.shape())
    d = place(dim, rank)  # an empty 1-d tensor joins any others: torch keeps that old habit
    parts = [t for t in tensors if t.rank == rank and t.shape[d] is not ZERO]
    parts = [b.cast(t, b.dtype()) for t in parts]
    ends = [*accumulate((t.shape[d] for t in parts), lambda p, q: p + q, initial=ZERO)]

    def value(*axes: Node) -> Node:
        def among(low: int, high: int) -> Node:
            if high - low == 1:
                guard = all_of(axes[d] >= ends[low], axes[d] < ends[high])
                return parts[low].at(*axes[:d], axes[d] - ends[low], *axes[d + 1 :], guard=guard)
            half = (low + high) // 2
            return where(axes[d] < ends[half], among(low, half), among(half, high))

        return among(0, len(parts)) if parts else b.fill(0, b.dtype())

    return b.result(value)


@lowers("aten.flip.default")
def flip(b: Builder, x: Tensor, dims: list[int]) -> Tensor:
    places = {place(d, x.rank) for d in dims} if x.rank else set()
    return remap(b, x, {d: lambda a: a.extent - 1 - a for d in places})


@lowers("aten.roll.default")
def roll(b: Builder, x: Tensor, shifts: list[Any], dims: list[int]) -> Tensor:
    if not dims:
        flat = reshape(b, x, (flatten([s - 1 for s in x.shape], x.shape) + 1,))
        by, size = b.size(shifts[0]), flat.shape[0]
        turned = b.define(x.dtype, flat.shape, lambda a: flat.at((a - by) % size))
        return reshape(b, turned, x.shape, b.results[0])
    total: dict[int, Node] = {}
    for d, shift in zip(dims, shifts, strict=True):
        total[d % x.rank] = total.get(d % x.rank, ZERO) + b.size(shift)
    return remap(b, x, {d: lambda a, by=by: (a - by) % a.extent for d, by in total.items()})  # type: ignore[misc]


@lowers("aten.repeat.default")
def repeat(b: Builder, x: Tensor, repeats: object) -> Tensor:
    del repeats  # torch's result has the sizes
    return b.result(
        lambda *axes: x.at(
            *(a % s for a, s in zip(axes[len(axes) - x.rank :], x.shape, strict=True))
        )
    )


@lowers("aten.unfold.default")
def unfold(b: Builder, x: Tensor, dimension: int, size: object, step: Any) -> Tensor:
    del size  # torch's result has it, as its last dimension
    if not x.rank:
        return b.result(lambda i: x.at())
    d, by = dimension % x.rank, b.size(step)
    return b.result(lambda *axes: x.at(*axes[:d], axes[d] * by + axes[-1], *axes[d + 1 : -1]))


@lowers("aten.diagonal.default")
def diagonal(b: Builder, x: Tensor, offset: Any, dim1: int, dim2: int) -> Tensor:
    row, column, by = dim1 % x.rank, dim2 % x.rank, b.size(offset)

    def value(*axes: Node) -> Node:
        rest = iter(axes[:-1])
        at = {row: axes[-1] - _least(by), column: axes[-1] - _least(ZERO - by)}
        return x.at(*(at[n] if n in at else next(rest) for n in range(x.rank)))

    return b.result(value)


def _least(n: Node) -> Node:
    """min(n, 0)."""
    return where(n < 0, n, ZERO)


def _on_diagonal(axes: Shape, offset: Any, dim1: int, dim2: int, b: Builder) -> tuple[Shape, Node]:
    """The index into a tensor of diagonals at axes, and whether axes are on the diagonal."""
    row, column, by = dim1 % len(axes), dim2 % len(axes), b.size(offset)
    rest = [a for n, a in enumerate(axes) if n not in (row, column)]
    return [*rest, axes[row] + _least(by)], (axes[column] - axes[row]).eq(by)


@lowers("aten.diag_embed.default")
def diag_embed(b: Builder, x: Tensor, offset: Any, dim1: int, dim2: int) -> Tensor:
    def value(*axes: Node) -> Node:
        index, inside = _on_diagonal(axes, offset, dim1, dim2, b)
        return x.at(*index, guard=inside)

    return b.result(value)


@lowers("aten.diagonal_scatter.default")
def diagonal_scatter(
    b: Builder, x: Tensor, src: Tensor, offset: Any, dim1: int, dim2: int
) -> Tensor:
    new = b.cast(src, x.dtype)

    def value(*axes: Node) -> Node:
        index, inside = _on_diagonal(axes, offset, dim1, dim2, b)
        return where(inside, new.at(*index, guard=inside), x.at(*axes))

    return b.result(value)


@lowers("aten.tril.default")
def tril(b: Builder, x: Tensor, diagonal: Any) -> Tensor:
    by = b.size(diagonal)
    return b.result(lambda *axes: x.at(*axes, guard=axes[-1] - axes[-2] <= by))


@lowers("aten.triu.default")
def triu(b: Builder, x: Tensor, diagonal: Any) -> Tensor:
    by = b.size(diagonal)
    return b.result(lambda *axes: x.at(*axes, guard=axes[-1] - axes[-2] >= by))


@lowers("aten.slice_scatter.default")
def slice_scatter(
    b: Builder, x: Tensor, src: Tensor, dim: int, start: Any, end: object, step: Any
) -> Tensor:
    del end  # src has the length
    d, by, new = place(dim, x.rank), b.size(step), b.cast(src, x.dtype)
    begin = slice_start(b.size(0 if start is None else start), x.shape[d])

    def value(*axes: Node) -> Node:
        far = axes[d] - begin
        hit = TRUE if by is ONE else (far % by).eq(ZERO)
        inside = all_of(far >= 0, far < new.shape[d] * by, hit)
        place = (*axes[:d], far // by, *axes[d + 1 :])
        return where(inside, new.at(*place, guard=inside), x.at(*axes))

    return b.result(value)


@lowers("aten.select_scatter.default")
def select_scatter(b: Builder, x: Tensor, src: Tensor, dim: int, index: Any) -> Tensor:
    d, new = place(dim, x.rank), b.cast(src, x.dtype)
    at = slice_start(b.size(index), x.shape[d])

    def value(*axes: Node) -> Node:
        return where(axes[d].eq(at), new.at(*axes[:d], *axes[d + 1 :]), x.at(*axes))

    return b.result(value)


@lowers("aten.constant_pad_nd.default")
def constant_pad(b: Builder, x: Tensor, pad: list[Any], value: Scalar) -> Tensor:
    fill, before = b.fill(value, x.dtype), _before(b, x, pad)

    def padded(*axes: Node) -> Node:
        index = [a - before.get(n, ZERO) for n, a in enumerate(axes)]
        guard = all_of(*(c for i, s in zip(index, x.shape, strict=True) for c in (i >= 0, i < s)))
        inside = x.at(*index, guard=guard)
        return inside if fill is b.fill(0, x.dtype) else where(guard, inside, fill)

    return b.result(padded)


def _before(b: Builder, x: Tensor, pad: list[Any]) -> dict[int, Node]:
    """Dimension -> elements added before it; pad lists the last dimension first."""
    return {x.rank - 1 - n: b.size(left) for n, left in enumerate(pad[::2])}


def _pad(b: Builder, x: Tensor, pad: list[Any], at: Callable[[Node, Node], Node]) -> Tensor:
    change: dict[int, Change] = {
        d: lambda a, d=d, left=left: at(a - left, x.shape[d])  # type: ignore[misc]
        for d, left in _before(b, x, pad).items()
    }
    return remap(b, x, change)


@lowers(*(f"aten.reflection_pad{n}d.default" for n in (1, 2, 3)))
def reflection_pad(b: Builder, x: Tensor, padding: list[Any]) -> Tensor:
    def at(i: Node, size: Node) -> Node:
        return size - 1 - apply("abs", size - 1 - apply("abs", i))

    return _pad(b, x, padding, at)


@lowers(*(f"aten.replication_pad{n}d.default" for n in (1, 2, 3)))
def replication_pad(b: Builder, x: Tensor, padding: list[Any]) -> Tensor:
    return _pad(b, x, padding, lambda i, s: apply("min", apply("max", i, ZERO), s - 1))


@lowers("aten._pad_circular.default")
def circular_pad(b: Builder, x: Tensor, pad: list[Any]) -> Tensor:
    """Negative numbers crop first; what is left is then repeated."""
    crops = {
        d: [max(-n, 0) for n in pad[2 * k : 2 * k + 2]] for k, d in enumerate(_before(b, x, pad))
    }
    change: dict[int, Change] = {}
    for d, (left, right) in crops.items():
        size, begin = x.shape[d] - left - right, pad[2 * (x.rank - 1 - d)] + left
        if any((size < n) is TRUE for n in pad[2 * (x.rank - 1 - d) :][:2]):
            raise b.refuse(f"aten._pad_circular pad={pad}: it would repeat more than is left")
        change[d] = lambda a, s=size, p=begin, q=left: (a - p) % s + q  # type: ignore[misc]
    return remap(b, x, change)
