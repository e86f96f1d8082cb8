// What every generated C++ file begins with.
#include <math.h>
#include <stdint.h>
#include <string.h>
#define RIFT_FN static inline
#define RIFT_INF INFINITY
static int rift_error;  // 1: index out of range, 2: integer division by zero
static inline void rift_fail(int code) { __atomic_fetch_or(&rift_error, code, __ATOMIC_RELAXED); }
// The errors since they were last asked for. Calls that run at one time may get each other's, but
// none is lost.
static inline int rift_errors() { return __atomic_exchange_n(&rift_error, 0, __ATOMIC_RELAXED); }
typedef _Float16 f16;
struct bf16 { uint16_t bits; };
static inline float rift_f16_to_f32(f16 x) { return (float)x; }
static inline f16 rift_f32_to_f16(float x) { return (f16)x; }
static inline float rift_bf16_to_f32(bf16 x) {
  uint32_t u = (uint32_t)x.bits << 16; float f; memcpy(&f, &u, 4); return f;
}
static inline bf16 rift_f32_to_bf16(float x) {  // to nearest, ties to even; NaN stays NaN
  uint32_t u; memcpy(&u, &x, 4);
  uint32_t r = (u + 0x7FFF + ((u >> 16) & 1)) >> 16;
  bf16 out = { (uint16_t)(x != x ? 0x7FC0 : r) };
  return out;
}
