"""Pass: choose a CPU schedule for a kernel: what threads share, and what vector lanes do.

no fold            the last axis in lanes
product            lanes along columns; a tile of results in registers, tiles of those in caches
folds that follow  rows and columns as in a product, the folded axis a block at a time (attention)
fold of rows       a row a grid cell; lanes share its folds, then its elements
dot products       lanes share each fold along memory; a cell keeps some outputs at once
sums of columns    lanes along the last axis, each with a sum of its own
other folds        plain loops, the outer ones shared by threads

The figures are of AVX2 with 32 KiB and 512 KiB of cache a core, and of AVX-512 with 48 KiB and
2 MiB; how fast they are elsewhere is for measurements to say.
"""

from __future__ import annotations

from rift_compiler.dtypes import f32
from rift_compiler.expr import Node, walk
from rift_compiler.loop_ir import Kernel
from rift_compiler.products import (
    Product,
    along_memory,
    blocks,
    dots,
    even,
    is_one,
    lies,
    product,
    size_of,
)
from rift_compiler.schedule import Part, Schedule
from rift_compiler.targets import Vectors

LANES = (32, 16, 8)  # of a thread loop: one to four vectors of float32 each hide latencies
TILE_ROWS = 6  # of a tile, for each vector register: it and what it reads stay in the second cache
NEAR = 20 * 1024  # bytes of a group of columns x a fold's tile: it stays in the first cache
FAR = 200 * 1024  # of one that streams from the second, where 24 registers of results hide that
GROUPS = 4  # of HEIGHT rows that read a block while it is near
ROW_BYTES = 64 * 1024  # of a row that is kept, where computing it again is dear
RUN = 64  # lane groups that one grid cell of a one-dimensional kernel does


def schedule(k: Kernel, plain: Schedule, vectors: Vectors) -> Schedule:
    """A CPU schedule; plain is the one that costs least without lanes."""
    nodes = list(walk(*(s.value for s in k.stores)))
    scanned = {n.axes[0] for n in nodes if n.op == "scan"}
    mine = frozenset(k.axes)
    folds = [n for n in nodes if n.op == "fold" and n.free <= mine]
    live = [a for a in k.axes if not is_one(a)]
    if scanned or not live or len(k.stores) > 1:
        return _grid(k, plain, scanned)
    found = product(k, vectors)
    if found:
        return _product(k, found, vectors)
    found = blocks(k, vectors)
    if found:
        return block_schedule(k, found)
    lanes = _lanes(live[-1])
    if not folds:
        return _map(k, live, lanes) if lanes else _grid(k, plain, scanned)
    if all(f.monoid == "sum" and f.dtype is f32 and lies(f, live[-1]) for f in folds):
        return _columns(k, live[-1], vectors)
    if live[-1] not in frozenset[Node]().union(*(f.free for f in folds)):
        return _rows(k, folds, live)
    if along_memory(folds) and all(f.free >= frozenset(live) for f in folds):
        return _dots(k, folds, dots(k, vectors), live, vectors)
    return _grid(k, plain, scanned)


def _product(k: Kernel, found: Product, vectors: Vectors) -> Schedule:
    """Tiles of rows x columns; height x lanes results of each fold in registers at a time."""
    most = TILE_ROWS * vectors.registers // found.height
    high = even(-(-size_of(found.rows) // found.height), most)
    parts = {
        found.rows: (Part("grid"), Part("tile", high), Part("array", found.height)),
        found.columns: (Part("grid"), Part("tile", found.groups), Part("thread", found.lanes)),
    }
    outputs = tuple(parts.get(a, (Part("grid"),)) for a in k.axes)
    size = size_of(found.folds[0].axes[-1])
    longest = (NEAR if vectors.registers < 32 else FAR) // (4 * found.lanes * len(found.folds))
    tiles = [n for n in range(longest, longest // 3, -1) if size % n == 0]
    tile = tiles[0] if size > longest and tiles and len(found.folds[0].axes) == 1 else 0
    return Schedule(outputs, fold_tile=tile, clamp=True)


def block_schedule(k: Kernel, found: Product) -> Schedule:
    """The schedule of a kernel whose blocks() are found."""
    groups = even(-(-size_of(found.rows) // found.height), GROUPS)
    parts = {
        found.rows: (Part("grid"), Part("tile", groups), Part("array", found.height)),
        found.columns: (
            Part("tile", size_of(found.columns) // found.lanes),
            Part("thread", found.lanes),
        ),
    }
    outputs = tuple(parts.get(a, (Part("grid"),)) for a in k.axes)
    return Schedule(outputs, block=found.groups * found.lanes, clamp=True)


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
            parts.append((Part("grid") if a in varies or is_one(a) else Part("seq"),))
    return Schedule(tuple(parts), threads=lanes, shared=ROW_BYTES)


def _columns(k: Kernel, columns: Node, vectors: Vectors) -> Schedule:
    """Lanes along the last axis, a sum in each; as many as half of the registers hold."""
    most = vectors.floats * vectors.registers // 4
    lanes = next((n for n in (most, most // 2, most // 4) if size_of(columns) % n == 0), 0)
    lanes = lanes or _lanes(columns) or LANES[-1]
    parts = {columns: (Part("grid"), Part("thread", lanes))}
    return Schedule(tuple(parts.get(a, (Part("grid"),)) for a in k.axes))


def _dots(
    k: Kernel, folds: list[Node], found: Product | None, live: list[Node], vectors: Vectors
) -> Schedule:
    """Lanes share each fold."""
    kept, parts = vectors.registers // 2, dict[Node, tuple[Part, ...]]()
    if found:
        tiles = -(-size_of(found.rows) // found.height)
        grid = Part("grid") if tiles == 1 else Part("tile", tiles)
        parts[found.rows] = grid, Part("array", found.height)
        parts[found.columns] = Part("grid"), Part("array", found.groups)
        kept //= found.height * found.groups
    elif len(folds) == 1 and folds[0].by is None and folds[0].monoid in ("sum", "max", "min"):
        size = next(n for n in range(kept, 0, -1) if size_of(live[-1]) % n == 0)
        parts[live[-1]] = Part("grid"), Part("array", size)
        kept //= size
    lanes = min(_lanes(f.axes[-1]) or LANES[-1] for f in folds)
    lanes = max(min(lanes, vectors.floats * kept), LANES[-1])
    outputs = tuple(parts.get(a, (Part("grid"),)) for a in k.axes)
    return Schedule(outputs, threads=lanes, clamp=found is not None)
