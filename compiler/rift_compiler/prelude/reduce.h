// Fold one value over the lanes of a block, which all get the result: a butterfly of shuffles in
// each warp, then the warps' results through shared memory.
struct rift_sum { template <class T> __device__ T operator()(T a, T b) const { return a + b; } };
struct rift_prod { template <class T> __device__ T operator()(T a, T b) const { return a * b; } };
struct rift_of_max { template <class T> __device__ T operator()(T a, T b) const { return rift_max(a, b); } };
struct rift_of_min { template <class T> __device__ T operator()(T a, T b) const { return rift_min(a, b); } };
struct rift_any { template <class T> __device__ T operator()(T a, T b) const { return a | b; } };
struct rift_all { template <class T> __device__ T operator()(T a, T b) const { return a & b; } };
template <class T> __device__ __forceinline__ T rift_shuffle(T x, int mask) {
  if constexpr (sizeof(T) < 4) return (T)__shfl_xor_sync(0xffffffffu, (int)x, mask);
  else return __shfl_xor_sync(0xffffffffu, x, mask);
}
template <int LANES, class T, class Op> __device__ __forceinline__ T rift_allreduce(T x, Op op) {
  static_assert(LANES % 32 == 0, "whole warps");
  __shared__ T parts[32];
  for (int m = 16; m > 0; m >>= 1) x = op(x, rift_shuffle(x, m));
  if constexpr (LANES == 32) return x;
  __syncthreads();  // the last use of parts is over
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  x = parts[0];
  for (int w = 1; w < LANES / 32; w++) x = op(x, parts[w]);
  return x;
}
