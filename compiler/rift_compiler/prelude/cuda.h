// What every generated CUDA file begins with. NVRTC has no standard headers without an include
// path; none are needed. The half conversions are PTX ISA 9.7.9 (cvt), there on sm_80 and later.
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
#define RIFT_FN __device__ __forceinline__
#define RIFT_INF __int_as_float(0x7f800000)
#define RIFT_NAN __int_as_float(0x7fffffff)
__device__ __forceinline__ void rift_fail(int) { __trap(); }
struct f16 { uint16_t bits; };
struct bf16 { uint16_t bits; };
__device__ __forceinline__ float rift_f16_to_f32(f16 x) {
  float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y;
}
__device__ __forceinline__ f16 rift_f32_to_f16(float x) {
  f16 y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y;
}
__device__ __forceinline__ float rift_bf16_to_f32(bf16 x) {
  return __uint_as_float((uint32_t)x.bits << 16);
}
__device__ __forceinline__ bf16 rift_f32_to_bf16(float x) {
  bf16 y; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y;
}
// A run of N elements moved at once: the compiler makes ld/st.v2 or .v4 of it.
template <class T, int N> struct alignas(sizeof(T) * N) rift_run { T at[N]; };
