"""Pass: choose a CPU schedule for a kernel: what threads share, and what vector lanes do.

no fold            the last axis in lanes
product            lanes along columns; a tile of results in registers, tiles of those in caches
folds that follow  rows and columns as in a product, the folded axis a block at a time (attention)
fold of rows       a row a grid cell; lanes share its folds, then its elements
dot products       lanes share each fold along memory; a cell keeps some outputs at once
other folds        plain loops, the outer ones shared by threads

The figures are of AVX2 with 32 KiB and 512 KiB of cache a core; how fast they are elsewhere is for
measurements to say.
"""

from __future__ import annotations

from dataclasses import dataclass

from rift_compiler.dtypes import f32
from rift_compiler.expr import TRUE, Node, walk
from rift_compiler.loop_ir import Kernel
from rift_compiler.schedule import Part, Schedule

LANES = (32, 16, 8)  # of a thread loop: one to four vectors of float32 each hide latencies
ROWS = 16  # of a product from which packing the other operand pays
COLUMNS = 16  # lanes of a product: with HEIGHT rows, 12 of the 16 vector registers of AVX2
HEIGHT = 6
TILE_ROWS = 96  # of a tile: it and what it reads stay in the second cache
TILE_COLUMNS = 8  # groups of lanes
LONGEST = 320  # of a fold's tile: a group of columns x it stays in the first cache
BLOCK = 64  # positions that folds which follow one another take at once
GROUPS = 4  # of HEIGHT rows that read a block while it is near
KEPT_COLUMNS = 256  # of a fold that is kept in blocks
KEPT = 8  # outputs that a cell of dot products keeps: registers for them and for what they share
MOST = 8  # of them along the rows
ROW_BYTES = 64 * 1024  # of a row that is kept, where computing it again is dear
RUN = 64  # lane groups that one grid cell of a one-dimensional kernel does


def schedule(k: Kernel, plain: Schedule) -> Schedule:
    """A CPU schedule; plain is the one that costs least without lanes."""
    nodes = list(walk(*(s.value for s in k.stores)))
    scanned = {n.axes[0] for n in nodes if n.op == "scan"}
    mine = frozenset(k.axes)
    folds = [n for n in nodes if n.op == "fold" and n.free <= mine]
    live = [a for a in k.axes if not _is_one(a)]
    if scanned or not live or len(k.stores) > 1:
        return _grid(k, plain, scanned)
    if product(k):
        return _product(k)
    if blocks(k):
        return block_schedule(k)
    lanes = _lanes(live[-1])
    if not folds:
        return _map(k, live, lanes) if lanes else _grid(k, plain, scanned)
    if live[-1] not in frozenset[Node]().union(*(f.free for f in folds)):
        return _rows(k, folds, live)
    if _along_memory(folds) and all(f.free >= frozenset(live) for f in folds):
        return _dots(k, folds, live)
    return _grid(k, plain, scanned)


@dataclass(frozen=True)
class Product:
    """Sums of products of what varies with rows and what varies with columns."""

    rows: Node
    columns: Node
    folds: tuple[Node, ...]
    lanes: int
    groups: int  # of lanes, in a tile
    inner: bool = False  # whether it is inside folds that are taken in blocks


