// C (m x 32, halves) = A (m x k) B^T (32 x k) on sm_90: a producer warp, a consumer warpgroup with
// wgmma, a ring of 2 stages, and a bulk store of the result.
extern "C" __global__ void matmul(const __grid_constant__ Map a, const __grid_constant__ Map b,
                                  const __grid_constant__ Map c, int k) {
  extern __shared__ __align__(1024) char smem[];
  __shared__ u64 bars[4];
  const int t = threadIdx.x, row0 = blockIdx.x * 64, steps = k / 64;
  unsigned base = shared_address(smem), full = shared_address(bars), empty = full + 16;
  if (t == 0) for (int i = 0; i < 2; i++) { init(full + 8 * i, 1); init(empty + 8 * i, 4); }
  __syncthreads();
  if (t >= 128) {
    if (t == 128)
      for (int step = 0; step < steps; step++) {
        int s = step % 2, round = step / 2;
        wait(empty + 8 * s, (round & 1) ^ 1);
        expect(full + 8 * s, 8192 + 4096);
        tensor_load(base + s * 12288, &a, step * 64, row0, full + 8 * s);
        tensor_load(base + s * 12288 + 8192, &b, step * 64, 0, full + 8 * s);
      }
    return;
  }
  float d[16] = {};
  for (int step = 0; step < steps; step++) {
    int s = step % 2, round = step / 2;
    wait(full + 8 * s, round & 1);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int kk = 0; kk < 4; kk++) {
      u64 bits = (u64)1 << 62 | (u64)(1024 >> 4) << 32 | (u64)1 << 16;
      u64 da = bits | (base + s * 12288 + kk * 32) >> 4, db = bits | (base + s * 12288 + 8192 + kk * 32) >> 4;
      asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0;\n"
          "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, "
          "%9, %10, %11, %12, %13, %14, %15}, %16, %17, p, 1, 1, 0, 0; }"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
            "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
            "+f"(d[14]), "+f"(d[15]) : "l"(da), "l"(db));
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    __syncwarp();
    if (t % 32 == 0) arrive(empty + 8 * s);
  }
  asm volatile("bar.sync 1, 128;" ::: "memory");
  for (int j = 0; j < 4; j++)
    for (int i = 0; i < 2; i++) {
      int row = t / 32 * 16 + t % 32 / 4 + 8 * i;
      unsigned both;
      asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(d[4 * j + 2 * i + 1]), "f"(d[4 * j + 2 * i]));
      *(unsigned*)(smem + row * 64 + j * 16 + t % 4 * 4) = both;
    }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  asm volatile("bar.sync 1, 128;" ::: "memory");
  if (t == 0) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
                 :: "l"(&c), "r"(0), "r"(row0), "r"(base) : "memory");
    asm volatile("cp.async.bulk.commit_group;");
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  }
}
