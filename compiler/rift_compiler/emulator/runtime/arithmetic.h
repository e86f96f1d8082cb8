// Integer, bit and comparison instructions (PTX ISA 9.0, 9.7.1, 9.7.2, 9.7.6 to 9.7.8).
#pragma once
template <class T> struct wide_of;
template <> struct wide_of<u16> { typedef u32 type; };
template <> struct wide_of<s16> { typedef s32 type; };
template <> struct wide_of<u32> { typedef u64 type; };
template <> struct wide_of<s32> { typedef s64 type; };
template <> struct wide_of<u64> { typedef u128 type; };
template <> struct wide_of<s64> { typedef s128 type; };
template <class T> using wide = typename wide_of<T>::type;
template <class T> static const bool is_signed = (T)-1 < (T)0;

template <class T> static inline T i_add(T a, T b) { return (T)(a + b); }
template <class T> static inline T i_sub(T a, T b) { return (T)(a - b); }
template <class T> static inline T mul_lo(T a, T b) { return (T)((wide<T>)a * b); }
template <class T> static inline T mul_hi(T a, T b) {
  return (T)(((wide<T>)a * b) >> (8 * sizeof(T)));
}
template <class T> static inline wide<T> mul_wide(T a, T b) { return (wide<T>)a * b; }
static inline s32 clamp_s32(s64 x) {
  return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : (s32)x;
}
template <class T> static inline T mul24_lo(T a, T b) {
  s64 x = is_signed<T> ? ((s32)(a << 8) >> 8) : (s64)(a & 0xffffff);
  s64 y = is_signed<T> ? ((s32)(b << 8) >> 8) : (s64)(b & 0xffffff);
  return (T)(x * y);
}
// A GPU gives all ones where an integer is divided by zero; the remainder is the dividend.
template <class T> static inline T i_div(T a, T b) {
  if (b == 0) return (T)-1;
  if (is_signed<T> && b == (T)-1) return (T)(0 - a);
  return (T)(a / b);
}
template <class T> static inline T i_rem(T a, T b) {
  if (b == 0) return a;
  if (is_signed<T> && b == (T)-1) return 0;
  return (T)(a % b);
}
template <class T> static inline T i_abs(T a) { return a < 0 ? (T)(0 - a) : a; }
template <class T> static inline T i_min(T a, T b) { return a < b ? a : b; }
template <class T> static inline T i_max(T a, T b) { return a > b ? a : b; }
template <class T> static inline T i_sad(T a, T b, T c) { return (T)(c + (a > b ? a - b : b - a)); }
template <class T> static inline T shift_left(T a, u32 n) {
  return n >= 8 * sizeof(T) ? (T)0 : (T)(a << n);
}
template <class T> static inline T shift_right(T a, u32 n) {
  return n >= 8 * sizeof(T) ? (T)(is_signed<T> && a < 0 ? -1 : 0) : (T)(a >> n);
}
static inline u32 popc(u64 a) { return (u32)__builtin_popcountll(a); }
static inline u32 clz32(u32 a) { return a ? (u32)__builtin_clz(a) : 32; }
static inline u32 clz64(u64 a) { return a ? (u32)__builtin_clzll(a) : 64; }
template <class T> static inline u32 bfind(T a, bool shift) {
  u64 x = is_signed<T> && a < 0 ? ~(u64)(s64)a : (u64)a;
  if (sizeof(T) == 4) x &= 0xffffffff;
  if (!x) return 0xffffffff;
  u32 at = 63 - (u32)__builtin_clzll(x);
  return shift ? (u32)(8 * sizeof(T)) - 1 - at : at;
}
template <class T> static inline T brev(T a) {
  T out = 0;
  for (u32 i = 0; i < 8 * sizeof(T); i++) out = (T)(out << 1 | ((a >> i) & 1));
  return out;
}
template <class T> static inline T bfe(T a, u32 position, u32 length) {
  u32 bits = 8 * sizeof(T), pos = position & 255, len = length & 255;
  u32 sign_at = pos + len - 1 < bits - 1 ? pos + len - 1 : bits - 1;
  u64 raw = sizeof(T) == 4 ? (u64)(u32)a : (u64)a;
  bool fill = is_signed<T> && len && (raw >> sign_at & 1);
  u64 out = 0;
  for (u32 i = 0; i < bits; i++) {
    bool bit = i < len && pos + i < bits ? raw >> (pos + i) & 1 : fill;
    out |= (u64)bit << i;
  }
  return (T)out;
}
template <class T> static inline T bfi(T a, T b, u32 position, u32 length) {
  u32 bits = 8 * sizeof(T), pos = position & 255, len = length & 255;
  for (u32 i = 0; i < len && pos + i < bits; i++)
    b = (T)((b & ~((T)1 << (pos + i))) | ((a >> i & 1) << (pos + i)));
  return b;
}
static inline u32 lop3(u32 a, u32 b, u32 c, u32 table) {
  u32 out = 0;
  if (table & 0x01) out |= ~a & ~b & ~c;
  if (table & 0x02) out |= ~a & ~b & c;
  if (table & 0x04) out |= ~a & b & ~c;
  if (table & 0x08) out |= ~a & b & c;
  if (table & 0x10) out |= a & ~b & ~c;
  if (table & 0x20) out |= a & ~b & c;
  if (table & 0x40) out |= a & b & ~c;
  if (table & 0x80) out |= a & b & c;
  return out;
}
static inline u32 shf_l(u32 a, u32 b, u32 c, bool wrap) {
  u32 n = wrap ? c & 31 : c > 32 ? 32 : c;
  return n == 32 ? a : n ? b << n | a >> (32 - n) : b;
}
static inline u32 shf_r(u32 a, u32 b, u32 c, bool wrap) {
  u32 n = wrap ? c & 31 : c > 32 ? 32 : c;
  return n == 32 ? b : n ? b << (32 - n) | a >> n : a;
}
static inline u32 prmt(u32 a, u32 b, u32 c) {
  u64 both = (u64)b << 32 | a;
  u32 out = 0;
  for (u32 i = 0; i < 4; i++) {
    u32 pick = c >> 4 * i & 15, byte = (u32)(both >> 8 * (pick & 7)) & 255;
    if (pick & 8) byte = byte & 128 ? 255 : 0;
    out |= byte << 8 * i;
  }
  return out;
}
static inline u32 prmt_byte(u32 a, u32 b, const u8* pick) {
  u64 both = (u64)b << 32 | a;
  u32 out = 0;
  for (u32 i = 0; i < 4; i++) out |= ((u32)(both >> 8 * pick[i]) & 255) << 8 * i;
  return out;
}
// The other modes of prmt: which byte goes where, by the low two bits of c.
static inline u32 prmt_mode(u32 a, u32 b, u32 c, u32 mode) {
  static const u8 table[6][4][4] = {
      {{0, 1, 2, 3}, {1, 2, 3, 4}, {2, 3, 4, 5}, {3, 4, 5, 6}},   // f4e
      {{0, 7, 6, 5}, {1, 0, 7, 6}, {2, 1, 0, 7}, {3, 2, 1, 0}},   // b4e
      {{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}},   // rc8
      {{0, 1, 2, 3}, {1, 1, 2, 3}, {2, 2, 2, 3}, {3, 3, 3, 3}},   // ecl
      {{0, 0, 0, 0}, {0, 1, 1, 1}, {0, 1, 2, 2}, {0, 1, 2, 3}},   // ecr
      {{0, 1, 0, 1}, {2, 3, 2, 3}, {0, 1, 0, 1}, {2, 3, 2, 3}}};  // rc16
  return prmt_byte(a, b, table[mode][c & 3]);
}
template <class A, class B> static inline u32 dp4a(u32 a, u32 b, u32 c) {
  for (u32 i = 0; i < 4; i++) c += (u32)((s32)(A)(a >> 8 * i) * (s32)(B)(b >> 8 * i));
  return c;
}
template <class A, class B> static inline u32 dp2a(u32 a, u32 b, u32 c, u32 first) {
  typedef typename uint_of<2>::type half;
  for (u32 i = 0; i < 2; i++) {
    half raw = (half)(a >> 16 * i);
    s32 x = is_signed<A> ? (s32)(s16)raw : (s32)raw;
    c += (u32)(x * (s32)(B)(b >> 8 * (first + i)));
  }
  return c;
}
static inline u32 bmsk(u32 position, u32 length, bool wrap) {
  if (wrap) position &= 31, length &= 31;
  if (position >= 32 || !length) return 0;
  u32 ones = length >= 32 ? ~0u : (1u << length) - 1;
  return ones << position;
}
template <class T> static inline T szext(T a, u32 n, bool wrap) {
  if (wrap) n &= 31;
  if (n == 0) return 0;
  if (n >= 32) return a;
  T up = (T)((u32)a << (32 - n));
  return (T)(up >> (32 - n));
}
template <class T> static inline T add_carry(T a, T b, bool in, bool& out) {
  wide<T> sum = (wide<T>)a + b + in;
  out = sum >> (8 * sizeof(T));
  return (T)sum;
}
template <class T> static inline T sub_borrow(T a, T b, bool in, bool& out) {
  out = (wide<T>)a < (wide<T>)b + in;
  return (T)(a - b - in);
}
