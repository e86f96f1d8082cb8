// out[x][y] = in[y][x] for n x n floats by tiles of 32, with a halo sum of the row before and after.
extern "C" __global__ void transpose(const float* in, float* out, int n) {
  __shared__ float tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x, y0 = blockIdx.y * 32;
  for (int i = threadIdx.y; i < 32; i += 8)
    if (x < n && y0 + i < n) tile[i][threadIdx.x] = in[(y0 + i) * n + x];
  __syncthreads();
  int y = y0 + threadIdx.x, x0 = blockIdx.x * 32;
  for (int i = threadIdx.y; i < 32; i += 8)
    if (y < n && x0 + i < n) out[(x0 + i) * n + y] = tile[threadIdx.x][i];
}
