"""Branches, calls, barriers of a block, fences, ends (PTX ISA 9.0, 9.7.12 and 9.7.13)."""

from __future__ import annotations

from rift_compiler.emulator.code import Code
from rift_compiler.emulator.names import Choices, Place, Spot
from rift_compiler.emulator.ptx import Group, Name, Operand


def emit_bra(code: Code) -> None:
    m = code.modifiers()
    m.take("uni")
    m.done()
    code.line(_jump(code, code.operands(1)[0]))


def _jump(code: Code, target: Operand) -> str:
    found = code.symbol(target.text) if isinstance(target, Name) else None
    if not isinstance(found, Spot):
        raise code.error("expected a label")
    # Every loop has a jump backwards: there a thread lets others run, now and then.
    back = f"back_edge(t, {code.here}); " if found.position <= code.at else ""
    return f"{{ {back}goto {found.c}; }}"


def emit_brx(code: Code) -> None:
    m = code.modifiers()
    m.need("idx")
    m.take("uni")
    m.done()
    index, table = code.operands(2)
    found = code.symbol(table.text) if isinstance(table, Name) else None
    if not isinstance(found, Choices):
        raise code.error("expected a list of .branchtargets")
    code.line(f"switch ({code.value(index, 'u32')}) {{")
    for i, label in enumerate(found.labels):
        code.line(f"case {i}: {_jump(code, Name(label))}")
    code.line(f'default: trap(t, {code.here}, "brx.idx: the index is past the last label"); }}')


def emit_call(code: Code) -> None:
    """A call of a function of this file; arguments and results are buffers of the caller."""
    m = code.modifiers()
    m.take("uni")
    m.done()
    operands = list(code.ins.operands)
    results = operands.pop(0) if operands and isinstance(operands[0], Group) else Group(())
    if not operands or not isinstance(operands[0], Name):
        raise code.error("expected a function's name")
    name = operands.pop(0)
    assert isinstance(name, Name)
    assert isinstance(results, Group)
    given = operands.pop(0) if operands else Group(())
    if operands or not isinstance(given, Group):
        raise code.error("indirect calls are not supported")
    buffers = [_buffer(code, each) for each in (*results.items, *given.items)]
    function = code.module.functions.get(name.text)
    if function is None:
        raise code.error(f"{name.text} is not a function of this file (indirect calls are not "
                         "supported)")  # fmt: skip
    if function.body is None:
        return _outside(code, name.text, buffers)
    wanted = [*function.returns, *function.params]
    if [p.size_bytes for p in wanted] != [b.size_bytes for b in buffers]:
        raise code.error(f"{name.text} takes other arguments")
    number = list(code.module.functions).index(name.text)
    code.line(f"f{number}({', '.join(['t', *(b.c for b in buffers)])});")


def _buffer(code: Code, operand: Operand) -> Place:
    found = code.symbol(operand.text) if isinstance(operand, Name) else None
    if not isinstance(found, Place) or found.space != "buffer":
        raise code.error("expected a .param variable as argument")
    return found


def _outside(code: Code, name: str, buffers: list[Place]) -> None:
    """The functions that CUDA's own runtime has on the device."""
    if name == "vprintf" and len(buffers) == 3:
        result, text, args = (b.c for b in buffers)
        return code.line(f"print_text(t, {code.here}, {result}, {text}, {args});")
    if name == "__assertfail":
        return code.line(f'trap(t, {code.here}, "an assertion failed");')
    raise code.error(f"{name} has no body in this file, and the emulator has none for it")


def emit_ret(code: Code) -> None:
    m = code.modifiers()
    m.take("uni")
    m.done()
    code.operands(0)
    code.line("goto leave;")


def emit_exit(code: Code) -> None:
    code.modifiers().done()
    code.operands(0)
    code.line("thread_exit(t);")


def emit_trap(code: Code) -> None:
    code.modifiers().done()
    code.operands(0)
    code.line(f'trap(t, {code.here}, "{"trap" if code.ins.opcode == "trap" else "brkpt"}");')


