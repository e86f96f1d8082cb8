"""Prints goldens/cute_layouts.txt: layouts as nvidia-cutlass-dsl knows them. Needs no GPU.

CUTE_DSL_ARCH=sm_90a python make_cute_layouts.py, with nvidia-cutlass-dsl[cu13]==4.8.1 installed.
Layouts map (thread, value) to a place, the first coordinate of the matrix running fastest.
"""

# mypy: ignore-errors
from __future__ import annotations

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import OperandMajorMode, warp, warpgroup


@cute.jit
def show():
    for name, k in (("m16n8k8", 8), ("m16n8k16", 16)):
        atom = cute.make_mma_atom(warp.MmaF16BF16Op(cutlass.Float16, cutlass.Float32, (16, 8, k)))
        print(name, "A", atom.tv_layout_A)
        print(name, "B", atom.tv_layout_B)
        print(name, "C", atom.tv_layout_C)
    for trans in (False, True):
        for n in (1, 2, 4):
            suffix = ".trans" if trans else ""
            load = cute.make_copy_atom(warp.LdMatrix8x8x16bOp(trans, n), cutlass.Float16)
            print(f"ldmatrix.x{n}{suffix}", "src", load.layout_src_tv)
            print(f"ldmatrix.x{n}{suffix}", "dst", load.layout_dst_tv)
            store = cute.make_copy_atom(warp.StMatrix8x8x16bOp(trans, n), cutlass.Float16)
            print(f"stmatrix.x{n}{suffix}", "src", store.layout_src_tv)
            print(f"stmatrix.x{n}{suffix}", "dst", store.layout_dst_tv)
    op = warpgroup.MmaF16BF16Op(
        cutlass.Float16, cutlass.Float32, (64, 64, 16), warpgroup.OperandSource.RMEM,
        OperandMajorMode.K, OperandMajorMode.K,
    )  # fmt: skip
    atom = cute.make_mma_atom(op)
    print("m64n64k16", "A", atom.tv_layout_A)
    print("m64n64k16", "C", atom.tv_layout_C)
    for kind in ("K_SW32", "K_SW64", "K_SW128"):
        value = getattr(warpgroup.SmemLayoutAtomKind, kind)
        print("atom", kind, warpgroup.make_smem_layout_atom(value, cutlass.Float16))


show()
