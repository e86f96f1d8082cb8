// Arithmetic in a directed rounding, by the processor's own modes. This file is compiled with
// -frounding-math: results may not be computed ahead of time.
#include <fenv.h>
static const int MODES[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};

template <class T> static T directed(int op, int rounding, T a, T b, T c) {
  fesetround(MODES[rounding]);
  volatile T x = a, y = b, z = c, out;
  switch (op) {
    case F_ADD: out = x + y; break;
    case F_SUB: out = x - y; break;
    case F_MUL: out = x * y; break;
    case F_DIV: out = x / y; break;
    case F_SQRT: out = sizeof(T) == 4 ? (T)__builtin_sqrtf((f32)x) : (T)__builtin_sqrt(x); break;
    default: out = fma_any((T)x, (T)y, (T)z);
  }
  fesetround(FE_TONEAREST);
  return out;
}
f32 directed32(int op, int r, f32 a, f32 b, f32 c) { return directed(op, r, a, b, c); }
f64 directed64(int op, int r, f64 a, f64 b, f64 c) { return directed(op, r, a, b, c); }

f64 int_to_float(u64 bits, bool is_signed_, bool single, int rounding) {
  fesetround(MODES[rounding]);
  volatile u64 u = bits;
  volatile f64 out;
  if (single) out = is_signed_ ? (f32)(s64)u : (f32)u;
  else out = is_signed_ ? (f64)(s64)u : (f64)u;
  fesetround(FE_TONEAREST);
  return out;
}
