"""Analysis: which kernels are products, and what is kept of them in registers.

    sum[k](x[i, k] * w[j, k])

product  lanes along columns, which what varies with them is packed for where it lies otherwise
blocks   folds that follow one another over positions, whose terms are products (attention)
dots     lanes along k, which is how both lie in memory: for few rows nothing needs to be packed
"""

from __future__ import annotations

from dataclasses import dataclass

from rift_compiler.dtypes import f32
from rift_compiler.expr import TRUE, Node, walk
from rift_compiler.index import to_poly
from rift_compiler.loop_ir import Kernel
from rift_compiler.targets import Vectors

ROWS = 16  # of a product from which packing the other operand pays
COLUMNS = 16  # that a product has at least
SPARE = 1.04  # of a product's width that lanes may cover
HEIGHT = 12  # rows of results that are in registers at most
TILE_COLUMNS = 8  # groups of lanes
BLOCK = 64  # positions that folds which follow one another take at once
KEPT_COLUMNS = 256  # of a fold that is kept in blocks
MOST = 8  # rows of dot products that a cell keeps
FEW = 64  # rows for which it does not pay to convert the other operand beforehand


@dataclass(frozen=True)
class Product:
    """Sums of products of what varies with rows and what varies with columns."""

    rows: Node
    columns: Node
    folds: tuple[Node, ...]
    lanes: int
    height: int  # rows of results in registers at a time
    groups: int  # of lanes, in a tile
    inner: bool = False  # whether it is inside folds that are taken in blocks
    packs: bool = True  # whether what varies with columns is packed


