"""mma.sync, ldmatrix, stmatrix (PTX ISA 9.0, 9.7.14), several at a time where they allow it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rift_compiler.emulator.code import Code
from rift_compiler.emulator.modifiers import Modifiers
from rift_compiler.emulator.ptx import Address, Name, Operand, Vector

# As enum Element of runtime/products.cpp: number, bytes.
ELEMENTS = {
    "f16": (0, 2), "bf16": (1, 2), "tf32": (2, 4), "e4m3": (3, 1), "e5m2": (4, 1), "s8": (5, 1),
    "u8": (6, 1),
}  # fmt: skip
# The k that each element type has in an m16n8 shape.
_K = {"f16": (8, 16), "bf16": (8, 16), "tf32": (4, 8), "e4m3": (16, 32), "e5m2": (16, 32),
      "s8": (16, 32), "u8": (16, 32)}  # fmt: skip
_MOST_ITEMS = 32  # instructions done at once


@dataclass
class Batch:
    """Matrix instructions of one kind that wait to be written as one call.

    None of them reads what another writes, so that they can be done in any order. `split` are
    the numbers of leading inputs that are a product's A and B: where an item's are those of an
    earlier one they are passed once.
    """

    key: str
    line: str
    words: int
    split: tuple[int, int] = (0, 0)
    inputs: list[list[str]] = field(default_factory=list)
    outputs: list[list[tuple[int, str]]] = field(default_factory=list)
    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)

    def takes(self, key: str, reads: Iterable[str], writes: Iterable[str]) -> bool:
        return (
            key == self.key
            and len(self.inputs) < _MOST_ITEMS
            and not self.writes & (set(reads) | set(writes))
        )

    def text(self) -> list[str]:
        """C++: operands into an array, the call, results out of it."""
        n, words = len(self.inputs), self.words
        same = [self._first_with_same(i) for i in range(n)]
        values = [
            f"q[{i * words + j}] = {text};"
            for i, item in enumerate(self.inputs)
            for j, text in enumerate(item)
            if not self._held(i, j, same[i])
        ]
        results = [
            f"{name} = q[{i * words + j}];"
            for i, item in enumerate(self.outputs)
            for j, name in item
        ]
        call = self.key.format(line=self.line, n=n)
        table = ", ".join(f"{a}, {b}" for a, b in same)
        return [
            f"{{ u32 q[{n * words}]; static const u8 same[] = {{{table}}}; (void)same;",
            *values, f"{call};", *results, "}",
        ]  # fmt: skip

    def _first_with_same(self, i: int) -> tuple[int, int]:
        """The first items with the A, and with the B, of item i."""
        a, b = self.split
        parts = [(item[:a], item[a : a + b]) for item in self.inputs]
        first = [next(j for j in range(i + 1) if parts[j][k] == parts[i][k]) for k in (0, 1)]
        return (first[0], first[1]) if a else (i, i)

    def _held(self, i: int, j: int, same: tuple[int, int]) -> bool:
        a, b = self.split
        return (j < a and same[0] != i) or (a <= j < a + b and same[1] != i)


def add(
    code: Code, key: str, words: int, inputs: list[str], outputs: list[tuple[int, str]],
    reads: Iterable[str], split: tuple[int, int] = (0, 0),
) -> None:  # fmt: skip
    """Adds an instruction to the batch at hand, or begins another."""
    writes = [name for _, name in outputs]
    reads = list(reads)
    if code.batch is None or not code.batch.takes(key, reads, writes):
        code.flush()
        code.batch = Batch(key, code.here, words, split)
    code.batch.inputs.append(inputs)
    code.batch.outputs.append(outputs)
    code.batch.reads.update(reads)
    code.batch.writes.update(writes)


def _registers(code: Code, operand: Operand, count: int, bits: int = 32) -> list[str]:
    """The C++ names of a vector's registers."""
    items = operand.items if isinstance(operand, Vector) else (operand,)
    if len(items) != count:
        raise code.error(f"expected {count} registers, got {len(items)}")
    found = [code.register(each) for each in items]
    if any(r.bits != bits for r in found):
        raise code.error(f"expected registers of {bits} bits")
    return [r.c for r in found]


def emit_mma(code: Code) -> None:
    m = code.modifiers()
    m.need("sync")
    m.need("aligned")
    shape = m.need("m16n8k4", "m16n8k8", "m16n8k16", "m16n8k32", "m8n8k4")
    m.need("row")
    m.need("col")
    kind = m.take("kind::f8f6f4")
    saturate = m.flag("satfinite")
    c, b, a, d = (m.last(*ELEMENTS, "f32", "s32", "f64") for _ in range(4))
    m.done()
    k = int(shape.partition("k")[2])
    if a == "f64":
        return _emit_mma64(code, m, shape, (d, a, b, c))
    _check_types(m, shape, kind, (d, a, b, c))
    per = 4 // ELEMENTS[a][1]
    counts = k // (2 * per), k // (4 * per), 2 if d == "f16" else 4
    # Two registers of A are eight rows each; k of 4 tf32 has one column of registers.
    operands = code.operands(4)
    results = _registers(code, operands[0], counts[2])
    inputs = [
        name
        for operand, n in zip(operands[1:], counts, strict=True)
        for name in _sources(code, operand, n)
    ]
    number = (
        ELEMENTS[a][0] | ELEMENTS[b][0] << 4 | (d == "f16") << 8 | _k_code(k) << 9 | saturate << 12
    )
    first = counts[0] + counts[1]
    outputs = [(first + i, name) for i, name in enumerate(results)]
    key = f"mma(t, {{line}}, {number}, q, {{n}}, same)"
    add(code, key, sum(counts), inputs, outputs, inputs, counts[:2])


