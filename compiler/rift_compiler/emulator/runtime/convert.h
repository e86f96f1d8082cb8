// cvt (PTX ISA 9.0, 9.7.9.21). Every source value is exact in double, except 64-bit integers.
#pragma once
static inline f64 round_whole(f64 x, int rounding) {
  switch (rounding) {
    case RZ: return __builtin_trunc(x);
    case RM: return __builtin_floor(x);
    case RP: return __builtin_ceil(x);
    case RNA: return __builtin_round(x);
    default: return __builtin_rint(x);
  }
}
// A double rounded to a format of `digits` bits of significand and least exponent `least`; what
// exceeds `most` becomes infinity, or `most` where saturate is or the rounding goes towards zero.
static inline f64 narrow(f64 x, int digits, int least, f64 most, int rounding, bool saturate) {
  if (x == 0 || x - x != 0) return saturate && x - x != 0 && x == x ? __builtin_copysign(most, x) : x;
  int e;
  __builtin_frexp(x, &e);
  e = e - 1 < least ? least : e - 1;
  f64 y = __builtin_ldexp(round_whole(__builtin_ldexp(x, digits - 1 - e), rounding), e - digits + 1);
  if (__builtin_fabs(y) <= most) return y;
  bool stays = saturate || rounding == RZ || (rounding == RM && x > 0) || (rounding == RP && x < 0);
  return __builtin_copysign(stays ? most : __builtin_inf(), x);
}
template <class T, int ROUND> static inline T to_float(f64 x) {
  if constexpr (__is_same(T, f64)) return x;
  if (x != x) return quiet_nan<T>();
  if constexpr (__is_same(T, f32)) {
    if constexpr (ROUND == RN) return (f32)x;
    return (f32)narrow(x, 24, -126, 0x1.fffffep127, ROUND, false);
  } else if constexpr (__is_same(T, f16)) {
    return (f16)(f32)narrow(x, 11, -14, 65504, ROUND, false);
  } else {
    return to_bf16((f32)narrow(x, 8, -126, 0x1.fep127, ROUND, false));
  }
}
template <class T> static inline f64 widen(T x) {
  if constexpr (is_int<T>::value) return (f64)x;
  else return (f64)up(x);
}
template <class D, class S, int ROUND, bool FTZ, bool SAT> static inline D float_to_int(S s) {
  f64 x = round_whole(widen(ftz<FTZ>(s)), ROUND);
  if (x != x) return 0;
  const f64 top = sizeof(D) == 8 ? (is_signed<D> ? 0x1p63 : 0x1p64)
                                 : (f64)(1ull << (8 * sizeof(D) - is_signed<D>));
  const D most = (D)(is_signed<D> ? ~((u64)1 << (8 * sizeof(D) - 1)) : ~0ull);
  if (x >= top) return most;
  if (is_signed<D> ? x < -top : x < 0) return is_signed<D> ? (D)((u64)1 << (8 * sizeof(D) - 1)) : 0;
  return (D)x;
}
f64 int_to_float(u64 bits, bool is_signed, bool single, int rounding);
template <class D, class S, int ROUND> static inline D int_to(S s) {
  if constexpr (ROUND == RN && sizeof(D) >= 4) return (D)s;
  else if constexpr (sizeof(D) >= 4)
    return (D)int_to_float(is_signed<S> ? (u64)(s64)s : (u64)s, is_signed<S>, sizeof(D) == 4, ROUND);
  else return to_float<D, ROUND>((f64)s);
}
template <class D, class S, int ROUND, bool FTZ, bool SAT, bool RELU>
static inline D float_to_float(S s) {
  S x = ftz<FTZ>(s);
  D out;
  if constexpr (__is_same(D, S)) out = x;
  else if constexpr (sizeof(D) == 2 && sizeof(S) <= 4 && ROUND == RN) out = down<D>(up(x));
  else if constexpr (sizeof(D) > sizeof(S)) out = is_nan(x) ? quiet_nan<D>() : (D)up(x);
  else out = to_float<D, ROUND>(widen(x));
  return relu<RELU>(saturate<SAT>(ftz<FTZ && __is_same(D, f32)>(out)));
}
// A float to a whole number of its own type.
template <class T, int ROUND, bool FTZ, bool SAT> static inline T to_whole(T s) {
  f64 x = widen(ftz<FTZ>(s));
  return saturate<SAT>(to_float<T, RN>(x != x ? x : __builtin_copysign(round_whole(x, ROUND), x)));
}
template <class D, class S, bool SAT> static inline D int_to_int(S s) {
  if constexpr (!SAT) return (D)s;
  s128 least = is_signed<D> ? -((s128)1 << (8 * sizeof(D) - 1)) : 0;
  s128 most = ((s128)1 << (8 * sizeof(D) - is_signed<D>)) - 1;
  s128 x = (s128)s;
  return (D)(x < least ? least : x > most ? most : x);
}
template <int ROUND> static inline f32 to_tf32(f32 x, bool sat, bool relu_) {
  if (x != x) return quiet_nan<f32>();
  f32 y = (f32)narrow(x, 11, -126, 0x1.ffcp127, ROUND, sat);
  return relu_ && !(y > 0) ? 0.0f : y;
}
// 8-bit floats (PTX ISA 9.0, 5.2.3): e4m3 has no infinity, its NaN is 0x7f; both saturate.
static inline f32 from_e4m3(u8 x) {
  int e = x >> 3 & 15, m = x & 7;
  if (e == 15 && m == 7) return quiet_nan<f32>();
  f32 y = e ? __builtin_ldexpf((f32)(8 + m), e - 10) : __builtin_ldexpf((f32)m, -9);
  return x & 128 ? -y : y;
}
static inline f32 from_e5m2(u8 x) { return (f32)__builtin_bit_cast(f16, (u16)(x << 8)); }
static inline u8 to_e4m3(f32 x, bool relu_) {
  if (x != x) return 0x7f;
  if (relu_ && !(x > 0)) return 0;
  f64 y = __builtin_fabs(narrow(x, 4, -6, 448, RN, true));
  int e, sign = __builtin_signbit(x) ? 128 : 0;
  if (y < 0x1p-6) return (u8)(sign | (int)(y * 512));
  __builtin_frexp(y, &e);
  return (u8)(sign | (e + 6) << 3 | ((int)__builtin_ldexp(y, 4 - e) & 7));
}
static inline u8 to_e5m2(f32 x, bool relu_) {
  if (x != x) return 0x7f;
  if (relu_ && !(x > 0)) return 0;
  return (u8)(__builtin_bit_cast(u16, (f16)(f32)narrow(x, 3, -14, 57344, RN, true)) >> 8);
}
