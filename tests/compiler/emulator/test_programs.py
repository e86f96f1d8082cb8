"""Our own compiler's CUDA, run by the emulator: equal to torch, and no finding of any check."""

from __future__ import annotations

import pytest
import torch

import rift_compiler
from rift_compiler import Unsupported
from rift_compiler.differential.compare import judge
from rift_compiler.differential.probes import PROBES
from rift_compiler.emulator.programs import emulated, run

TARGETS = ("sm_80", "sm_89", "sm_90a", "sm_120a")


@pytest.mark.parametrize("number", range(len(PROBES)))
def test_probe(number: int) -> None:
    """Every probe, the targets in turn."""
    probe = PROBES[number]
    target = TARGETS[number % len(TARGETS)]
    case = probe.case()
    try:
        compiled = rift_compiler.compile(case.function, case.args, target=target)
    except Unsupported as refusal:
        pytest.skip(f"{probe.name} is refused: {refusal}")
    verdict = judge(emulated(compiled), case.function, case.args, Unsupported)
    assert verdict.outcome == "right", (probe.name, target, verdict)


def test_a_missing_barrier_in_our_own_cuda_is_found() -> None:
    """The checks are on: without the barriers of a block's fold they say so."""
    from dataclasses import replace

    x = torch.randn(64, 4096)
    compiled = rift_compiler.compile(lambda x: x.sum(1), (x,), target="sm_80")
    source = compiled.stages.source
    assert "__syncthreads();" in source
    tensors, dims = compiled.bind([x])

    assert run(compiled.stages, tensors, dims)[1] == ()
    broken = replace(compiled.stages, source=source.replace("__syncthreads();", ""))
    findings = run(broken, tensors, dims)[1]
    assert {f.kind for f in findings} & {"race", "uninitialised"}
