"""A kernel's PTX as one C++ source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rift.errors import WrongUsage
from rift_compiler.emulator.code import Code
from rift_compiler.emulator.emit_wgmma import accumulators
from rift_compiler.emulator.instructions import batched, emit, may_pass
from rift_compiler.emulator.layout import Layout, align, lay_out, reachable
from rift_compiler.emulator.names import Choices, Place, Register, Scope, Spot
from rift_compiler.emulator.ptx import (
    Close,
    Function,
    Instruction,
    Label,
    Module,
    Open,
    Registers,
    Statement,
    Targets,
    Variable,
)
from rift_compiler.emulator.types import TYPES, register_c

_STACK_BYTES = 128 * 1024  # of a fibre, for what it calls in the runtime
_ARRAY_BYTES = 1024  # at most what an instruction on matrices passes through memory
_MATRIX = ("mma", "ldmatrix", "stmatrix", "wgmma")
_ENDS = ("bra", "brx", "ret", "exit", "trap")


@dataclass(frozen=True)
class Translated:
    """`blocks` are the instructions of each basic block, which `counts` of a launch counts.

    `proxies`: whether any is done by the asynchronous proxy. `stack_bytes` is more than a thread's
    C++ can take, on a machine that keeps every register in memory.
    """

    source: str
    layout: Layout
    local_bytes: int
    blocks: tuple[tuple[Instruction, ...], ...]
    proxies: bool
    stack_bytes: int


def entry_of(module: Module, name: str | None) -> Function:
    """The entry of this name, or the only one. Raises WrongUsage when there is none such."""
    entries = [f for f in module.functions.values() if f.entry and f.body is not None]
    names = ", ".join(f.name for f in entries) or "none"
    if name is None:
        if len(entries) != 1:
            raise WrongUsage(f"expected --entry NAME: the file has {len(entries)} ({names})")
        return entries[0]
    for each in entries:
        if each.name == name:
            return each
    raise WrongUsage(f"no entry {name!r} in the PTX; it has: {names}")


def translate(module: Module, entry: Function) -> Translated:
    """The C++ of a kernel and of the functions it calls.

    Raises WrongUsage with line and text for anything that is not understood.
    """
    functions = reachable(module, entry)
    layout = lay_out(module, entry, functions)
    blocks: list[tuple[Instruction, ...]] = []
    parts, local, stack = [], 0, _STACK_BYTES
    for function in functions:
        if function.body is not None:
            writer = _Writer(module, function, layout, blocks)
            parts.append(writer.text())
            local += align(writer.frame_bytes, 16)
            stack += writer.stack_bytes
    number = list(module.functions).index(entry.name)
    parts.append(
        'extern "C" __attribute__((visibility("default"))) int rift_launch(Launch* l) '
        f"{{ return launch_kernel(l, f{number}); }}\n"
    )
    proxies = any(_by_proxy(ins) for block in blocks for ins in block)
    return Translated("\n".join(parts), layout, local, tuple(blocks), proxies, align(stack, 4096))


def _by_proxy(ins: Instruction) -> bool:
    """Whether the asynchronous proxy does it: a bulk copy or wgmma."""
    return ins.opcode == "wgmma" or (ins.opcode == "cp" and "bulk" in ins.modifiers)


class _Writer:
    """Writes one function: first what its names mean, then its statements."""

    def __init__(
        self,
        module: Module,
        function: Function,
        layout: Layout,
        blocks: list[tuple[Instruction, ...]],
    ) -> None:
        self.frame_bytes = self.stack_bytes = 0
        self._function = function
        self._layout = layout
        self._blocks = blocks
        self._block: list[Instruction] = []
        self._declared: list[str] = []
        self._number = list(module.functions).index(function.name)
        self._code = Code(module, function.entry)
        self._registers = self._labels = self._buffers = 0
        top = Scope()
        for name, address in layout.globals.items():
            top.add(name, Place("global", f"{address}ull", 0))
        for (owner, name), address in layout.shared.items():
            if owner == "":
                top.add(name, Place("shared", f"{address}u", 0))
        self._parameters = self._params(top)
        self._scopes = list(self._collect(top))
        self._code.scope = self._scopes.pop(0)

    def _params(self, top: Scope) -> list[str]:
        """Declares the parameters; of a device function they are buffers of its caller."""
        found = ["Thread* t"]
        if self._function.entry:
            for name, (offset, size) in self._layout.params.items():
                top.add(name, Place("param", f"{offset}ull", size))
            return found
        for v in (*self._function.returns, *self._function.params):
            c = f"a{len(found)}"
            found.append(f"u8* {c}")
            top.add(v.name, Place("buffer", c, v.size_bytes))
        return found

    def _collect(self, top: Scope) -> Iterator[Scope]:
        """All scopes in the order in which they open, with their names."""
        opened = [Scope(top)]
        order = [opened[0]]
        placed: list[tuple[Scope, Instruction]] = []
        for position, each in enumerate(self._function.body or ()):
            if isinstance(each, Open):
                opened.append(Scope(opened[-1]))
                order.append(opened[-1])
            elif isinstance(each, Close):
                opened.pop()
            elif isinstance(each, Instruction):
                placed.append((opened[-1], each))
            else:
                self._name(opened[-1], each, position)
        self._code.accumulators = accumulators(placed)
        return iter(order)

    def _name(self, scope: Scope, each: Statement, position: int) -> None:
        if isinstance(each, Registers):
            self._name_registers(scope, each)
        elif isinstance(each, Label):
            scope.add(each.name, Spot(f"L{self._labels}", position))
            self._labels += 1
        elif isinstance(each, Targets):
            scope.add(each.name, Choices(each.labels))
        elif isinstance(each, Variable):
            scope.add(each.name, self._place(each))

    def _name_registers(self, scope: Scope, each: Registers) -> None:
        count = 1 if each.count is None else each.count
        if not 0 <= count <= 1_000_000:
            raise WrongUsage(f"PTX line {each.line}: {count} registers are too many")
        bits = max(TYPES[each.type].bits, 1)
        first = self._registers
        self._registers += count
        self.stack_bytes += count * max(8, bits // 8)
        if each.count is None:
            scope.add(each.name, Register(f"r{first}", bits))
        else:
            scope.add_range(each.name, count, first, bits)
        c = register_c(bits)
        self._declared += [f"{c} r{i} = 0;" for i in range(first, first + count)]

    def _place(self, v: Variable) -> Place:
        if v.space == "shared":
            return Place("shared", f"{self._layout.shared[self._function.name, v.name]}u", 0)
        if v.space == "local":
            at = align(self.frame_bytes, v.align_bytes)
            self.frame_bytes = at + v.size_bytes
            return Place("local", f"(u64)(frame + {at})", v.size_bytes)
        if v.space == "param":
            c = f"b{self._buffers}"
            self._buffers += 1
            self.stack_bytes += v.size_bytes + 16
            self._declared.append(f"alignas(16) u8 {c}[{max(v.size_bytes, 1)}];")
            return Place("buffer", c, v.size_bytes)
        raise WrongUsage(f"PTX line {v.line}: a .{v.space} variable inside a function")

    def text(self) -> str:
        code = self._code
        stack = [code.scope]
        self._begin_block()
        for position, each in enumerate(self._function.body or ()):
            code.at = position
            if isinstance(each, Open):
                stack.append(self._scopes.pop(0))
            elif isinstance(each, Close):
                stack.pop()
            elif isinstance(each, Label):
                self._end_block()
                spot = stack[-1].find(each.name)
                assert isinstance(spot, Spot)
                code.line(f"{spot.c}:;")
                self._begin_block()
            elif isinstance(each, Instruction):
                code.scope = stack[-1]
                self._instruction(each)
            code.scope = stack[-1]
        self._end_block()
        return self._assemble()

    def _begin_block(self) -> None:
        self._code.line(f"if (CHECKED) M.counts[{len(self._blocks)}]++;")

    def _end_block(self) -> None:
        self._code.flush()
        self._blocks.append(tuple(self._block))
        self._block = []

    def _instruction(self, ins: Instruction) -> None:
        code = self._code
        code.ins = ins
        self._block.append(ins)
        self.stack_bytes += _ARRAY_BYTES * (ins.opcode in _MATRIX)
        if ins.guard is None:
            if not batched(ins) and not may_pass(code):
                code.flush()
            emit(code)
        else:
            code.flush()
            code.line(f"if ({code.value(ins.guard, 'pred')}) {{")
            emit(code)
            code.flush()
            code.line("}")
        if ins.opcode in _ENDS:
            self._end_block()
            self._begin_block()

    def _assemble(self) -> str:
        head = f"static void f{self._number}({', '.join(self._parameters)}) {{"
        frame = [f"const u32 frame = (t->local_top + 15) & ~15u, held = t->local_top; "
                 f"t->local_top = frame + {self.frame_bytes};"]  # fmt: skip
        declared = ["bool cc = false;", *self._declared]
        tail = ["leave:;", "t->local_top = held; (void)cc;", "}", ""]
        return "\n".join([head, *frame, *declared, *self._code.lines, *tail])
