"""Measured dispatch: our kernel, or the framework's, whichever is faster at a problem here."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from rift.errors import RiftError
from rift_compiler import trials
from rift_compiler.agree import Agreement, agree
from rift_compiler.compile_graph import Callee, Refused, compile_graph
from rift_compiler.dtypes import BY_TORCH
from rift_compiler.measure import Timing, interleave
from rift_compiler.torch_graph import Graph
from rift_compiler.trials import Problem, Trial
from rift_compiler.version import allocator, compiler_version, device, stock_version

log = logging.getLogger("rift")
MOST_SIZES = 16  # of one graph: each is measured at its first call, which takes a while
Interleave = Callable[[Mapping[str, Callable[[int], object]]], dict[str, Timing]]


@dataclass(frozen=True)
class Options:
    """How to choose.

    dispatch: measure (use the record, or measure and record), again (measure even so), or ours
    (our kernel wherever there is one that is right). inductor: whether Inductor is a candidate.
    """

    dispatch: str = "measure"
    inductor: bool = False


@dataclass
class Dispatcher:
    """A graph's callable. Decides at the first call of each size and number of threads."""

    graph: Graph
    options: Options = field(default_factory=Options)
    interleave: Interleave = interleave
    chosen: dict[tuple[int, ...], Callee] = field(default_factory=dict)
    kernels: dict[tuple[int, ...], Callee | Refused] = field(default_factory=dict)
    said: set[str] = field(default_factory=set)
    taken: list[Trial] = field(default_factory=list)

    def __call__(self, *inputs: Any) -> Any:
        key = (torch.get_num_threads(), *[inputs[n] for n in self.graph.numbers])
        run = self.chosen.get(key)
        if run is None:
            run = self.chosen[key] = self._decide(inputs)
        return run(*inputs)

    def _decide(self, inputs: Sequence[Any]) -> Callee:
        stock: Callee = self.graph.stock.forward
        refusal = _refusal(self.graph, inputs)
        if refusal is None and len(self.chosen) >= MOST_SIZES:
            refusal = f"more than {MOST_SIZES} sizes; those to come are not measured"
        if refusal is not None:
            self._say(refusal)
            return stock
        problem = problem_of(self.graph, inputs)
        trial = self._recorded(problem)
        if trial is not None and trial.choice == "eager":
            self._say(trial.reason)
            return stock
        ways, reason, lasting = self._ways(inputs)
        if trial is None or trial.choice not in ways:
            trial = self._keep(self._tried(problem, ways, reason, inputs), lasting)
        return ways[trial.choice]

    def _ways(self, inputs: Sequence[Any]) -> tuple[dict[str, Callee], str, bool]:
        """What may run, and why ours may not; whether that is so for good."""
        ways: dict[str, Callee] = {"eager": self.graph.stock.forward}
        reason, lasting = "", self.options.dispatch != "ours"
        kernel = self._kernel(inputs)
        if isinstance(kernel, Refused):
            reason, lasting = kernel.reason, lasting and kernel.lasting
            self._say(reason)
        else:
            ways["ours"] = kernel
        if self.options.inductor:
            ways["inductor"] = _inductor(self.graph, inputs)
        return ways, reason, lasting

    def _kernel(self, inputs: Sequence[Any]) -> Callee | Refused:
        """Our kernel for any sizes; for these sizes alone, where any is refused."""
        numbers = {n: inputs[n] for n in self.graph.numbers}
        general = tuple(v for n, v in numbers.items() if n not in self.graph.derived)
        for any_size, key in ((True, general), (False, tuple(numbers.values()))):
            place = (int(any_size), *key)
            if place not in self.kernels:
                self.kernels[place] = compile_graph(self.graph, inputs, any_size)
            if not (any_size and numbers and isinstance(self.kernels[place], Refused)):
                break
        return self.kernels[place]

    def _tried(
        self, problem: Problem, ways: Mapping[str, Callee], reason: str, inputs: Sequence[Any]
    ) -> Trial:
        """Check ours, and time all that is right."""
        trial = Trial(problem, what(self.graph), "eager", reason, {})
        if "ours" in ways:
            compared = _compared(ways, inputs)
            apart = compared.difference if math.isfinite(compared.difference) else None
            trial = replace(trial, difference=apart, allowed=compared.allowed)
            if compared.right and self.options.dispatch == "ours":
                return replace(trial, choice="ours", reason="asked for")
            if not compared.right:
                trial = replace(trial, reason=f"ours is wrong: {compared}")
                self._say(trial.reason)
                ways = {name: run for name, run in ways.items() if name != "ours"}
        if len(ways) == 1:
            return trial
        if "ours" not in ways:  # the graph may change its inputs: the user's are changed once
            inputs = [v.clone() if isinstance(v, torch.Tensor) else v for v in inputs]
        times = self.interleave({name: _call(run, inputs) for name, run in ways.items()})
        return replace(trial, times_s=times, choice=faster(times))

    def _recorded(self, problem: Problem) -> Trial | None:
        """The record of a problem, if it answers what is asked."""
        if self.options.dispatch != "measure":
            return None
        try:
            trial = trials.find(problem)
        except RiftError as error:
            self._say(str(error))
            return None
        if trial is None or not trial.times_s:
            return None if self.options.inductor else trial
        asked = ("ours", "eager", *(("inductor",) if self.options.inductor else ()))
        times = {way: t for way, t in trial.times_s.items() if way in asked}
        missing = self.options.inductor and "inductor" not in times
        return None if missing else replace(trial, choice=faster(times))

    def _keep(self, trial: Trial, lasting: bool) -> Trial:
        try:
            trial = trials.save(trial) if lasting else trial
        except RiftError as error:
            log.warning("rift: not recorded: %s", error)
        self.taken.append(trial)
        return trial

    def _say(self, why: str) -> None:
        if why and why not in self.said:
            self.said.add(why)
            log.warning("rift: torch's own kernels run %s: %s", what(self.graph), why)


