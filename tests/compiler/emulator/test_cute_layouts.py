"""Fragments and swizzles against the layouts that nvidia-cutlass-dsl prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rift_compiler.emulator import Output, TensorMap

GOLDEN = Path(__file__).with_name("goldens") / "cute_layouts.txt"
LAYOUTS = {
    (words[0], words[1]): " ".join(words[2:])
    for words in (line.split() for line in GOLDEN.read_text().splitlines())
}
SHARED = ".extern .shared .align 1024 .b8 sm[];"


def tree(text: str) -> Any:
    """`((4,8),2)` as nested tuples of numbers."""
    assert re.fullmatch(r"[\d(),]+", text)
    return eval(text, {"__builtins__": {}})


def place(shape: Any, stride: Any, index: int) -> int:
    """Where a layout puts an index; the first part of a shape runs fastest."""
    if isinstance(shape, int):
        return index % shape * int(stride)
    at = 0
    for s, d in zip(shape, stride, strict=True):
        n = size(s)
        at += place(s, d, index % n)
        index //= n
    return at


def size(shape: Any) -> int:
    return shape if isinstance(shape, int) else int(np.prod([size(s) for s in shape]))


def table(name: str, part: str) -> Any:
    """Places by thread and value."""
    shape, stride = (tree(t) for t in LAYOUTS[name, part].split(":"))
    threads, values = size(shape[0]), size(shape[1])
    return np.array(
        [[place(shape[0], stride[0], t) + place(shape[1], stride[1], v) for v in range(values)]
         for t in range(threads)]
    )  # fmt: skip


def held(x: Any, where: Any) -> Any:
    """What each thread holds of a matrix, first coordinate fastest, as 32-bit registers."""
    return np.ascontiguousarray(x.reshape(-1, order="F")[where]).view(np.uint32)


@pytest.mark.parametrize(("shape", "k"), [("m16n8k8", 8), ("m16n8k16", 16)])
def test_mma(run_ptx: Any, shape: str, k: int) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-8, 8, (16, k)), rng.integers(-8, 8, (8, k))
    packed = np.concatenate(
        [held(x.astype(np.float16), table(shape, p)) for x, p in ((a, "A"), (b, "B"))], 1
    )
    packed = np.ascontiguousarray(packed)
    na, nb = k // 4, k // 8
    got = np.zeros((32, 4), np.float32)
    regs = [f"%r{i}" for i in range(na + nb)]
    body = [
        ".reg .b32 %r<8>, %t; .reg .f32 %f<4>; .reg .b64 %p;",
        f"mov.u32 %t, %tid.x; ld.param.u64 %p, [in]; mad.wide.u32 %p, %t, {4 * (na + nb)}, %p;",
        *(f"ld.global.b32 {r}, [%p+{4 * i}];" for i, r in enumerate(regs)),
        *(f"mov.f32 %f{i}, 0f00000000;" for i in range(4)),
        f"mma.sync.aligned.{shape}.row.col.f32.f16.f16.f32 {{%f0, %f1, %f2, %f3}}, "
        f"{{{', '.join(regs[:na])}}}, {{{', '.join(regs[na:])}}}, {{%f0, %f1, %f2, %f3}};",
        "ld.param.u64 %p, [out]; mad.wide.u32 %p, %t, 16, %p;",
        "st.global.v4.f32 [%p], {%f0, %f1, %f2, %f3};",
    ]

    assert run_ptx("\n".join(body), [packed, got], [".u64 in", ".u64 out"], block=32).findings == ()

    want = (a @ b.T).astype(np.float32)
    assert np.array_equal(got, want.reshape(-1, order="F")[table(shape, "C")])


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", ["", ".trans"])
def test_ldmatrix_and_stmatrix(run_ptx: Any, count: int, trans: str) -> None:
    """Loads matrices whose elements are their own places, and stores them elsewhere."""
    load = (f"ldmatrix.x{count}{trans}", f"stmatrix.x{count}{trans}")
    words = 32 * count
    elements = np.arange(64 * count, dtype=np.uint16)
    source, destination = table(load[0], "src")[:, 0], table(load[1], "dst")[:, 0]
    addresses = np.ascontiguousarray(np.stack([source, destination], 1).astype(np.uint32) * 2)
    registers, stored = np.zeros((32, count), np.uint32), np.zeros(64 * count, np.uint16)
    names = ", ".join(f"%r{i}" for i in range(count))
    body = f"""
    .reg .b32 %r<4>, %t, %s, %x, %y, %n; .reg .b64 %p, %q; .reg .pred %go;
    mov.u32 %t, %tid.x; mov.u32 %s, sm; ld.param.u64 %p, [in];
    mov.u32 %x, %t;
    I: setp.ge.u32 %go, %x, {words}; @%go bra ID;
    mad.wide.u32 %q, %x, 4, %p; ld.global.b32 %n, [%q]; mad.lo.u32 %y, %x, 4, %s;
    st.shared.b32 [%y], %n; add.u32 %x, %x, 32; bra I; ID: bar.sync 0;
    ld.param.u64 %p, [at]; mad.wide.u32 %p, %t, 8, %p;
    ld.global.v2.b32 {{%x, %y}}, [%p]; add.u32 %x, %x, %s; add.u32 %y, %y, %s;
    ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{names}}}, [%x];
    stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%y+{4 * words}], {{{names}}};
    ld.param.u64 %p, [regs]; mad.wide.u32 %p, %t, {4 * count}, %p;
    """
    body += "".join(f"st.global.b32 [%p+{4 * i}], %r{i};" for i in range(count))
    body += f"""
    bar.sync 0; ld.param.u64 %p, [out]; mov.u32 %x, %t;
    O: setp.ge.u32 %go, %x, {words}; @%go bra OD;
    mad.lo.u32 %y, %x, 4, %s; ld.shared.b32 %n, [%y+{4 * words}]; mad.wide.u32 %q, %x, 4, %p;
    st.global.b32 [%q], %n; add.u32 %x, %x, 32; bra O; OD:
    """
    result = run_ptx(
        body, [elements, addresses, registers, Output(stored)],
        [".u64 in", ".u64 at", ".u64 regs", ".u64 out"], block=32, smem_bytes=8 * words,
        outside=SHARED,
    )  # fmt: skip

    assert result.findings == ()
    assert np.array_equal(registers.view(np.uint16), table(load[0], "dst"))
    assert np.array_equal(stored, elements)
    assert np.array_equal(table(load[1], "src"), table(load[0], "dst"))


def test_wgmma(run_ptx: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-8, 8, (64, 16)), rng.integers(-8, 8, (64, 16))
    regs = held(a.astype(np.float16), table("m64n64k16", "A"))
    # B in core matrices of 8 rows and 16 bytes: two along k, then the next rows.
    image = b.astype(np.float16).reshape(8, 8, 2, 8).swapaxes(1, 2).copy().view(np.uint32)
    got = np.zeros((128, 32), np.float32)
    sums = ", ".join(f"%f{i}" for i in range(32))
    body = f"""
    .reg .b32 %r<4>, %t, %s, %x, %y; .reg .f32 %f<32>; .reg .b64 %p, %d; .reg .pred %no;
    mov.u32 %t, %tid.x; mov.u32 %s, sm; setp.ne.u32 %no, %t, %t;
    ld.param.u64 %p, [image]; mad.wide.u32 %p, %t, 16, %p; mad.lo.u32 %y, %t, 16, %s;
    ld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%p]; st.shared.v4.b32 [%y], {{%r0, %r1, %r2, %r3}};
    fence.proxy.async; bar.sync 0;
    ld.param.u64 %p, [regs]; mad.wide.u32 %p, %t, 16, %p;
    ld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%p];
    shr.u32 %x, %s, 4; cvt.u64.u32 %d, %x; or.b64 %d, %d, {8 << 16 | 16 << 32};
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {{{sums}}}, {{%r0, %r1, %r2, %r3}}, %d, %no,
        1, 1, 0;
    wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
    ld.param.u64 %p, [out]; mad.wide.u32 %p, %t, 128, %p;
    """ + "".join(f"st.global.f32 [%p+{4 * i}], %f{i};" for i in range(32))

    result = run_ptx(
        body, [image, regs, got], [".u64 image", ".u64 regs", ".u64 out"], block=128,
        smem_bytes=2048, outside=SHARED,
    )  # fmt: skip

    assert result.findings == ()
    want = (a @ b.T).astype(np.float32)
    assert np.array_equal(got, want.reshape(-1, order="F")[table("m64n64k16", "C")])


@pytest.mark.parametrize("width", [32, 64, 128])
def test_swizzles(run_ptx: Any, width: int) -> None:
    """An element of a tile that a tensor map's copy brought lies where the atom says."""
    text = LAYOUTS["atom", f"K_SW{width}"]
    bits, base, shift, shape, stride = re.fullmatch(
        r"S<(\d),(\d),(\d)> o 0 o (\S+):(\S+)", text
    ).groups()  # type: ignore[union-attr]
    rows, columns = tree(shape)
    x = np.arange(rows * columns, dtype=np.uint16).reshape(rows, columns)
    out = np.zeros(rows * columns, np.uint16)
    words = x.nbytes // 4
    body = f"""
    .reg .b32 %t, %b, %s, %x, %y, %n; .reg .b64 %p, %q, %m; .reg .pred %go, %one;
    .shared .align 8 .b64 bar;
    mov.u32 %t, %tid.x; mov.u32 %b, bar; mov.u32 %s, sm; setp.eq.u32 %one, %t, 0;
    @%one mbarrier.init.shared::cta.b64 [%b], 1;
    bar.sync 0;
    @%one mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], {x.nbytes};
    mov.b64 %m, map; cvta.param.u64 %m, %m;
    @%one cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes
        [%s], [%m, {{0, 0}}], [%b];
    W: mbarrier.try_wait.parity.shared::cta.b64 %go, [%b], 0; @!%go bra W;
    ld.param.u64 %p, [out]; mov.u32 %x, %t;
    O: setp.ge.u32 %go, %x, {words}; @%go bra OD;
    mad.lo.u32 %y, %x, 4, %s; ld.shared.b32 %n, [%y]; mad.wide.u32 %q, %x, 4, %p;
    st.global.b32 [%q], %n; add.u32 %x, %x, 32; bra O; OD:
    """
    result = run_ptx(
        body, [TensorMap(x, (rows, columns), width), Output(out)],
        [".align 64 .b8 map[128]", ".u64 out"], block=32, smem_bytes=x.nbytes, outside=SHARED,
    )  # fmt: skip

    assert result.findings == ()
    down, across = tree(stride)
    for (r, c), value in np.ndenumerate(x):
        at = 2 * (r * down + c * across)
        mask = ((1 << int(bits)) - 1) << int(base)
        at ^= at >> int(shift) & mask
        assert out[at // 2] == value
