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

// Numbers as digits * 2^(exponent - 23), by columns so that loops over them become vector code.
// sign is 0 or -1; an infinity or NaN makes all of them `special`.
struct Parts {
  std::vector<u32> digits;
  std::vector<s32> exponent, sign;
  bool special;
  void resize(size_t n) { digits.resize(n), exponent.resize(n), sign.resize(n), special = false; }
  void set(size_t i, f32 x, s32 least) {
    u32 u = __builtin_bit_cast(u32, x), e = u >> 23 & 255, m = u & 0x7fffff;
    u32 d = e ? m | 0x800000 : m;
    s32 at = (e ? (s32)e : 1) - 127;
    // A number below the type's least exponent is one of its subnormals: it keeps that exponent.
    if (at < least) d = least - at < 24 ? d >> (least - at) : 0, at = least;
    digits[i] = d, exponent[i] = at, sign[i] = (s32)u >> 31;
    special |= e == 255;
  }
};

static inline f64 power_of_two(s32 e) { return __builtin_bit_cast(f64, (u64)(e + 1023) << 52); }

// sum * 2^(exponent - fraction), cut to `digits` bits or rounded to a half; zero is positive.
static inline f32 finish(s64 sum, s32 exponent, const Exactly& x) {
  if (sum == 0) return 0.0f;
  u64 m = sum < 0 ? (u64)-sum : (u64)sum;
  s32 scale = exponent - (s32)x.fraction;
  if (x.half) return (f32)(f16)to_odd((f64)sum * power_of_two(scale)) + 0.0f;
  s32 e = 63 - __builtin_clzll(m) + scale;
  s32 unit = (e < -126 ? -126 : e) - (s32)x.digits + 1;
  if (unit > scale) m = unit - scale < 64 ? m >> (unit - scale) : 0, scale = unit;
  f32 out = (f32)((f64)m * power_of_two(scale));
  return m == 0 ? 0.0f : sum < 0 ? -out : out;
}

static f32 special_sum(const f32* a, const f32* b, u32 n, f32 c) {
  f64 sum = c;
  for (u32 i = 0; i < n; i++) sum += (f64)a[i] * b[i];
  return sum == sum ? (f32)sum : quiet_nan<f32>();
}

#pragma GCC push_options
#pragma GCC optimize("O3")
// c + p . q over one chunk of N products.
template <u32 N> static f32 exact_chunk(const u32* p, const s32* pe, const s32* ps, const u32* q,
                                        const s32* qe, const s32* qs, f32 c, const Exactly& x) {
  u32 u = __builtin_bit_cast(u32, c), e = u >> 23 & 255, d = e ? (u & 0x7fffff) | 0x800000 : u & 0x7fffff;
  s32 c_exponent = d ? std::max((s32)(e ? e : 1) - 127, x.half ? -14 : -126) : x.zero;
  if (d && x.half && (s32)(e ? e : 1) - 127 < -14) d >>= -14 - ((s32)(e ? e : 1) - 127);
  u64 digits[N];
  s64 exponents[N];
  s64 most = c_exponent;
  for (u32 i = 0; i < N; i++) digits[i] = (u64)p[i] * q[i];
  for (u32 i = 0; i < N; i++) exponents[i] = digits[i] ? (s64)(pe[i] + qe[i]) : (s64)x.zero;
  for (u32 i = 0; i < N; i++) most = exponents[i] > most ? exponents[i] : most;
  s32 left = (s32)(x.fraction - 23 - (most - c_exponent));
  u64 m = left >= 0 ? (u64)d << left : -left < 64 ? (u64)d >> -left : 0;
  s64 sum = u >> 31 ? -(s64)m : (s64)m, base = 46 - (s64)x.fraction + most;
  for (u32 i = 0; i < N; i++) {
    s64 right = base - exponents[i];
    s64 term = (s64)(digits[i] >> (right > 63 ? 63 : right)), minus = (s64)(ps[i] ^ qs[i]);
    sum += (term ^ minus) - minus;
  }
  return finish(sum, (s32)most, x);
}
#pragma GCC pop_options

template <u32 N> static f32 exact_dot(const Parts& p, u32 at, const Parts& q, u32 bt, f32 c, const Exactly& x) {
  return exact_chunk<N>(&p.digits[at], &p.exponent[at], &p.sign[at], &q.digits[bt], &q.exponent[bt],
                        &q.sign[bt], c, x);
}

static f32 exact_sum(const Parts& p, u32 at, const Parts& q, u32 bt, u32 n, f32 c, const Exactly& x) {
  switch (n) {
    case 4: return exact_dot<4>(p, at, q, bt, c, x);
    case 8: return exact_dot<8>(p, at, q, bt, c, x);
    case 16: return exact_dot<16>(p, at, q, bt, c, x);
    default: return exact_dot<32>(p, at, q, bt, c, x);
  }
}

static void multiply_exact(const f32* a, const f32* b, f32* d, u32 rows, u32 n, u32 k, u32 ldd,
                           const Exactly& x) {
  u32 chunk = std::min(k, x.chunk);
  static Parts p, q;
  static std::vector<f32> columns;
  p.resize(rows * k), q.resize(n * k), columns.resize(n * k);
  for (u32 i = 0; i < rows * k; i++) p.set(i, a[i], x.least_a);
  for (u32 j = 0; j < n; j++)
    for (u32 i = 0; i < k; i++)
      columns[j * k + i] = b[i * n + j], q.set(j * k + i, b[i * n + j], x.least_b);
  bool special = p.special || q.special;
  for (u32 i = 0; i < rows; i++)
    for (u32 j = 0; j < n; j++) {
      f32& sum = d[i * ldd + j];
      for (u32 at = 0; at < k; at += chunk) {
        const f32 *x_row = a + i * k + at, *y_row = &columns[j * k + at];
        bool now = sum - sum != 0;
        for (u32 l = 0; special && l < chunk; l++) now |= x_row[l] - x_row[l] != 0 || y_row[l] - y_row[l] != 0;
        sum = now ? special_sum(x_row, y_row, chunk, sum)
                  : exact_sum(p, i * k + at, q, j * k + at, chunk, sum, x);
      }
    }
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