def _compared(ways: Mapping[str, Callee], inputs: Sequence[Any]) -> Agreement:
    """Ours against eager. A kernel that fails is as good as a wrong one; eager's errors are raised:
    they are the model's."""
    expected = _flat(ways["eager"](*inputs))
    try:
        return agree(_flat(ways["ours"](*inputs)), expected)
    except Exception as error:
        return Agreement(math.inf, 0.0, f"{type(error).__name__}: {error}")


def faster(times: Mapping[str, Timing]) -> str:
    """The way with the smallest median."""
    return min(times, key=lambda name: times[name].median_s)


def problem_of(graph: Graph, inputs: Sequence[Any]) -> Problem:
    """The key of a graph called with these inputs, here and now."""
    shapes = " ".join(_type(v) for v in inputs)
    threads = torch.get_num_threads()
    versions = (compiler_version(), stock_version())
    return Problem(graph.key, shapes, threads, device(), allocator(), *versions)


def what(graph: Graph) -> str:
    """The graph's ops by name, for people."""
    nodes = [n for n in graph.stock.graph.nodes if n.op.startswith("call_")]
    names = [str(getattr(n.target, "__name__", n.target)).rpartition(".")[2] for n in nodes]
    quiet = ("getitem", "size", "view", "reshape", "transpose")
    shown = [n for n in names if n not in quiet] or names or ["nothing"]
    return " ".join([*shown[:4], *([f"... ({len(names)} ops)"] if len(shown) > 4 else [])])


def _type(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return str(value)
    strides = "" if value.is_contiguous() else f":{','.join(map(str, value.stride()))}"
    return f"{_dtype(value.dtype)}[{','.join(map(str, value.shape))}]{strides}"


def _dtype(dtype: torch.dtype) -> str:
    name = str(dtype).removeprefix("torch.")
    return BY_TORCH[name].name if name in BY_TORCH else name


def _refusal(graph: Graph, inputs: Sequence[Any]) -> str | None:
    """What ours cannot do whatever the ops are."""
    elsewhere = [v.device for v in inputs if isinstance(v, torch.Tensor) and not v.is_cpu]
    if elsewhere:
        return f"an input is on {elsewhere[0]}; the target is cpu"
    if torch.is_autocast_enabled("cpu"):
        return "under autocast; convert the model to one type instead"
    return graph.aliases


def _inductor(graph: Graph, inputs: Sequence[Any]) -> Callee:
    """The graph as Inductor compiles it, for these sizes."""
    from torch._inductor.compile_fx import compile_fx

    copied = torch.fx.GraphModule(graph.stock, graph.stock.graph)  # compile_fx changes what it gets
    made = compile_fx(copied, list(inputs))
    assert callable(made)
    return made


def _call(run: Callee, inputs: Sequence[Any]) -> Callable[[int], object]:
    return lambda _: run(*inputs)


def _flat(outputs: Any) -> list[Any]:
    return list(outputs) if isinstance(outputs, list | tuple) else [outputs]
