// Sums of rows of n floats (n a multiple of 4), one warp a row, then the block's total by atomics.
extern "C" __global__ void row_sums(const float* in, float* sums, float* total, int rows, int n) {
  __shared__ float part[8];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = blockIdx.x * 8 + warp;
  if (threadIdx.x < 8) part[threadIdx.x] = 0;
  __syncthreads();
  float s = 0;
  if (row < rows)
    for (int i = lane; i < n / 4; i += 32) {
      float4 v = ((const float4*)(in + row * n))[i];
      s += v.x + v.y + v.z + v.w;
    }
  for (int step = 16; step > 0; step /= 2) s += __shfl_xor_sync(0xffffffffu, s, step);
  if (lane == 0) part[warp] = s;
  if (lane == 0 && row < rows) sums[row] = s;
  __syncthreads();
  if (threadIdx.x == 0) {
    float all = 0;
    for (int i = 0; i < 8; i++) all += part[i];
    atomicAdd(total, all);
  }
}
