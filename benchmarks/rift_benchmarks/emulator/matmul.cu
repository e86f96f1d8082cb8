// C (m x n, float) = A (m x k) B^T (B is n x k), halves: tiles of 128 x 128 x 32 by 4 warps, a ring of
// 3 stages filled by cp.async, ldmatrix and mma.sync. Sizes are multiples of the tile.
typedef unsigned short half_t;
__device__ __forceinline__ unsigned shared_address(const void* p) {
  return (unsigned)__cvta_generic_to_shared(p);
}
__device__ __forceinline__ void load4(unsigned* r, unsigned at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
__device__ __forceinline__ void product(float* c, const unsigned* a, unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
               "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// Rows of 64 bytes, two to a line of 128: the 16-byte pieces are swizzled by the line.
__device__ __forceinline__ unsigned place(int row, int piece) {
  return row * 64 + ((piece ^ (row / 2 & 3)) * 16);
}
extern "C" __global__ void matmul(const half_t* a, const half_t* b, float* c, int n, int k) {
  extern __shared__ __align__(128) char smem[];
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;
  const int row0 = blockIdx.x * 128, col0 = blockIdx.y * 128;
  const unsigned base = shared_address(smem);
  const int steps = k / 32;
  float acc[4][8][4] = {};
  auto fetch = [&](int step) {
    unsigned tile = base + step % 3 * 16384;
    for (int i = t; i < 1024; i += 128) {
      int row = i / 4, piece = i % 4;
      const half_t* from = (row < 128 ? a + (row0 + row) * k : b + (col0 + row - 128) * k);
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                   :: "r"(tile + place(row, piece)), "l"(from + step * 32 + piece * 8));
    }
  };
  for (int s = 0; s < 2; s++) {
    if (s < steps) fetch(s);
    asm volatile("cp.async.commit_group;");
  }
  for (int step = 0; step < steps; step++) {
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    if (step + 2 < steps) fetch(step + 2);
    asm volatile("cp.async.commit_group;");
    unsigned tile = base + step % 3 * 16384;
#pragma unroll
    for (int kk = 0; kk < 2; kk++) {
      unsigned x[4][4], y[4][4];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        load4(x[i], tile + place(warp / 2 * 64 + i * 16 + lane % 16, kk * 2 + lane / 16));
        load4(y[i], tile + place(128 + warp % 2 * 64 + i * 16 + lane % 8 + lane / 16 * 8,
                                 kk * 2 + lane / 8 % 2));
      }
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 8; j++) product(acc[i][j], x[i], y[j / 2][j % 2 * 2], y[j / 2][j % 2 * 2 + 1]);
    }
  }
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
      for (int h = 0; h < 2; h++) {
        int row = row0 + warp / 2 * 64 + i * 16 + lane / 4 + 8 * h;
        int col = col0 + warp % 2 * 64 + j * 8 + lane % 4 * 2;
        *(float2*)(c + row * n + col) = make_float2(acc[i][j][2 * h], acc[i][j][2 * h + 1]);
      }
}
