"""Special registers (PTX ISA 9.0, chapter 10) as C++ expressions; a cluster is one block."""

from __future__ import annotations

_AXES = {"x": 0, "y": 1, "z": 2}

_PLAIN = {
    "%laneid": "(u32)t->lane",
    "%warpid": "(u32)t->id / 32",
    "%nwarpid": "(M.block[0] * M.block[1] * M.block[2] + 31) / 32",
    "%lanemask_eq": "(1u << t->lane)",
    "%lanemask_lt": "((1u << t->lane) - 1)",
    "%lanemask_le": "((2u << t->lane) - 1)",
    "%lanemask_gt": "(~((2u << t->lane) - 1))",
    "%lanemask_ge": "(~((1u << t->lane) - 1))",
    "%smid": "0u",
    "%nsmid": "1u",
    "%gridid": "(u64)1",
    "%clock": "(u32)clock_now()",
    "%clock_hi": "(u32)(clock_now() >> 32)",
    "%clock64": "clock_now()",
    "%globaltimer": "clock_now()",
    "%globaltimer_lo": "(u32)clock_now()",
    "%globaltimer_hi": "(u32)(clock_now() >> 32)",
    "%dynamic_smem_size": "M.dynamic_shared",
    "%total_smem_size": "(M.static_shared + M.dynamic_shared)",
    "%cluster_ctarank": "0u",
    "%cluster_nctarank": "1u",
    "%is_explicit_cluster": "false",
    "WARP_SZ": "32u",
}


def special_register(name: str) -> str | None:
    """The C++ expression of a special register, or None for any other name."""
    stem, _, axis = name.partition(".")
    if axis in _AXES:
        i = _AXES[axis]
        vectors = {
            "%tid": f"t->{axis}",
            "%ntid": f"M.block[{i}]",
            "%ctaid": f"M.ctaid[{i}]",
            "%nctaid": f"M.grid[{i}]",
            "%clusterid": f"M.ctaid[{i}]",
            "%nclusterid": f"M.grid[{i}]",
            "%cluster_ctaid": "0u",
            "%cluster_nctaid": "1u",
        }
        return vectors.get(stem)
    return _PLAIN.get(name)
