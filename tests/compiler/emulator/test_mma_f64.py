"""mma.sync in double precision against NumPy; fragments: PTX ISA 8.7, section 9.7.14.5.1."""

from __future__ import annotations

import numpy as np

from rift_compiler.emulator import launch

PTX = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c) {
  .reg .f64 %d<8>; .reg .u64 %r<8>; .reg .u32 %t<2>;
  ld.param.u64 %r0, [a]; ld.param.u64 %r1, [b]; ld.param.u64 %r2, [c];
  mov.u32 %t0, %tid.x;
  mul.wide.u32 %r3, %t0, 8; mul.wide.u32 %r4, %t0, 16;
  add.u64 %r0, %r0, %r3; add.u64 %r1, %r1, %r3; add.u64 %r2, %r2, %r4;
  ld.global.f64 %d0, [%r0]; ld.global.f64 %d1, [%r1]; ld.global.v2.f64 {%d2, %d3}, [%r2];
  mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d4, %d5}, {%d0}, {%d1}, {%d2, %d3};
  st.global.v2.f64 [%r2], {%d4, %d5};
  ret;
}
"""


def test_a_product_of_doubles() -> None:
    random = np.random.default_rng(5)
    a, b, c = (random.standard_normal(s) for s in ((8, 4), (4, 8), (8, 8)))
    # Lane t has a[t // 4, t % 4], b[t % 4, t // 4] and c[t // 4, 2 (t % 4)] with its neighbour.
    columns = np.ascontiguousarray(b.T)
    got = c.copy()

    result = launch(PTX, "k", (1,), (32,), [a, columns, got])

    assert not result.findings
    np.testing.assert_allclose(got, a @ b + c, rtol=1e-14, atol=1e-14)