def product(k: Kernel, vectors: Vectors, constants: frozenset[str] = frozenset()) -> Product | None:
    """The product that a kernel is, if enough rows share what varies with columns."""
    live = [a for a in k.axes if not is_one(a)]
    if len(live) < 2 or len(k.stores) > 1 or size_of(live[-1]) < COLUMNS:
        return None
    nodes = list(walk(k.stores[0].value))
    folds = tuple(n for n in nodes if n.op == "fold" and n.free <= frozenset(k.axes))
    if not folds or len(folds) > 2 or any(n.op == "scan" for n in nodes):
        return None
    if any([a.extent for a in f.axes] != [a.extent for a in folds[0].axes] for f in folds):
        return None
    rows, columns = live[-2:]
    if not all(_multiplies(f, rows, columns) for f in folds):
        return None
    if dots(k, vectors):
        return None
    if _exchanged(folds, rows, columns, constants):
        rows, columns = columns, rows
        if size_of(columns) <= MOST:
            return None
    lanes, height = _registers(columns, len(folds), vectors)
    fits = size_of(columns) % lanes == 0 and all(lies(f, columns) for f in folds)
    if size_of(rows) < ROWS and not fits:
        return None
    groups = even(-(-size_of(columns) // lanes), TILE_COLUMNS * len(folds))
    height = min(height, size_of(rows))
    packs = not fits or size_of(rows) > FEW
    return Product(rows, columns, folds, lanes, height, groups, packs=packs)


def _registers(columns: Node, folds: int, vectors: Vectors) -> tuple[int, int]:
    """Lanes and rows of results: in three quarters of the registers, two or three side by side."""
    size, most = size_of(columns), vectors.registers * 3 // 4 // folds
    beside = 1 if folds > 1 or size <= vectors.floats else 2
    three = 3 * vectors.floats
    if beside == 2 and most >= 24 and -(-size // three) * three <= size * SPARE:
        beside = 3
    return beside * vectors.floats, min(most // beside, HEIGHT)


def _exchanged(
    folds: tuple[Node, ...], rows: Node, columns: Node, constants: frozenset[str]
) -> bool:
    """Whether lanes along rows need less packing: what lies along them is read as it is; what is
    constant is packed once; else the smaller operand is packed."""
    reads = [n for f in folds for n in walk(f.body) if n.op == "load"]
    if all(n.name in constants for n in reads if columns in n.free):
        return False
    rows_lie, columns_lie = (any(a in n.index[-1].free for n in reads) for a in (rows, columns))
    few = size_of(rows) < size_of(columns) if len(folds) == 1 else size_of(rows) <= FEW
    return not columns_lie and (rows_lie or few)


def blocks(k: Kernel, vectors: Vectors) -> Product | None:
    """The folds of a kernel that follow one another, where one varies with columns and all with
    rows, and terms are products in turn (attention)."""
    live = [a for a in k.axes if not is_one(a)]
    if len(live) < 2 or len(k.stores) > 1:
        return None
    rows, columns = live[-2:]
    nodes = list(walk(k.stores[0].value))
    folds = [n for n in nodes if n.op == "fold" and n.free <= frozenset(k.axes)]
    wide = [f for f in folds if columns in f.free]
    if any(n.op == "scan" for n in nodes) or not wide or size_of(columns) % COLUMNS:
        return None
    if not 2 * COLUMNS <= size_of(columns) <= KEPT_COLUMNS or size_of(rows) <= FEW:
        return None
    if not all(_in_blocks(f, folds, rows) for f in folds) or all(f.by is None for f in folds):
        return None
    dots = [n for f in folds for n in walk(f.body) if n.op == "fold" and n not in folds]
    lanes, height = _registers(columns, 1, vectors)
    if size_of(columns) % lanes:
        lanes //= 2
    groups = even(-(-size_of(folds[0].axes[0]) // lanes), BLOCK // lanes)
    return Product(rows, columns, tuple(dict.fromkeys(dots)), lanes, height, groups, True)


def _in_blocks(f: Node, folds: list[Node], rows: Node) -> bool:
    """Whether a fold can be taken a block at a time, together with the others."""
    return (
        len(f.axes) == 1
        and f.axes[0].extent is folds[0].axes[0].extent
        and rows in f.free
        and f.monoid in ("sum", "max", "min")
        and f.dtype is f32
        and (f.by is None or (f.by.by is None and f.by in folds))
    )


def dots(k: Kernel, vectors: Vectors) -> Product | None:
    """The dot products that a kernel is, rows of 16 bits or few: a cell keeps some outputs, so that
    what it reads is used again, in half of the registers, the other half for what they share."""
    live = [a for a in k.axes if not is_one(a)]
    nodes = list(walk(*(s.value for s in k.stores)))
    folds = [n for n in nodes if n.op == "fold" and n.free <= frozenset(k.axes)]
    if len(k.stores) > 1 or len(folds) != 1 or len(live) < 2 or not along_memory(folds):
        return None
    rows, columns = live[-2:]
    wide = any(n.op == "cast" and narrow(n) and columns in n.free for n in nodes)
    if not _multiplies(folds[0], rows, columns) or size_of(rows) > (FEW if wide else MOST):
        return None
    height = -(-size_of(rows) // -(-size_of(rows) // MOST))
    groups = next(
        n for n in range(vectors.registers // 2 // height, 0, -1) if size_of(columns) % n == 0
    )
    return Product(rows, columns, tuple(folds), vectors.floats, height, groups, packs=False)


def lies(f: Node, columns: Node) -> bool:
    """Whether what f reads and varies with columns lies along them in memory."""
    reads = [n for n in walk(f.body) if n.op == "load" and columns in n.free]
    return bool(reads) and all(
        n.guard is TRUE
        and n.index[-1].free == {columns}
        and not any(columns in i.free for i in n.index[:-1])
        and dict(to_poly(n.index[-1])).get((columns,)) == 1
        for n in reads
    )


def _multiplies(f: Node, rows: Node, columns: Node) -> bool:
    """Whether a fold is a sum of products of float32 values, each of rows or of columns."""
    if f.monoid != "sum" or f.by is not None or f.dtype is not f32 or not {rows, columns} <= f.free:
        return False
    body = list(walk(f.body))
    reads = [n for n in body if n.op == "load"]
    return not any(n.op in ("fold", "checked") for n in body) and all(
        n.guard is TRUE and not {rows, columns} <= n.free and n.free & frozenset(f.axes)
        for n in reads
    )


def narrow(n: Node) -> bool:
    """Whether n is an element of 16 bits, converted to float32."""
    return (
        n.op == "cast" and n.dtype is f32 and n.args[0].op == "load" and n.args[0].dtype.bytes == 2
    )


def along_memory(folds: list[Node]) -> bool:
    """Whether all that folds read varies by consecutive elements with what they fold, or not."""
    return all(
        n.index[-1:] and not any(a in i.free for i in n.index[:-1] for a in f.axes)
        for f in folds
        for n in walk(f.body)
        if n.op == "load"
    )


def even(count: int, most: int) -> int:
    """How many of count to take at a time, so that the last time is almost as full."""
    if count <= most:
        return count
    return min(range(most, most // 2 - 1, -1), key=lambda n: -(-count // n) * n)


def is_one(a: Node) -> bool:
    return a.extent.op == "const" and bool(a.extent.value == 1)


def size_of(a: Node) -> int:
    return int(a.extent.value) if a.extent.op == "const" else 2**31
