// C (m x n, float) = A (m x k) B^T (B is n x k), halves; 2 warps, tiles of 32 x 16 x 64, 3 stages.
// Rows of 128 bytes, whose 16-byte pieces are swizzled by the row. k is a multiple of 64.
extern "C" __global__ void matmul(const half_t* a, const half_t* b, float* c, int m, int n, int k) {
  extern __shared__ __align__(128) char smem[];
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;
  const int row0 = blockIdx.x * 32, col0 = blockIdx.y * 16;
  unsigned base = shared_address(smem);
  float acc[2][4] = {};
  int steps = k / 64;
  auto fetch = [&](int step) {
    unsigned tile = base + step % 3 * 6144;
    for (int i = t; i < 384; i += 64) {
      int row = i / 8, piece = i % 8, from_a = row < 32;
      int grow = from_a ? row0 + row : col0 + row - 32;
      bool inside = grow < (from_a ? m : n);
      const half_t* from = (from_a ? a : b) + (inside ? grow * k : 0) + step * 64 + piece * 8;
      copy16(tile + row * 128 + (piece ^ (row & 7)) * 16, from, inside ? 16 : 0);
    }
  };
  for (int s = 0; s < 2; s++) { if (s < steps) fetch(s); asm volatile("cp.async.commit_group;"); }
  for (int step = 0; step < steps; step++) {
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    if (step + 2 < steps) fetch(step + 2);
    asm volatile("cp.async.commit_group;");
    unsigned tile = base + step % 3 * 6144;
    for (int kk = 0; kk < 4; kk++) {
      unsigned x[4], y[4];
      int ra = warp * 16 + lane % 16, rb = 32 + lane % 8 + lane / 16 * 8;
      load4(x, tile + ra * 128 + ((kk * 2 + lane / 16) ^ (ra & 7)) * 16);
      load4(y, tile + rb * 128 + ((kk * 2 + lane / 8 % 2) ^ (rb & 7)) * 16);
      product(acc[0], x, y[0], y[1]);
      product(acc[1], x, y[2], y[3]);
    }
  }
  for (int j = 0; j < 2; j++)
    for (int i = 0; i < 2; i++) {
      int row = row0 + warp * 16 + lane / 4 + 8 * i, col = col0 + 8 * j + lane % 4 * 2;
      if (row < m && col + 1 < n) {
        float2 v = make_float2(acc[j][2 * i], acc[j][2 * i + 1]);
        *(float2*)(c + row * n + col) = v;
      }
    }
}