def _sources(code: Code, operand: Operand, count: int) -> list[str]:
    items = operand.items if isinstance(operand, Vector) else (operand,)
    if len(items) != count:
        raise code.error(f"expected {count} registers, got {len(items)}")
    return [
        code.register(each).c if isinstance(each, Name) else code.value(each, "b32")
        for each in items
    ]


def _k_code(k: int) -> int:
    """As shape_of of runtime/matrices.cpp reads it."""
    return {4: 1, 8: 2, 16: 3, 32: 4}[k]


def _check_types(m: Modifiers, shape: str, kind: str | None, types: tuple[str, ...]) -> None:
    d, a, b, c = types
    k = int(shape.partition("k")[2])
    integer = a in ("s8", "u8")
    fp8 = a in ("e4m3", "e5m2")
    same = b == a or (integer and b in ("s8", "u8")) or (fp8 and b in ("e4m3", "e5m2"))
    sums = ("s32",) if integer else ("f32", "f16") if fp8 or a == "f16" else ("f32",)
    if shape == "m8n8k4" or k not in _K.get(a, ()) or not same or d not in sums or c != d:
        raise m.error("this shape with these types is not supported")
    if kind and not fp8:
        raise m.error(f".{kind} is supported for e4m3 and e5m2 only")


def _emit_mma64(code: Code, m: Modifiers, shape: str, types: tuple[str, ...]) -> None:
    if types != ("f64",) * 4 or shape == "m16n8k32":
        raise m.error("this shape with these types is not supported")
    rows, k = int(shape[1 : shape.index("n")]), int(shape.partition("k")[2])
    counts = rows // 8 * (k // 4), k // 4, rows // 4
    operands = code.operands(4)
    values = [
        f"{code.value(each, 'b64')}"
        for operand, n in zip(operands[1:], counts, strict=True)
        for each in _exactly(code, operand, n)
    ]
    code.flush()
    code.line(f"{{ u64 q[{sum(counts)}] = {{{', '.join(values)}}};")
    code.line(f"mma64(t, {code.here}, {rows}, {k}, q);")
    for i, each in enumerate(_exactly(code, operands[0], counts[2])):
        code.assign(each, f"q[{counts[0] + counts[1] + i}]", bits=64)
    code.line("}")


def _exactly(code: Code, operand: Operand, count: int) -> tuple[Operand, ...]:
    items = code.items(operand)
    if len(items) != count:
        raise code.error(f"expected {count} registers, got {len(items)}")
    return items


def _matrix_modifiers(m: Modifiers) -> tuple[int, bool, bool]:
    """(matrices, transposed, generic address)."""
    m.need("sync")
    m.need("aligned")
    m.need("m8n8")
    count = int(m.need("x1", "x2", "x4")[1:])
    transposed = m.flag("trans")
    generic = m.take("shared", "shared::cta") is None
    m.last("b16")
    m.done()
    return count, transposed, generic


def _address(code: Code, operand: Operand, generic: bool) -> str:
    address = code.address(operand)
    return f"(u32)({address}{' - SHARED_WINDOW' if generic else ''})"


def emit_ldmatrix(code: Code) -> None:
    count, transposed, generic = _matrix_modifiers(code.modifiers())
    operands = code.operands(2)
    results = _registers(code, operands[0], count)
    base = operands[1].base if isinstance(operands[1], Address) else None
    reads = (
        [code.register(base).c] if isinstance(base, Name) and not code.place(operands[1]) else []
    )
    flag = "true" if transposed else "false"
    outputs = [(1 + i, name) for i, name in enumerate(results)]
    key = f"ldmatrix(t, {{line}}, q, {{n}}, {count}, {flag})"
    add(code, key, 5, [_address(code, operands[1], generic)], outputs, reads)


def emit_stmatrix(code: Code) -> None:
    count, transposed, generic = _matrix_modifiers(code.modifiers())
    operands = code.operands(2)
    values = _sources(code, operands[1], count)
    code.flush()
    q = ", ".join([_address(code, operands[0], generic), *values])
    flag = "true" if transposed else "false"
    code.line(f"{{ u32 q[] = {{{q}}}; stmatrix(t, {code.here}, q, {count}, {flag}); }}")


def emit_movmatrix(code: Code) -> None:
    m = code.modifiers()
    for name in ("sync", "aligned", "m8n8", "trans"):
        m.need(name)
    m.last("b16")
    m.done()
    to, value = code.operands(2)
    code.assign(to, f"movmatrix(t, {code.here}, {code.value(value, 'b32')})", bits=32)