def product(k: Kernel) -> Product | None:
    """The product that a kernel is, if enough rows share what varies with columns."""
    live = [a for a in k.axes if not _is_one(a)]
    if len(live) < 2 or len(k.stores) > 1 or _size(live[-2]) < ROWS or _size(live[-1]) < COLUMNS:
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
    groups = _even(-(-_size(columns) // COLUMNS), TILE_COLUMNS)
    return Product(rows, columns, folds, COLUMNS, groups)


def _even(count: int, most: int) -> int:
    """How many of count to take at a time, so that the last time is almost as full."""
    if count <= most:
        return count
    return min(range(most, most // 2 - 1, -1), key=lambda n: -(-count // n) * n)


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


def _product(k: Kernel) -> Schedule:
    """Tiles of rows x columns; HEIGHT x COLUMNS results in registers at a time."""
    found = product(k)
    assert found is not None
    height = max(HEIGHT // len(found.folds), 1)
    high = _even(-(-_size(found.rows) // height), TILE_ROWS // height)
    parts = {
        found.rows: (Part("grid"), Part("tile", high), Part("array", height)),
        found.columns: (Part("grid"), Part("tile", found.groups), Part("thread", found.lanes)),
    }
    outputs = tuple(parts.get(a, (Part("grid"),)) for a in k.axes)
    longest = _size(found.folds[0].axes[-1])
    tiles = [n for n in range(LONGEST, LONGEST // 3, -1) if longest % n == 0]
    tile = tiles[0] if longest > LONGEST and tiles and len(found.folds[0].axes) == 1 else 0
    return Schedule(outputs, fold_tile=tile, clamp=True)


def blocks(k: Kernel) -> Product | None:
    """The folds of a kernel that follow one another, where one varies with columns and all with
    rows, and terms are products in turn (attention)."""
    live = [a for a in k.axes if not _is_one(a)]
    if len(live) < 2 or len(k.stores) > 1:
        return None
    rows, columns = live[-2:]
    nodes = list(walk(k.stores[0].value))
    folds = [n for n in nodes if n.op == "fold" and n.free <= frozenset(k.axes)]
    wide = [f for f in folds if columns in f.free]
    if any(n.op == "scan" for n in nodes) or not wide or _size(columns) % COLUMNS:
        return None
    if not 2 * COLUMNS <= _size(columns) <= KEPT_COLUMNS or _size(rows) < ROWS:
        return None
    if not all(_in_blocks(f, folds, rows) for f in folds) or all(f.by is None for f in folds):
        return None
    dots = [n for f in folds for n in walk(f.body) if n.op == "fold" and n not in folds]
    groups = _even(-(-_size(folds[0].axes[0]) // COLUMNS), BLOCK // COLUMNS)
    return Product(rows, columns, tuple(dict.fromkeys(dots)), COLUMNS, groups, True)


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


def block_schedule(k: Kernel) -> Schedule:
    """The schedule of a kernel for which blocks() is one."""
    found = blocks(k)
    assert found is not None
    groups = _even(-(-_size(found.rows) // HEIGHT), GROUPS)
    parts = {
        found.rows: (Part("grid"), Part("tile", groups), Part("array", HEIGHT)),
        found.columns: (
            Part("tile", _size(found.columns) // found.lanes),
            Part("thread", found.lanes),
        ),
    }
    outputs = tuple(parts.get(a, (Part("grid"),)) for a in k.axes)
    return Schedule(outputs, block=found.groups * found.lanes, clamp=True)


def _is_one(a: Node) -> bool:
    return a.extent.op == "const" and bool(a.extent.value == 1)


def _size(a: Node) -> int:
    return int(a.extent.value) if a.extent.op == "const" else 2**31


def _lanes(a: Node) -> int:
    """How many lanes run an axis: what divides it if anything does; 0 where it is too short."""
    if a.extent.op != "const":
        return LANES[-1]
    fits = [n for n in LANES if n <= a.extent.value]
    return next((n for n in fits if a.extent.value % n == 0), fits[-1] if fits else 0)


def _grid(k: Kernel, plain: Schedule, scanned: set[Node]) -> Schedule:
    """The plain loops, outer ones shared by threads."""
    parts: list[tuple[Part, ...]] = []
    for n, a in enumerate(k.axes):
        own = plain.outputs[n] if n < len(plain.outputs) else (Part("seq"),)
        last = n == len(k.axes) - 1 and n > 0
        shared = own == (Part("seq"),) and a not in scanned and not last
        parts.append((Part("grid"),) if shared else own)
    return Schedule(tuple(parts))


def _map(k: Kernel, live: list[Node], lanes: int) -> Schedule:
    parts: list[tuple[Part, ...]] = [(Part("grid"),) for _ in k.axes]
    inner = (Part("thread", lanes),)
    last = k.axes.index(live[-1])
    alone = len(live) == 1
    parts[last] = (Part("grid"), Part("seq", RUN), *inner) if alone else (Part("seq"), *inner)
    return Schedule(tuple(parts))


def _rows(k: Kernel, folds: list[Node], live: list[Node]) -> Schedule:
    """A cell for each of what folds vary with; its lanes share folds and other elements."""
    varies = frozenset[Node]().union(*(f.free for f in folds))
    lanes = min(_lanes(a) or LANES[-1] for a in (live[-1], *(f.axes[-1] for f in folds)))
    rest = [a for a in live if a not in varies]
    parts: list[tuple[Part, ...]] = []
    for a in k.axes:
        if a is rest[-1]:
            parts.append((Part("seq"), Part("thread", lanes)))
        else:
            parts.append((Part("grid") if a in varies or _is_one(a) else Part("seq"),))
    return Schedule(tuple(parts), threads=lanes, shared=ROW_BYTES)


def _dots(k: Kernel, folds: list[Node], live: list[Node]) -> Schedule:
    """Lanes share each fold; a cell keeps KEPT outputs, so that what it reads is used again."""
    kept, parts = KEPT, dict[Node, tuple[Part, ...]]()
    plain = len(folds) == 1 and folds[0].by is None and folds[0].monoid in ("sum", "max", "min")
    for a in live[-2:] if plain else []:
        most = min(kept, MOST if a is not live[-1] else kept)
        size = next(n for n in range(most, 0, -1) if _size(a) % n == 0)
        if size > 1:
            parts[a] = Part("grid"), Part("array", size)
        kept //= size
    lanes = min(_lanes(f.axes[-1]) or LANES[-1] for f in folds)
    lanes = max(min(lanes, LANES[0] * kept // KEPT), LANES[-1])
    return Schedule(tuple(parts.get(a, (Part("grid"),)) for a in k.axes), threads=lanes)


def _along_memory(folds: list[Node]) -> bool:
    """Whether all that folds read varies by consecutive elements with what they fold, or not."""
    return all(
        n.index[-1:] and not any(a in i.free for i in n.index[:-1] for a in f.axes)
        for f in folds
        for n in walk(f.body)
        if n.op == "load"
    )
