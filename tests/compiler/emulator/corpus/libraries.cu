// Kernels over the libraries that come with nvcc: cooperative groups, halves, barriers, CUB.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
namespace cg = cooperative_groups;
extern "C" __global__ void reduce(const float* in, float* out, int n) {
  auto block = cg::this_thread_block(); auto tile = cg::tiled_partition<32>(block);
  float s = 0; for (int i = block.thread_rank(); i < n; i += block.size()) s += in[i];
  s = cg::reduce(tile, s, cg::plus<float>());
  if (tile.thread_rank() == 0) atomicAdd(out, s);
}
extern "C" __global__ void halves(const __half2* a, const __half2* b, __half2* c, __nv_bfloat162* d, int n) {
  int i = blockIdx.x*blockDim.x+threadIdx.x; if (i >= n) return;
  __half2 x = __hfma2(a[i], b[i], __float2half2_rn(0.5f));
  c[i] = h2exp(__hmax2(x, __float2half2_rn(-1.f)));
  d[i] = __hmul2(__floats2bfloat162_rn(__low2float(x), __high2float(x)), __float2bfloat162_rn(2.f));
}
extern "C" __global__ void staged(const float* in, float* out) {
  __shared__ float buf[2][128];
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  auto block = cg::this_thread_block();
  if (block.thread_rank() == 0) init(&bar, block.size());
  block.sync();
  cuda::memcpy_async(block, buf[0], in, sizeof(float)*128, bar);
  bar.arrive_and_wait();
  out[threadIdx.x] = buf[0][127 - threadIdx.x];
}
extern "C" __global__ void scan(const int* in, int* out) {
  typedef cub::BlockScan<int, 128> Scan; __shared__ typename Scan::TempStorage t;
  int v = in[threadIdx.x]; Scan(t).InclusiveSum(v, v); out[threadIdx.x] = v;
  __syncthreads();
  typedef cub::BlockReduce<int, 128> R; __shared__ typename R::TempStorage r;
  int m = R(r).Reduce(v, cuda::maximum<>{}); if (threadIdx.x == 0) out[128] = m;
}
