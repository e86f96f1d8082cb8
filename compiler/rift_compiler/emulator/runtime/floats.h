// Floating-point instructions (PTX ISA 9.0, 9.7.3 to 9.7.5). Products and sums are rounded one by
// one unless the instruction is an fma. Functions called approximate are computed to about half an
// ulp, closer than a GPU's own (ex2 2 ulp, lg2 and rsqrt 2^-22, rcp and sqrt 1 ulp, tanh 2^-11,
// sin and cos 2^-20.5 absolute in [-pi, pi]).
#pragma once
enum Rounding { RN, RZ, RM, RP, RNA };
template <class T> static inline T quiet_nan();
template <> inline f32 quiet_nan<f32>() { return __builtin_bit_cast(f32, 0x7fffffffu); }
template <> inline f64 quiet_nan<f64>() { return __builtin_bit_cast(f64, 0x7fffffffffffffffull); }
template <> inline f16 quiet_nan<f16>() { return __builtin_bit_cast(f16, (u16)0x7fff); }
template <> inline bf16 quiet_nan<bf16>() { return bf16{0x7fff}; }

static inline f32 from_bf16(bf16 x) { return __builtin_bit_cast(f32, (u32)x.bits << 16); }
static inline bf16 to_bf16(f32 x) {
  u32 u = __builtin_bit_cast(u32, x);
  if (x != x) return bf16{0x7fff};
  return bf16{(u16)((u + 0x7fff + (u >> 16 & 1)) >> 16)};
}
// up: a value to the type it is computed in, exactly; down: back, to nearest even.
static inline f32 up(f32 x) { return x; }
static inline f64 up(f64 x) { return x; }
static inline f32 up(f16 x) { return (f32)x; }
static inline f32 up(bf16 x) { return from_bf16(x); }
template <class T> static inline T down(f32 x);
template <> inline f32 down<f32>(f32 x) { return x; }
template <> inline f16 down<f16>(f32 x) { return x == x ? (f16)x : quiet_nan<f16>(); }
template <> inline bf16 down<bf16>(f32 x) { return to_bf16(x); }
template <class T> static inline T down(f64 x) { return (T)x; }

template <class T> static inline T sign_bit();
template <class T> using bits_of = typename uint_of<sizeof(T)>::type;
template <class T> static inline bits_of<T> raw(T x) { return __builtin_bit_cast(bits_of<T>, x); }
template <class T> static inline T f_neg(T x) {
  return __builtin_bit_cast(T, (bits_of<T>)(raw(x) ^ (bits_of<T>)1 << (8 * sizeof(T) - 1)));
}
template <class T> static inline T f_abs(T x) {
  return __builtin_bit_cast(T, (bits_of<T>)(raw(x) & ~((bits_of<T>)1 << (8 * sizeof(T) - 1))));
}
template <class T> static inline bool is_nan(T x) { auto y = up(x); return y != y; }
template <class T> struct smallest_normal;
template <> struct smallest_normal<f32> { static constexpr f32 value = 0x1p-126f; };
template <> struct smallest_normal<f16> { static constexpr f32 value = 0x1p-14f; };
template <> struct smallest_normal<bf16> { static constexpr f32 value = 0x1p-126f; };
template <> struct smallest_normal<f64> { static constexpr f64 value = 0x1p-1022; };
// A subnormal becomes zero of its sign.
template <bool FTZ, class T> static inline T ftz(T x) {
  if constexpr (FTZ) {
    auto a = up(f_abs(x));
    if (a < smallest_normal<T>::value)
      return __builtin_bit_cast(T, (bits_of<T>)(raw(x) & (bits_of<T>)1 << (8 * sizeof(T) - 1)));
  }
  return x;
}
template <bool SAT, class T> static inline T saturate(T x) {
  if constexpr (SAT) {
    auto y = up(x);
    return y > 1 ? down<T>((decltype(y))1) : y > 0 ? x : down<T>((decltype(y))0);
  }
  return x;
}
template <bool RELU, class T> static inline T relu(T x) {
  if constexpr (RELU) {
    if (is_nan(x)) return quiet_nan<T>();
    return up(x) > 0 ? x : down<T>((decltype(up(x)))0);
  }
  return x;
}
enum FloatOp { F_ADD, F_SUB, F_MUL, F_FMA, F_DIV, F_SQRT };
f32 directed32(int op, int rounding, f32 a, f32 b, f32 c);
f64 directed64(int op, int rounding, f64 a, f64 b, f64 c);

