// Products of small matrices: in single precision, or exactly as tensor cores round them.
enum Element { E_F16, E_BF16, E_TF32, E_E4M3, E_E5M2, E_S8, E_U8, E_F64 };

static const u32 ELEMENT_BYTES[] = {2, 2, 4, 1, 1, 1, 1, 8};
static f32 e4m3_table[256], e5m2_table[256];

static void make_tables() {
  for (int i = 0; i < 256; i++) e4m3_table[i] = from_e4m3((u8)i), e5m2_table[i] = from_e5m2((u8)i);
}

typedef f32 v8 __attribute__((vector_size(32), aligned(4)));
typedef short halves8 __attribute__((vector_size(16), aligned(2)));

// `n` elements of a type as single-precision numbers, n a multiple of 8 but for 32-bit types.
static void to_singles(u32 type, const u8* from, f32* to, u32 n) {
  switch (type) {
    case E_F16:
#ifdef __F16C__
      for (u32 i = 0; i < n; i += 8)
        *(v8*)(to + i) = (v8)__builtin_ia32_vcvtph2ps256(*(const halves8*)(from + 2 * i));
#else
      for (u32 i = 0; i < n; i++) to[i] = (f32)((const f16*)from)[i];
#endif
      break;
    case E_BF16: for (u32 i = 0; i < n; i++) to[i] = from_bf16(((const bf16*)from)[i]); break;
    case E_TF32:  // the low 13 bits are not read
      for (u32 i = 0; i < n; i++) to[i] = __builtin_bit_cast(f32, ((const u32*)from)[i] & ~0x1fffu);
      break;
    case E_E4M3: for (u32 i = 0; i < n; i++) to[i] = e4m3_table[from[i]]; break;
    case E_E5M2: for (u32 i = 0; i < n; i++) to[i] = e5m2_table[from[i]]; break;
    case E_S8: for (u32 i = 0; i < n; i++) to[i] = (f32)(s8)from[i]; break;
    default: for (u32 i = 0; i < n; i++) to[i] = (f32)from[i];
  }
}

// How a tensor core adds: products of `chunk` pairs and the sum so far are aligned to the largest
// exponent, cut after `fraction` bits, added exactly, then cut (single: to `digits` bits) or rounded
// (half). Measured on GPUs by Li et al., arXiv 2511.10909; zero counts as exponent `zero`.
struct Exactly { u32 fraction, chunk; s32 zero, least_a, least_b; u32 digits; bool half; };

static s32 least_exponent(u32 type) {
  return type == E_F16 || type == E_E5M2 ? -14 : type == E_E4M3 ? -6 : -126;
}

static bool hopper_or_later() { return L->arch >= 90; }

static Exactly exactly(u32 a_type, u32 b_type, bool half, bool wgmma) {
  bool late = hopper_or_later(), fp8 = a_type == E_E4M3 || a_type == E_E5M2;
  bool coarse = fp8 && (wgmma || L->arch == 89);  // fp8 of Ada, and of Hopper's wgmma
  Exactly x;
  x.fraction = coarse ? 13 : late ? 25 : 24;
  x.chunk = (late ? 32 : 16) / ELEMENT_BYTES[a_type];
  x.zero = (half ? -20 : -132) - late;
  x.least_a = least_exponent(a_type), x.least_b = least_exponent(b_type);
  x.digits = coarse ? 14 : 24;
  x.half = half;
  return x;
}

struct Parts { s64 digits; s32 exponent; };  // digits * 2^(exponent - 23)

static inline Parts parts(f32 x, s32 least) {
  u32 u = __builtin_bit_cast(u32, x), e = u >> 23 & 255, m = u & 0x7fffff;
  s64 d = e ? m | 0x800000 : m;
  s32 exponent = (e ? (s32)e : 1) - 127;
  // A number below the type's least exponent is one of its subnormals: it keeps that exponent.
  if (exponent < least) d = least - exponent < 40 ? d >> (least - exponent) : 0, exponent = least;
  return {u >> 31 ? -d : d, exponent};
}

static inline s64 cut(s64 digits, s32 left) {
  if (left >= 0) return digits << left;
  s64 magnitude = digits < 0 ? -digits : digits;
  magnitude = -left < 63 ? magnitude >> -left : 0;
  return digits < 0 ? -magnitude : magnitude;
}

