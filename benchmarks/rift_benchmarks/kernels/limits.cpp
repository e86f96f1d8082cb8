// What this processor can do at most: fused multiply-adds, and memory traffic, on given threads.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <omp.h>
#if defined(__AVX__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
constexpr int BYTES = 64, CHAINS = 24;  // chains hide an addition's latency: 4 cycles x 2 ports = 8
#else
constexpr int BYTES = 32, CHAINS = 12;  // of 16 registers
#endif

template <typename T> struct Vec { typedef T type __attribute__((vector_size(BYTES))); };

template <typename T> static double chains(int64_t n) {
  typedef typename Vec<T>::type V;
  V acc[CHAINS], a, b;
  for (int j = 0; j < CHAINS; j++) acc[j] = V{} + (T)(j + 1);
  a = V{} + (T)0.5f;
  b = V{} + (T)0.25f;
  asm volatile("" : "+x"(a), "+x"(b));
  for (int64_t i = 0; i < n; i++)
#pragma GCC unroll 24
    for (int j = 0; j < CHAINS; j++) acc[j] = acc[j] * a + b;
  V sum = acc[0];
  for (int j = 1; j < CHAINS; j++) sum += acc[j];
  return (double)sum[0];
}

template <typename T> static double fma_all(int64_t n, int threads, double* sink) {
  double total = 0;
#pragma omp parallel for num_threads(threads) reduction(+ : total) schedule(static)
  for (int t = 0; t < threads; t++) total += chains<T>(n);
  *sink = total;
  return 2.0 * CHAINS * (BYTES / sizeof(T)) * (double)n * threads;
}

#if defined(__AVX512BF16__)
static double bf16_chains(int64_t n) {
  __m512 acc[CHAINS];
  for (int j = 0; j < CHAINS; j++) acc[j] = _mm512_set1_ps((float)j);
  __m512bh a, b;
  memset(&a, 0x3c, sizeof a);
  memset(&b, 0x3c, sizeof b);
  asm volatile("" : "+v"(a), "+v"(b));
  for (int64_t i = 0; i < n; i++)
#pragma GCC unroll 24
    for (int j = 0; j < CHAINS; j++) acc[j] = _mm512_dpbf16_ps(acc[j], a, b);
  __m512 sum = acc[0];
  for (int j = 1; j < CHAINS; j++) sum = _mm512_add_ps(sum, acc[j]);
  return (double)_mm512_reduce_add_ps(sum);
}
#endif

// Each returns the operations done, 0 where the processor has no such instruction.
extern "C" double fma_f32(int64_t n, int threads, double* sink) {
  return fma_all<float>(n, threads, sink);
}
extern "C" double fma_f64(int64_t n, int threads, double* sink) {
  return fma_all<double>(n, threads, sink);
}
extern "C" double fma_f16(int64_t n, int threads, double* sink) {
#if defined(__AVX512FP16__)
  return fma_all<_Float16>(n, threads, sink);
#else
  return 0;
#endif
}
extern "C" double fma_bf16(int64_t n, int threads, double* sink) {
#if defined(__AVX512BF16__)
  double total = 0;
#pragma omp parallel for num_threads(threads) reduction(+ : total) schedule(static)
  for (int t = 0; t < threads; t++) total += bf16_chains(n);
  *sink = total;
  return 2.0 * CHAINS * 32 * (double)n * threads;
#else
  return 0;
#endif
}

// Memory. A pass goes over whole arrays of `count` floats, a multiple of 16 for each thread;
// the same thread takes the same part in every pass, so that parts stay in its own caches.
typedef Vec<float>::type F;
constexpr int64_t LANES = BYTES / 4, UNROLL = 8;

static void part(int64_t count, int64_t* begin, int64_t* end) {
  const int64_t blocks = count / (LANES * UNROLL), t = omp_get_thread_num(),
                all = omp_get_num_threads();
  *begin = blocks * t / all * UNROLL;
  *end = blocks * (t + 1) / all * UNROLL;
}

static inline void stream(F* to, F value) {
#if defined(__AVX512F__)
  _mm512_stream_ps((float*)to, (__m512)value);
#elif defined(__AVX__)
  _mm256_stream_ps((float*)to, (__m256)value);
#else
  *to = value;
#endif
}

extern "C" double memory_read(const float* a, int64_t count, int passes, int threads,
                              double* sink) {
  double total = 0;
#pragma omp parallel num_threads(threads) reduction(+ : total)
  {
    int64_t begin, end;
    part(count, &begin, &end);
    const F* x = (const F*)a;
    F sums[UNROLL] = {};
    for (int p = 0; p < passes; p++)
      for (int64_t i = begin; i < end; i += UNROLL)
#pragma GCC unroll 8
        for (int j = 0; j < UNROLL; j++) sums[j] += x[i + j];
    for (int j = 0; j < UNROLL; j++) total += sums[j][0];
  }
  *sink = total;
  return 4.0 * (double)count * passes;
}

template <typename Body> static void passes_of(int64_t count, int passes, int threads, Body body) {
#pragma omp parallel num_threads(threads)
  {
    int64_t begin, end;
    part(count, &begin, &end);
    for (int p = 0; p < passes; p++) {
      for (int64_t i = begin; i < end; i += UNROLL)
#pragma GCC unroll 8
        for (int j = 0; j < UNROLL; j++) body(i + j, (float)p);
      asm volatile("" ::: "memory");
    }
  }
}

// write, copy and triad, with stores that go through the caches, and (streamed) past them.
extern "C" double memory_write(float* a, int64_t count, int passes, int threads, int streamed) {
  F* x = (F*)a;
  if (streamed)
    passes_of(count, passes, threads, [=](int64_t i, float p) { stream(x + i, F{} + p); });
  else
    passes_of(count, passes, threads, [=](int64_t i, float p) { x[i] = F{} + p; });
  return 4.0 * (double)count * passes;
}

extern "C" double memory_copy(float* a, const float* b, int64_t count, int passes, int threads,
                              int streamed) {
  F* x = (F*)a;
  const F* y = (const F*)b;
  if (streamed)
    passes_of(count, passes, threads, [=](int64_t i, float) { stream(x + i, y[i]); });
  else
    passes_of(count, passes, threads, [=](int64_t i, float p) { x[i] = y[i] + p; });
  return 8.0 * (double)count * passes;
}

extern "C" double memory_triad(float* a, const float* b, const float* c, int64_t count, int passes,
                               int threads, int streamed) {
  F* x = (F*)a;
  const F *y = (const F*)b, *z = (const F*)c;
  if (streamed)
    passes_of(count, passes, threads,
              [=](int64_t i, float p) { stream(x + i, y[i] + z[i] * p); });
  else
    passes_of(count, passes, threads, [=](int64_t i, float p) { x[i] = y[i] + z[i] * p; });
  return 12.0 * (double)count * passes;
}