static inline f32 fma_any(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
static inline f64 fma_any(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
// A double rounded to odd in single precision: rounding that to 16 bits rounds once in all (Boldo and
// Melquiond, 2008).
static inline f32 to_odd(f64 s) {
  f32 f = (f32)s;
  u32 v = __builtin_bit_cast(u32, f);
  if ((f64)f == s || f - f != 0) return f;
  if (__builtin_fabs((f64)f) > __builtin_fabs(s)) v--;
  return __builtin_bit_cast(f32, v | 1);
}
// a*b+c of 16-bit floats, rounded to odd in double and then in single precision.
static inline f32 fma_to_odd(f32 a, f32 b, f32 c) {
  f64 p = (f64)a * b, s = p + c;
  if (!(s - s == 0)) return (f32)s;
  f64 back = s - p, error = (p - (s - back)) + (c - back);
  u64 u = __builtin_bit_cast(u64, s);
  if (error != 0 && !(u & 1)) s = __builtin_bit_cast(f64, (error > 0) == (s > 0) ? u + 1 : u - 1);
  return to_odd(s);
}
template <class T, int ROUND> static inline T f_compute(int op, T a, T b, T c) {
  if constexpr (sizeof(T) == 2) {
    if (op == F_FMA) return down<T>(fma_to_odd(up(a), up(b), up(c)));
    f32 x = up(a), y = up(b);
    return down<T>(op == F_ADD ? x + y : op == F_SUB ? x - y : x * y);
  } else if constexpr (ROUND == RN) {
    switch (op) {
      case F_ADD: return a + b;
      case F_SUB: return a - b;
      case F_MUL: return a * b;
      case F_DIV: return a / b;
      case F_SQRT: return sizeof(T) == 4 ? (T)__builtin_sqrtf((f32)a) : (T)__builtin_sqrt(a);
      default: return fma_any(a, b, c);
    }
  } else if constexpr (sizeof(T) == 4) {
    return directed32(op, ROUND, a, b, c);
  } else {
    return directed64(op, ROUND, a, b, c);
  }
}
template <class T, int OP, int ROUND, bool FTZ, bool SAT, bool RELU>
static inline T f_op(T a, T b, T c) {
  T out = f_compute<T, ROUND>(OP, ftz<FTZ>(a), ftz<FTZ>(b), ftz<FTZ>(c));
  return relu<RELU>(saturate<SAT>(ftz<FTZ>(out)));
}
// min and max: of a number and a NaN the number, unless NAN is asked for; -0 is below +0.
template <class T, bool LESS, bool FTZ, bool NAN_WINS, bool XORSIGN>
static inline T f_minmax(T a0, T b0) {
  T a = ftz<FTZ>(a0), b = ftz<FTZ>(b0), out = a;
  if (XORSIGN) a = f_abs(a), b = f_abs(b);
  if (is_nan(a) || is_nan(b)) {
    out = NAN_WINS || (is_nan(a) && is_nan(b)) ? quiet_nan<T>() : is_nan(a) ? b : a;
  } else if (up(a) == up(b)) {
    bool negative = raw(a) >> (8 * sizeof(T) - 1);
    out = negative == LESS ? a : b;
  } else {
    out = (up(a) < up(b)) == LESS ? a : b;
  }
  if (XORSIGN && ((raw(a0) ^ raw(b0)) >> (8 * sizeof(T) - 1))) out = f_neg(out);
  return out;
}
template <bool FTZ, class F> static inline f32 approximate(f32 x, F f) { return ftz<FTZ>((f32)f(ftz<FTZ>(x))); }
static inline f64 exact_ex2(f64 x) { return __builtin_exp2(x); }
template <bool FTZ> static inline f32 ex2_approx(f32 x) { return ftz<FTZ>(__builtin_exp2f(ftz<FTZ>(x))); }
template <bool FTZ> static inline f32 lg2_approx(f32 x) { return ftz<FTZ>(__builtin_log2f(ftz<FTZ>(x))); }
template <bool FTZ> static inline f32 rcp_approx(f32 x) { return ftz<FTZ>(1.0f / ftz<FTZ>(x)); }
template <bool FTZ> static inline f32 sqrt_approx(f32 x) { return ftz<FTZ>(__builtin_sqrtf(ftz<FTZ>(x))); }
template <bool FTZ> static inline f32 rsqrt_approx(f32 x) {
  return ftz<FTZ>((f32)(1.0 / __builtin_sqrt((f64)ftz<FTZ>(x))));
}
template <bool FTZ> static inline f32 sin_approx(f32 x) { return ftz<FTZ>(__builtin_sinf(ftz<FTZ>(x))); }
template <bool FTZ> static inline f32 cos_approx(f32 x) { return ftz<FTZ>(__builtin_cosf(ftz<FTZ>(x))); }
template <bool FTZ> static inline f32 tanh_approx(f32 x) { return ftz<FTZ>(__builtin_tanhf(ftz<FTZ>(x))); }
template <class T, bool FTZ, class F> static inline T in_single(T x, F f) { return ftz<FTZ>(down<T>(f(up(ftz<FTZ>(x))))); }

template <class T, class F> static inline two<T> each(two<T> a, F f) { return {f(a.lo), f(a.hi)}; }
template <class T, class F> static inline two<T> each(two<T> a, two<T> b, F f) {
  return {f(a.lo, b.lo), f(a.hi, b.hi)};
}
template <class T, class F> static inline two<T> each(two<T> a, two<T> b, two<T> c, F f) {
  return {f(a.lo, b.lo, c.lo), f(a.hi, b.hi, c.hi)};
}
static inline f32 copysign_any(f32 a, f32 b) { return __builtin_copysignf(b, a); }
static inline f64 copysign_any(f64 a, f64 b) { return __builtin_copysign(b, a); }
// testp's classes: finite, infinite, number, notanumber, normal, subnormal.
template <class T> static inline bool testp(int what, T x) {
  T a = f_abs(x);
  bool nan = x != x, finite = x - x == 0, tiny = a < smallest_normal<T>::value;
  switch (what) {
    case 0: return finite;
    case 1: return !finite && !nan;
    case 2: return !nan;
    case 3: return nan;
    case 4: return finite && !tiny;
    default: return tiny && a != 0;
  }
}