static f32 finish(s64 sum, s32 exponent, const Exactly& x) {
  f64 v = __builtin_ldexp((f64)sum, exponent - (s32)x.fraction);
  if (v == 0) return 0.0f;
  if (x.half) return (f32)narrow(v, 11, -14, 65504, RN, false) + 0.0f;  // no negative zero
  int e;
  __builtin_frexp(v, &e);
  e = e - 1 < -126 ? -126 : e - 1;
  s32 unit = e - (s32)x.digits + 1;
  return (f32)__builtin_ldexp(__builtin_trunc(__builtin_ldexp(v, -unit)), unit) + 0.0f;
}

static f32 special_sum(const f32* a, const f32* b, u32 stride, u32 n, f32 c) {
  f64 sum = c;
  for (u32 i = 0; i < n; i++) sum += (f64)a[i] * b[i * stride];
  return sum == sum ? (f32)sum : quiet_nan<f32>();
}

static f32 exact_chunk(const f32* a, const f32* b, u32 stride, u32 n, f32 c, const Exactly& x) {
  s64 digits[33];
  s32 exponents[33], most = INT32_MIN;
  bool finite = c - c == 0;
  for (u32 i = 0; i < n; i++) {
    finite &= a[i] - a[i] == 0 && b[i * stride] - b[i * stride] == 0;
    Parts p = parts(a[i], x.least_a), q = parts(b[i * stride], x.least_b);
    digits[i] = p.digits * q.digits;
    exponents[i] = digits[i] ? p.exponent + q.exponent : x.zero;
    most = std::max(most, exponents[i]);
  }
  if (!finite) return special_sum(a, b, stride, n, c);
  Parts p = parts(c, x.half ? -14 : -126);
  s32 of_c = p.digits ? p.exponent : x.zero;
  most = std::max(most, of_c);
  s64 sum = cut(p.digits, (s32)x.fraction - 23 - (most - of_c));
  for (u32 i = 0; i < n; i++) sum += cut(digits[i], (s32)x.fraction - 46 - (most - exponents[i]));
  return finish(sum, most, x);
}

static void multiply_exact(const f32* a, const f32* b, f32* d, u32 rows, u32 n, u32 k, u32 ldd,
                           const Exactly& x) {
  u32 chunk = std::min(k, x.chunk);
  for (u32 i = 0; i < rows; i++)
    for (u32 j = 0; j < n; j++)
      for (u32 at = 0; at < k; at += chunk)
        d[i * ldd + j] = exact_chunk(a + i * k + at, b + at * n + j, n, chunk, d[i * ldd + j], x);
}

// d (rows x n, rows ldd apart) += a (rows x k) b (k x n); n a multiple of 8, rows of 8.
static void multiply_single(const f32* a, const f32* b, f32* d, u32 rows, u32 n, u32 k, u32 ldd) {
  for (u32 j = 0; j < n; j += 8)
    for (u32 i = 0; i < rows; i += 8) {
      v8 sum[8];
      for (u32 r = 0; r < 8; r++) sum[r] = *(v8*)(d + (i + r) * ldd + j);
      for (u32 x = 0; x < k; x++) {
        v8 row = *(const v8*)(b + x * n + j);
        for (u32 r = 0; r < 8; r++) {
          f32 v = a[(i + r) * k + x];
          v8 wide = {v, v, v, v, v, v, v, v};
#ifdef __FMA__
          sum[r] = (v8)__builtin_ia32_vfmaddps256(wide, row, sum[r]);
#else
          sum[r] += wide * row;
#endif
        }
      }
      for (u32 r = 0; r < 8; r++) *(v8*)(d + (i + r) * ldd + j) = sum[r];
    }
}

static void multiply(const f32* a, const f32* b, f32* d, u32 rows, u32 n, u32 k, u32 a_type,
                     u32 b_type, bool half, bool wgmma) {
  if (L->exact) multiply_exact(a, b, d, rows, n, k, n, exactly(a_type, b_type, half, wgmma));
  else multiply_single(a, b, d, rows, n, k, n);
}