def emit_nanosleep(code: Code) -> None:
    m = code.modifiers()
    m.last("u32")
    m.done()
    code.value(code.operands(1)[0], "u32")
    code.line(f"yield_now(t, {code.here});")


_KINDS = {"sync": "BAR_SYNC", "arrive": "BAR_ARRIVE"}
_REDUCTIONS = {"popc": "BAR_POPC", "and": "BAR_AND", "or": "BAR_OR"}


def emit_bar(code: Code) -> None:
    """bar and barrier: sync, arrive, red; and bar.warp.sync."""
    m = code.modifiers()
    if m.flag("warp"):
        m.need("sync")
        m.done()
        mask = code.value(code.operands(1)[0], "b32")
        return code.line(f"warp_sync(t, {code.here}, {mask});")
    m.take("cta")
    aligned = m.flag("aligned") or code.ins.opcode == "bar"
    what = m.need("sync", "arrive", "red")
    if what == "red":
        return _reduce(code, aligned)
    m.done()
    operands = code.operands(1, 2)
    call = _bar_call(code, _KINDS[what], operands, "false", aligned)
    code.line(f"{call};")


def _bar_call(
    code: Code, kind: str, operands: tuple[Operand, ...], predicate: str, aligned: bool
) -> str:
    name = code.value(operands[0], "u32")
    count = code.value(operands[1], "u32") if len(operands) > 1 else "0"
    flag = "true" if aligned else "false"
    return f"bar(t, {code.here}, {kind}, {name}, {count}, {predicate}, {flag})"


def _reduce(code: Code, aligned: bool) -> None:
    m = code.modifiers()
    m.take("cta")
    m.take("aligned")
    m.need("red")
    operation = m.need(*_REDUCTIONS)
    m.last("u32" if operation == "popc" else "pred")
    m.done()
    operands = code.operands(3, 4)
    predicate = code.value(operands[-1], "pred")
    call = _bar_call(code, _REDUCTIONS[operation], operands[1:-1], predicate, aligned)
    code.assign(operands[0], call if operation == "popc" else f"{call} != 0")


def emit_fence(code: Code) -> None:
    """membar and fence: what came before is seen before what comes after."""
    m = code.modifiers()
    code.operands(0, 2)
    if m.flag("proxy"):
        kind = m.need("async", "async.global", "alias", "tensormap::generic",
                      "async::generic")  # fmt: skip
        m.drop("global", "shared::cta", "shared::cluster", "acquire", "release", "cta", "cluster",
               "gpu", "sys", "sync_restrict::shared::cta", "sync_restrict::shared::cluster",
               "shared")  # fmt: skip
        m.done()
        code.line("fence_proxy(t);" if kind.startswith("async") else "fence(t);")
        return
    m.drop("mbarrier_init", "sc", "acq_rel", "acquire", "release", "cta", "cluster", "gl", "gpu",
           "sys", "sync_restrict::shared::cta", "sync_restrict::shared::cluster")  # fmt: skip
    m.done()
    code.line("fence(t);")


def emit_nothing(code: Code) -> None:
    """setmaxnreg, griddepcontrol, pmevent: they change no result here.

    A grid runs alone, so what it depends on is complete when it starts.
    """
    m = code.modifiers()
    m.drop("inc", "dec", "sync", "aligned", "u32", "launch_dependents", "wait", "mask")
    m.done()
    code.operands(0, 1)


def emit_cluster_barrier(code: Code) -> None:
    """barrier.cluster: the cluster is one block; arrive and wait are told apart."""
    m = code.modifiers()
    m.need("cluster")
    what = m.need("arrive", "wait")
    m.drop("aligned", "release", "relaxed", "acquire")
    m.done()
    code.operands(0)
    code.line(f"cluster_{what}(t, {code.here});")


def emit_barrier(code: Code) -> None:
    if "cluster" in code.ins.modifiers:
        emit_cluster_barrier(code)
    else:
        emit_bar(code)
