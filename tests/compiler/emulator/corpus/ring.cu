// C (16 x 8, float) = A (16 x k) B^T (8 x k): one producer thread, one consumer warp with ldmatrix
// and mma, a ring of 2 stages filled by bulk copies of whole 512-byte and 256-byte tiles.
extern "C" __global__ void matmul(const half_t* a, const half_t* b, float* c, int steps) {
  __shared__ __align__(128) char tiles[2][768];
  __shared__ u64 bars[4];
  const int t = threadIdx.x, lane = t % 32;
  unsigned base = shared_address(tiles), full = shared_address(bars), empty = full + 16;
  if (t == 0) for (int i = 0; i < 2; i++) { init(full + 8 * i, 1); init(empty + 8 * i, 1); }
  __syncthreads();
  if (t == 32)
    for (int step = 0; step < steps; step++) {
      int s = step % 2;
      if (step >= 2) wait(empty + 8 * s, (step / 2 & 1) ^ 1);
      expect(full + 8 * s, 768);
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                   :: "r"(base + s * 768), "l"(a + step * 256), "r"(512), "r"(full + 8 * s) : "memory");
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                   :: "r"(base + s * 768 + 512), "l"(b + step * 128), "r"(256), "r"(full + 8 * s) : "memory");
    }
  if (t >= 32) return;
  float acc[4] = {};
  for (int step = 0; step < steps; step++) {
    int s = step % 2;
    wait(full + 8 * s, step / 2 & 1);
    unsigned x[4], y[4], tile = base + s * 768;
    load4(x, tile + lane % 16 * 32 + lane / 16 * 16);
    load4(y, tile + 512 + lane % 8 * 32 + lane / 8 % 2 * 16);
    __syncwarp();
    if (lane == 0) arrive(empty + 8 * s);
    product(acc, x, y[0], y[1]);
  }
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2; j++) c[(lane / 4 + 8 * i) * 8 + lane % 4 * 2 + j] = acc[2 * i + j];
}
