"""Torch IR to Tensor IR: each node by its entry in LOWERINGS, every argument bound by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export.graph_signature import InputKind, OutputKind

from rift_compiler.errors import Unsupported
from rift_compiler.frontend.builder import Builder, Tensor, dtype_of
from rift_compiler.frontend.names import free
from rift_compiler.frontend.registry import LOWERINGS
from rift_compiler.frontend.sizes import no_new_conditions
from rift_compiler.frontend.trace import TorchProgram, source_of
from rift_compiler.tensor_ir import Buffer, Def, Dim, TensorProgram, loads, verify


@dataclass(frozen=True)
class Lowered:
    """A Tensor IR program, the tensors that are bound to inputs which are not the user's, and
    what each output is: a tensor's buffer, the expression of a size, or a plain value."""

    program: TensorProgram
    bound: Mapping[str, torch.Tensor]
    user_inputs: tuple[str | None, ...]  # None: a number, fixed when compiled
    fixed: tuple[Any, ...]  # what each fixed input was
    outputs: tuple[Any, ...]


def lower(p: TorchProgram) -> Lowered:
    """Lower a program. Raises Unsupported with op, argument and the model's line."""
    builder = Builder(dict(p.symbols))
    values: dict[str, Any] = {}
    signature = p.exported.graph_signature
    inputs, bound, users, fixed = _inputs(p, builder, values)
    outputs: tuple[Any, ...] = ()
    with no_new_conditions(p.exported):
        for node in p.exported.graph.nodes:
            if node.op == "call_function":
                values[node.name] = _call(builder, node, values)
            elif node.op == "output":
                outputs = tuple(_value(builder, a, values) for a in node.args[0])
    for spec in signature.output_specs:
        if spec.kind is not OutputKind.USER_OUTPUT:
            raise Unsupported(f"a model that changes {spec.target or spec.arg} ({spec.kind.name})")
    outputs, names = _outputs(builder, outputs, {b.name for b in inputs})
    dims = tuple(Dim(name, low, high) for name, (low, high) in p.dims.items())
    program = TensorProgram(dims, tuple(inputs), _live(builder.defs, names), tuple(names))
    return Lowered(verify(program), bound, tuple(users), tuple(fixed), outputs)


def _live(defs: Sequence[Def], outputs: Sequence[str]) -> tuple[Def, ...]:
    """The definitions that outputs need, such as not the indices of a pooling nobody asks for."""
    needed = set(outputs)
    live: list[Def] = []
    for d in reversed(defs):
        if d.buffer.name in needed:
            live.append(d)
            needed |= {n.name for n in loads(d.value)}
    return tuple(reversed(live))


def _inputs(p: TorchProgram, builder: Builder, values: dict[str, Any]) -> Any:
    inputs: list[Buffer] = []
    bound: dict[str, torch.Tensor] = {}
    users: list[str | None] = []
    fixed: list[Any] = []
    placeholders = {n.name: n for n in p.exported.graph.nodes if n.op == "placeholder"}
    for spec in p.exported.graph_signature.input_specs:
        name = spec.arg.name
        fake = placeholders[name].meta.get("val")
        user = spec.kind is InputKind.USER_INPUT
        if not isinstance(fake, torch.Tensor):
            users.append(None)
            fixed.append(fake)
            values[name] = fake
            continue
        shape = tuple(builder.size(s) for s in fake.shape)
        try:
            dtype = dtype_of(fake.dtype)
        except Unsupported:
            raise Unsupported(f"input {name} of type {fake.dtype}") from None
        buffer = Buffer(free(name, {*p.dims, *(b.name for b in inputs)}), dtype, shape)
        inputs.append(buffer)
        values[name] = Tensor(buffer, fake)
        if user:
            users.append(buffer.name)
            fixed.append(None)
        else:
            bound[buffer.name] = _held(p, spec)
    return inputs, bound, users, fixed


def _held(p: TorchProgram, spec: Any) -> torch.Tensor:
    """A parameter, buffer or constant of the module."""
    for place in (p.exported.state_dict, p.exported.constants):
        if spec.target in place and isinstance(place[spec.target], torch.Tensor):
            held: torch.Tensor = place[spec.target]
            return held.detach()
    raise Unsupported(f"input {spec.arg.name} of kind {spec.kind.name}")


def _call(builder: Builder, node: torch.fx.Node, values: Mapping[str, Any]) -> Any:
    target = node.target
    name = str(target)
    builder.source = f"{name} {source_of(node)}"
    if getattr(target, "__module__", "") in ("_operator", "math") or target in _SIZE_ARITHMETIC:
        return _arithmetic(builder, node, values)
    lowering = LOWERINGS.get(name)
    if lowering is None:
        reasons = [why for tag, why in _REASONS.items() if tag in getattr(target, "tags", ())]
        whole = str(node.meta.get("original_aten") or name)  # what torch took apart, if it did
        what = name if whole == name else f"{whole} (its {name})"
        raise Unsupported(": ".join([what, *reasons]), source_of(node))
    schema = target._schema  # type: ignore[union-attr]
    given = dict(zip((a.name for a in schema.arguments), node.args, strict=False)) | node.kwargs
    bound = {
        "x" if a.name == "self" else a.name: _value(builder, given[a.name], values)
        if a.name in given
        else a.default_value
        for a in schema.arguments
    }
    value = node.meta.get("val")
    builder.results = tuple(value) if isinstance(value, list | tuple) else (value,)
    for fake in builder.results:
        if isinstance(fake, torch.Tensor):
            try:
                dtype_of(fake.dtype)
            except Unsupported:
                what = f"{name} with result type {fake.dtype}"
                raise Unsupported(what, source_of(node)) from None
    return lowering(builder, **bound)


_REASONS = {
    torch.Tag.data_dependent_output: "a Python number made of a tensor's data",
    torch.Tag.dynamic_output_shape: "the size of its result depends on the data",
    torch.Tag.nondeterministic_seeded: "random numbers",
}
_SIZE_ARITHMETIC: set[Any] = {
    *(torch.sym_max, torch.sym_min, torch.sym_not, torch.sym_ite, torch.sym_float, torch.sym_int),
    torch.ops.aten.sym_size.int,
}


def _arithmetic(builder: Builder, node: torch.fx.Node, values: Mapping[str, Any]) -> Any:
    """getitem of a tuple, or arithmetic on sizes (whose result torch already knows)."""
    if getattr(node.target, "__name__", "") == "getitem":
        whole = _value(builder, node.args[0], values)
        return whole[node.args[1]]
    return node.meta["val"]


def _value(builder: Builder, a: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(a, torch.fx.Node):
        return values[a.name]
    if isinstance(a, list | tuple):
        return [_value(builder, x, values) for x in a]
    return a


def _outputs(
    builder: Builder, outputs: tuple[Any, ...], inputs: set[str]
) -> tuple[tuple[Any, ...], list[str]]:
    """Outputs and their tensors' names. One that is an input or comes out twice is copied."""
    names: list[str] = []
    final: list[Any] = []
    for out in outputs:
        if isinstance(out, Tensor):
            if out.buffer.name in inputs or out.buffer.name in names:
                builder.source = "output"
                copied = out
                out = builder.define(out.dtype, out.shape, lambda *i, t=copied: t.at(*i), out.fake)
            names.append(out.buffer.name)
        elif isinstance(out, torch.SymInt):
            out = builder.size(out)
        elif isinstance(out, torch.SymFloat | torch.SymBool):
            raise Unsupported(f"an output computed from sizes: {out}")
        final.append(out)
    return tuple(o.buffer if isinstance(o, Tensor) else o for o in final), names
