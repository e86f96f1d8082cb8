"""Asynchronous copies and mbarriers, one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rift.errors import WrongUsage
from rift_compiler.emulator import Output, TensorMap

SHARED = ".extern .shared .align 1024 .b8 sm[];"
DECLARED = """
.reg .b32 %t, %b, %s, %x, %y, %n; .reg .b64 %p, %q, %m; .reg .pred %go, %one;
.shared .align 8 .b64 bar;
mov.u32 %t, %tid.x; mov.u32 %b, bar; mov.u32 %s, sm; setp.eq.u32 %one, %t, 0;
"""
WAIT = "W: mbarrier.try_wait.parity.shared::cta.b64 %go, [%b], 0; @!%go bra W;"
# Shared memory to global memory and back, word by word.
COPY_OUT = """
mov.u32 %x, %t;
O: setp.ge.u32 %go, %x, {words}; @%go bra OD;
mad.lo.u32 %y, %x, 4, %s; ld.shared.b32 %n, [%y]; mad.wide.u32 %q, %x, 4, %p;
st.global.b32 [%q], %n; add.u32 %x, %x, 32; bra O; OD:
"""
COPY_IN = """
mov.u32 %x, %t;
I: setp.ge.u32 %go, %x, {words}; @%go bra ID;
mad.wide.u32 %q, %x, 4, %p; ld.global.b32 %n, [%q]; mad.lo.u32 %y, %x, 4, %s;
st.shared.b32 [%y], %n; add.u32 %x, %x, 32; bra I; ID:
"""
CASES = [
    ((40,), (16,), 0, (32,)),
    ((20, 32), (8, 16), 0, (-3, 20)),
    ((20, 32), (16, 8), 32, (10, -4)),
    ((20, 32), (16, 16), 64, (10, 24)),
    ((40, 64), (24, 32), 128, (-2, 16)),
    ((6, 10, 8), (3, 4, 8), 0, (4, -1, 0)),
    ((3, 4, 5, 8), (2, 2, 3, 4), 0, (2, 1, 4, 4)),
    ((2, 3, 4, 5, 8), (2, 1, 2, 2, 4), 0, (0, 2, -1, 4, 0)),
]


def box_of(x: Any, box: Any, at: Any, swizzle: int) -> Any:
    """The box as shared memory holds it: zeros outside, 16-byte pieces swizzled by their line."""
    index = np.meshgrid(*(np.arange(b) + o for b, o in zip(box, at, strict=True)), indexing="ij")
    inside = np.all([(i >= 0) & (i < n) for i, n in zip(index, x.shape, strict=True)], axis=0)
    clipped = tuple(np.clip(i, 0, n - 1) for i, n in zip(index, x.shape, strict=True))
    flat = np.where(inside, x[clipped], 0).astype(x.dtype).reshape(-1)
    pieces = flat.view(np.uint8).reshape(-1, 16)
    number = np.arange(len(pieces))
    mask = {0: 0, 32: 1, 64: 3, 128: 7}[swizzle]
    out = np.empty_like(pieces)
    out[number ^ (number // 8 & mask)] = pieces
    return out.reshape(-1).view(x.dtype)


@pytest.mark.parametrize(("shape", "box", "swizzle", "at"), CASES)
def test_tensor_copies(run_ptx: Any, shape: Any, box: Any, swizzle: int, at: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(1, 2**31, shape).astype(np.int32)
    words = int(np.prod(box))
    got, back = np.zeros(words, np.int32), np.zeros(shape, np.int32)
    where = ", ".join(str(n) for n in reversed(at))
    rank = len(shape)
    body = f"""{DECLARED}
    @%one mbarrier.init.shared::cta.b64 [%b], 1;
    bar.sync 0;
    @%one mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], {4 * words};
    mov.b64 %m, from; cvta.param.u64 %m, %m;
    @%one cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
        [%s], [%m, {{{where}}}], [%b];
    {WAIT}
    ld.param.u64 %p, [out]; {COPY_OUT.format(words=words)}
    fence.proxy.async; bar.sync 0;
    mov.b64 %m, to; cvta.param.u64 %m, %m;
    @%one cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group [%m, {{{where}}}], [%s];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    """
    maps = [TensorMap(a, box, swizzle) for a in (x, back)]

    for seed in (0, 1):
        result = run_ptx(
            body, [*maps, Output(got)],
            [".align 64 .b8 from[128]", ".align 64 .b8 to[128]", ".u64 out"],
            block=32, smem_bytes=4 * words, outside=SHARED, seed=seed,
        )  # fmt: skip
        assert result.findings == ()
        assert np.array_equal(got, box_of(x, box, at, swizzle))
    kept = tuple(slice(max(0, o), min(n, o + b)) for o, b, n in zip(at, box, shape, strict=True))
    assert np.array_equal(back[kept], x[kept])
    assert np.count_nonzero(back) == back[kept].size


def test_bulk_copies_and_reduction(run_ptx: Any) -> None:
    x, out = np.arange(64, dtype=np.float32), np.full(64, 100, np.float32)
    body = f"""{DECLARED}
    @%one mbarrier.init.shared::cta.b64 [%b], 1;
    bar.sync 0;
    @%one mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 256;
    ld.param.u64 %p, [from];
    @%one cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%p], 256, [%b];
    {WAIT}
    ld.param.u64 %p, [to];
    @%one cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%p], [%s], 256;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;
    """
    params = [".u64 from", ".u64 to"]
    given = {"block": 32, "smem_bytes": 256, "outside": SHARED}

    assert run_ptx(body, [x, out], params, **given).findings == ()
    assert np.array_equal(out, 100 + x)


def test_mbarrier_phases_tokens_and_drops(run_ptx: Any) -> None:
    body = f"""{DECLARED} .reg .b64 %token;
    ld.param.u64 %p, [out];
    @%one mbarrier.init.shared.b64 [%b], 3;
    bar.warp.sync -1;
    @!%one bra END;
    mbarrier.arrive.shared.b64 %token, [%b];
    mbarrier.pending_count.b64 %x, %token; st.global.u32 [%p], %x;
    mbarrier.test_wait.shared.b64 %go, [%b], %token; selp.u32 %x, 1, 0, %go;
    st.global.u32 [%p+4], %x;
    mbarrier.arrive.shared.b64 %token, [%b], 2;
    mbarrier.test_wait.shared.b64 %go, [%b], %token; selp.u32 %x, 1, 0, %go;
    st.global.u32 [%p+8], %x;
    mbarrier.arrive_drop.shared.b64 %token, [%b];
    mbarrier.arrive.shared.b64 %token, [%b], 2;
    mbarrier.arrive.shared.b64 %token, [%b], 2;
    mbarrier.test_wait.parity.shared.b64 %go, [%b], 0; selp.u32 %x, 1, 0, %go;
    st.global.u32 [%p+12], %x;
    mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%b], 16;
    mbarrier.arrive.shared.b64 %token, [%b], 2;
    mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%b], 16;
    mbarrier.test_wait.parity.shared.b64 %go, [%b], 1; selp.u32 %x, 1, 0, %go;
    st.global.u32 [%p+16], %x;
    mbarrier.inval.shared.b64 [%b]; st.shared.u64 [%b], %p;
    END:"""
    out = np.full(5, 9, np.uint32)

    assert (
        run_ptx(body, [out], [".u64 out"], block=32, smem_bytes=16, outside=SHARED).findings == ()
    )
    # Phase 0 ends with 1 + 2 arrivals, 1 with a drop and 2; two threads are left: phases 2 and 3.
    assert out.tolist() == [3, 0, 1, 1, 1]


@pytest.mark.parametrize("form", ["", ".noinc"])
@pytest.mark.parametrize("seed", [0, 5])
def test_copies_that_arrive_at_an_mbarrier(run_ptx: Any, form: str, seed: int) -> None:
    x, out = np.arange(128, dtype=np.int32), np.zeros(128, np.int32)
    arrivals = "" if form else "mbarrier.arrive.shared.b64 %token, [%b];"
    body = f"""{DECLARED} .reg .b64 %token;
    @%one mbarrier.init.shared.b64 [%b], 32;
    bar.sync 0;
    ld.param.u64 %p, [from]; mad.wide.u32 %p, %t, 16, %p; mad.lo.u32 %x, %t, 16, %s;
    cp.async.ca.shared.global [%x], [%p], 16;
    cp.async.mbarrier.arrive{form}.shared.b64 [%b]; {arrivals}
    {WAIT}
    ld.param.u64 %p, [to]; xor.b32 %y, %x, 16; mad.wide.u32 %p, %t, 16, %p;
    .reg .b32 %v<4>;
    ld.shared.v4.b32 {{%v0, %v1, %v2, %v3}}, [%y]; st.global.v4.b32 [%p], {{%v0, %v1, %v2, %v3}};
    """
    result = run_ptx(
        body, [x, out], [".u64 from", ".u64 to"], block=32, smem_bytes=512, outside=SHARED,
        seed=seed,
    )  # fmt: skip
    assert result.findings == ()
    assert np.array_equal(out.reshape(-1, 4), x.reshape(-1, 4)[np.arange(32) ^ 1])


def test_what_a_cluster_of_one_block_and_hints_do(run_ptx: Any) -> None:
    body = f"""{DECLARED} .reg .b32 %c, %leader; .reg .b64 %policy;
    ld.param.u64 %p, [out]; mad.wide.u32 %p, %t, 4, %p;
    griddepcontrol.wait; setmaxnreg.dec.sync.aligned.u32 40;
    createpolicy.fractional.L2::evict_first.b64 %policy, 1.0;
    prefetch.global.L2 [%p];
    mapa.shared::cluster.u32 %x, %s, 0; mad.lo.u32 %x, %t, 4, %x;
    st.shared::cluster.u32 [%x], %t;
    barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
    xor.b32 %y, %x, 4; ld.shared.u32 %n, [%y];
    mov.u32 %c, %cluster_ctarank; add.u32 %n, %n, %c; mov.u32 %c, %cluster_nctaid.x;
    add.u32 %n, %n, %c; mov.u32 %c, %dynamic_smem_size; add.u32 %n, %n, %c;
    elect.sync %leader|%go, -1; @%go add.u32 %n, %n, 1000;
    nanosleep.u32 20; griddepcontrol.launch_dependents;
    st.global.L2::cache_hint.u32 [%p], %n, %policy;
    """
    out = np.zeros(64, np.uint32)

    result = run_ptx(body, [out], [".u64 out"], block=64, smem_bytes=256, outside=SHARED)

    assert result.findings == ()
    t = np.arange(64)
    assert np.array_equal(out, (t ^ 1) + 1 + 256 + 1000 * (t % 32 == 0))


@pytest.mark.parametrize(
    ("map_", "words"),
    [
        (lambda a: TensorMap(a, (8,)), "as many box sizes"),
        (lambda a: TensorMap(a, (8, 300)), "box sizes are 1 to 256"),
        (lambda a: TensorMap(a, (8, 2)), "multiple of 16"),
        (lambda a: TensorMap(a, (8, 32), 64), "at most the swizzle's 64"),
        (lambda a: TensorMap(a, (8, 8), 48), "swizzle is one of"),
        (lambda a: TensorMap(a[:, :30].copy(), (8, 8)), "strides are multiples of 16"),
    ],
)
def test_tensor_maps_that_a_gpu_refuses(map_: Any, words: str) -> None:
    with pytest.raises(WrongUsage, match=words):
        map_(np.zeros((16, 32), np.float32)).encode(1 << 20)


def test_runs_are_the_same_for_the_same_seed(run_cuda: Any) -> None:
    source = """
    __global__ void k(int* order, int* next) {
      if (threadIdx.x % 32 == 0) order[atomicAdd(next, 1)] = threadIdx.x / 32;
    }"""
    runs = []
    for seed in (1, 1, 2, 3, 4):
        order, count = np.zeros(8, np.int32), np.zeros(1, np.int32)
        run_cuda(source, 1, 256, [order, count], seed=seed)
        runs.append(order.tolist())
    assert runs[0] == runs[1]
    assert len({tuple(r) for r in runs}) > 1
