"""Runs CUDA kernels with no GPU, and checks them: PTX to C++, one fibre for each CUDA thread.

launch(ptx, entry, grid, block, args, smem_bytes=0, checks="all", seed=0) -> Result
TensorMap(array, box, swizzle=128)   an argument of a kernel that copies tensors in bulk
Output(array)                        an array that holds nothing before the kernel writes it
"""

from __future__ import annotations

from rift_compiler.emulator.arguments import Output
from rift_compiler.emulator.findings import Counts, Finding, LineCount, Result
from rift_compiler.emulator.launch import launch
from rift_compiler.emulator.tensor_map import TensorMap

__all__ = ["Counts", "Finding", "LineCount", "Output", "Result", "TensorMap", "launch"]
