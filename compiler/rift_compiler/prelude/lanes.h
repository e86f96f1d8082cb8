// Lanes: SIMD values, for kernels whose thread loop runs in lockstep in vector registers.
// Lanes<T, L> holds L values of T in as many native vectors as it takes; every operation that the
// scalar text uses is overloaded for it, so that the text of an expression is the same for both.
#include <stdio.h>
#include <type_traits>
#include <utility>
#ifdef __AVX512F__
#define RIFT_BYTES 64
#elif defined(__AVX__)
#define RIFT_BYTES 32
#else
#define RIFT_BYTES 16
#endif
// The last cache that one core sees. Not sysconf: on some processors it tells that of all cores. Of
// a larger one than 32 MiB, 32: it is shared by many cores, and a virtual machine cannot tell how many.
static int64_t rift_last_cache() {
  long kib = 0;
  for (int level = 3; level >= 2 && kib <= 0; level--) {
    char path[64];
    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/size", level);
    if (FILE* f = fopen(path, "r")) {
      if (fscanf(f, "%ldK", &kib) != 1) kib = 0;
      fclose(f);
    }
  }
  return (kib > 0 && kib < 32 << 10 ? kib : 32 << 10) * (int64_t)1024;
}
static const int64_t rift_cache_bytes = rift_last_cache();
#define RIFT_IN static inline __attribute__((always_inline))

// A native vector: RIFT_BYTES wide, or less where L values are not whole ones of them.
template <class T, int L> struct rift_native {
  static constexpr int all = L * (int)sizeof(T), power = all & -all;
  static constexpr int bytes = power < RIFT_BYTES ? power : RIFT_BYTES;
  static constexpr int width = bytes / (int)sizeof(T);
  static constexpr int count = L / width;
  typedef T type __attribute__((vector_size(bytes)));
  typedef T loose __attribute__((vector_size(bytes), aligned(sizeof(T)), may_alias));
};
template <class T> struct rift_stored { typedef T type; };
template <> struct rift_stored<bool> { typedef int32_t type; };
template <> struct rift_stored<f16> { typedef uint16_t type; };
template <> struct rift_stored<bf16> { typedef uint16_t type; };

template <class T, int L> struct Lanes {
  typedef typename rift_stored<T>::type S;
  typedef rift_native<S, L> N;
  static constexpr int C = N::count, W = N::width;
  typename N::type v[C];
  Lanes() = default;
  template <class U, class = std::enable_if_t<std::is_arithmetic<U>::value>>
  __attribute__((always_inline)) Lanes(U x) {
    S s = std::is_same<T, bool>::value ? (S)(x ? -1 : 0) : (S)x;
    for (int c = 0; c < C; c++) v[c] = s - (typename N::type){};
  }
  // f(lane) for every lane.
  template <class F> static __attribute__((always_inline)) Lanes each(F f) {
    alignas(64) S out[L];
    for (int t = 0; t < L; t++) out[t] = put(f(t));
    Lanes r;
    memcpy(&r, out, sizeof(r));
    return r;
  }
  static S put(T x) {
    if constexpr (std::is_same<T, bool>::value) return x ? -1 : 0;
    else { S s; memcpy(&s, &x, sizeof(s)); return s; }
  }
  T operator[](int t) const {
    S s = v[t / W][t % W];
    if constexpr (std::is_same<T, bool>::value) return s != 0;
    else { T x; memcpy(&x, &s, sizeof(x)); return x; }
  }
  void set(int t, T x) { v[t / W][t % W] = put(x); }
};

#define RIFT_BINARY(op) \
  template <class T, int L> RIFT_IN Lanes<T, L> operator op(Lanes<T, L> a, Lanes<T, L> b) { \
    for (int c = 0; c < a.C; c++) a.v[c] = a.v[c] op b.v[c]; \
    return a; \
  } \
  template <class T, int L> RIFT_IN Lanes<T, L> operator op(Lanes<T, L> a, T b) { return a op Lanes<T, L>(b); } \
  template <class T, int L> RIFT_IN Lanes<T, L> operator op(T a, Lanes<T, L> b) { return Lanes<T, L>(a) op b; }
RIFT_BINARY(+) RIFT_BINARY(-) RIFT_BINARY(*) RIFT_BINARY(&) RIFT_BINARY(|) RIFT_BINARY(^)
template <class T, int L> RIFT_IN Lanes<T, L> operator/(Lanes<T, L> a, Lanes<T, L> b) {
  static_assert(std::is_floating_point<T>::value, "integers divide by rift_truncdiv");
  for (int c = 0; c < a.C; c++) a.v[c] = a.v[c] / b.v[c];
  return a;
}
template <class T, int L> RIFT_IN Lanes<T, L> operator/(Lanes<T, L> a, T b) { return a / Lanes<T, L>(b); }
template <class T, int L> RIFT_IN Lanes<T, L> operator/(T a, Lanes<T, L> b) { return Lanes<T, L>(a) / b; }
template <class T, int L> RIFT_IN Lanes<T, L> operator-(Lanes<T, L> a) {
  for (int c = 0; c < a.C; c++) a.v[c] = -a.v[c];
  return a;
}
// Conversions between element types, native vector by native vector where both have one count.
template <class T, class U, int L> RIFT_IN Lanes<T, L> rift_convert(Lanes<U, L> a) {
  Lanes<T, L> r;
  typedef Lanes<U, L> A;
  typedef Lanes<T, L> R;
#if defined(__AVX512F__) && !defined(__clang__)  // g++ 12 makes two halves of these
  typedef short Short __attribute__((vector_size(32)));
  typedef int Int __attribute__((vector_size(64)));
  if constexpr (L == 16 && std::is_same<U, uint16_t>::value && std::is_same<T, uint32_t>::value) {
    r.v[0] = (typename R::N::type)__builtin_ia32_pmovzxwd512_mask((Short)a.v[0], (Int){}, -1);
    return r;
  }
  if constexpr (L == 16 && std::is_same<U, uint32_t>::value && std::is_same<T, uint16_t>::value) {
    r.v[0] = (typename R::N::type)__builtin_ia32_pmovdw512_mask((Int)a.v[0], (Short){}, -1);
    return r;
  }
#endif
  if constexpr (A::C == R::C) {
    for (int c = 0; c < A::C; c++) r.v[c] = __builtin_convertvector(a.v[c], typename R::N::type);
  } else {
    alignas(64) typename A::S x[L];
    alignas(64) typename R::S y[L];
    memcpy(x, &a, sizeof(x));
    for (int t = 0; t < L; t++) y[t] = (typename R::S)x[t];
    memcpy(&r, y, sizeof(r));
  }
  return r;
}
// A comparison is -1 or 0 in the type compared; as a bool it is -1 or 0 in int32.
#define RIFT_COMPARE(op) \
  template <class T, int L> RIFT_IN Lanes<bool, L> operator op(Lanes<T, L> a, Lanes<T, L> b) { \
    typedef std::make_signed_t<std::conditional_t<sizeof(T) == 8, int64_t, std::conditional_t<sizeof(T) == 4, int32_t, \
      std::conditional_t<sizeof(T) == 2, int16_t, int8_t>>>> M; \
    Lanes<M, L> m; \
    for (int c = 0; c < a.C; c++) m.v[c] = (typename Lanes<M, L>::N::type)(a.v[c] op b.v[c]); \
    Lanes<int32_t, L> w = rift_convert<int32_t>(m); \
    Lanes<bool, L> r; \
    memcpy(&r, &w, sizeof(r)); \
    return r; \
  } \
  template <class T, int L> RIFT_IN Lanes<bool, L> operator op(Lanes<T, L> a, T b) { return a op Lanes<T, L>(b); } \
  template <class T, int L> RIFT_IN Lanes<bool, L> operator op(T a, Lanes<T, L> b) { return Lanes<T, L>(a) op b; }
RIFT_COMPARE(==) RIFT_COMPARE(!=) RIFT_COMPARE(<) RIFT_COMPARE(<=) RIFT_COMPARE(>) RIFT_COMPARE(>=)

// where(m, a, b), lane by lane.
template <class T, int L> RIFT_IN Lanes<T, L> rift_where(Lanes<bool, L> m, Lanes<T, L> a, Lanes<T, L> b) {
  typedef Lanes<T, L> A;
  typedef std::conditional_t<sizeof(typename A::S) == 8, int64_t, std::conditional_t<sizeof(typename A::S) == 4, int32_t,
    std::conditional_t<sizeof(typename A::S) == 2, int16_t, int8_t>>> M;  // a mask is as wide as what it selects
  Lanes<int32_t, L> w;
  memcpy(&w, &m, sizeof(w));
  Lanes<M, L> wide = rift_convert<M>(w);
  for (int c = 0; c < A::C; c++) a.v[c] = wide.v[c] ? a.v[c] : b.v[c];
  return a;
}
template <class T, int L> RIFT_IN Lanes<T, L> rift_where(Lanes<bool, L> m, Lanes<T, L> a, T b) { return rift_where(m, a, Lanes<T, L>(b)); }
template <class T, int L> RIFT_IN Lanes<T, L> rift_where(Lanes<bool, L> m, T a, Lanes<T, L> b) { return rift_where(m, Lanes<T, L>(a), b); }
template <int L, class T> RIFT_IN Lanes<T, L> rift_spread(T x) {
  if constexpr (std::is_arithmetic<T>::value) return Lanes<T, L>(x);
  else return Lanes<T, L>::each([&](int) { return x; });
}
// first, first + step, ... from lane to lane.
template <int L> RIFT_IN Lanes<int32_t, L> rift_steps(int32_t first, int32_t step) {
  Lanes<int32_t, L> r = Lanes<int32_t, L>::each([](int32_t t) { return t; });
  return r * Lanes<int32_t, L>(step) + Lanes<int32_t, L>(first);
}

// Casts, as C converts; to bool whether it is not 0.
template <class T, class U, int L> RIFT_IN Lanes<T, L> rift_cast(Lanes<U, L> a) {
  if constexpr (std::is_same<T, U>::value) return a;
  else if constexpr (std::is_same<U, bool>::value) return rift_where(a, Lanes<T, L>((T)1), Lanes<T, L>((T)0));
  else if constexpr (std::is_same<T, bool>::value) return a != Lanes<U, L>((U)0);
  else return rift_convert<T>(a);
}
template <int L> RIFT_IN Lanes<float, L> rift_bf16_to_f32(Lanes<bf16, L> a) {
  Lanes<uint16_t, L> h;
  memcpy(&h, &a, sizeof(h));
  Lanes<uint32_t, L> w = rift_convert<uint32_t>(h);
  Lanes<float, L> r;
  for (int c = 0; c < w.C; c++) { auto x = w.v[c] << 16; memcpy(&r.v[c], &x, sizeof(x)); }
  return r;
}
template <int L> RIFT_IN Lanes<bf16, L> rift_f32_to_bf16(Lanes<float, L> a) {
  Lanes<uint32_t, L> w;
  memcpy(&w, &a, sizeof(w));
  for (int c = 0; c < w.C; c++) {
    auto r = (w.v[c] + 0x7FFF + ((w.v[c] >> 16) & 1)) >> 16;
    w.v[c] = a.v[c] != a.v[c] ? (decltype(r))(r * 0 + 0x7FC0) : r;
  }
  Lanes<uint16_t, L> h = rift_convert<uint16_t>(w);
  Lanes<bf16, L> out;
  memcpy(&out, &h, sizeof(out));
  return out;
}
template <int L> RIFT_IN Lanes<float, L> rift_f16_to_f32(Lanes<f16, L> a) {
#ifdef __F16C__
  if constexpr (L % 8 == 0) {
    Lanes<float, L> r;
    for (int t = 0; t < L; t += 8) {
      short h __attribute__((vector_size(16)));
      memcpy(&h, (const uint16_t*)&a + t, 16);
      auto x = __builtin_ia32_vcvtph2ps256(h);
      memcpy((float*)&r + t, &x, 32);
    }
    return r;
  }
#endif
  return Lanes<float, L>::each([&](int t) { return (float)a[t]; });
}
template <int L> RIFT_IN Lanes<f16, L> rift_f32_to_f16(Lanes<float, L> a) {
#ifdef __F16C__
  if constexpr (L % 8 == 0) {
    Lanes<f16, L> r;
    for (int t = 0; t < L; t += 8) {
      float x __attribute__((vector_size(32)));
      memcpy(&x, (const float*)&a + t, 32);
      auto h = __builtin_ia32_vcvtps2ph256(x, 0);  // 0: to nearest, ties to even
      memcpy((uint16_t*)&r + t, &h, 16);
    }
    return r;
  }
#endif
  return Lanes<f16, L>::each([&](int t) { return (f16)a[t]; });
}

// Memory. A load of consecutive elements; a store, past the caches where the output is large.
template <int L, class T> RIFT_IN Lanes<T, L> rift_load(const T* p) {
  Lanes<T, L> r;
  typedef Lanes<T, L> R;
  if constexpr (std::is_same<T, bool>::value) {
    return R::each([&](int t) { return p[t]; });
  } else {
    for (int c = 0; c < R::C; c++)
      r.v[c] = *(const typename R::N::loose*)((const typename R::S*)p + c * R::W);
    return r;
  }
}
template <int L, class T> RIFT_IN void rift_prefetch(const T* p) {
  for (int n = 0; n < L * (int)sizeof(T); n += 64) __builtin_prefetch((const char*)p + n);
}
template <int bytes> RIFT_IN void rift_stream(float* p, const void* from) {
  typedef typename rift_native<float, bytes / 4>::type V;
  V x;
  memcpy(&x, from, bytes);
#if __has_builtin(__builtin_nontemporal_store)
  __builtin_nontemporal_store(x, (V*)p);
#else
  if constexpr (bytes == 16) __builtin_ia32_movntps(p, x);
#ifdef __AVX__
  if constexpr (bytes == 32) __builtin_ia32_movntps256(p, x);
#endif
#ifdef __AVX512F__
  if constexpr (bytes == 64) __builtin_ia32_movntps512(p, x);
#endif
#endif
}
template <class T, int L> RIFT_IN void rift_store(T* p, Lanes<T, L> a, bool stream) {
  typedef Lanes<T, L> A;
  if constexpr (std::is_same<T, bool>::value) {
    for (int t = 0; t < L; t++) p[t] = a[t];
  } else if (stream && A::N::bytes >= 16) {
    for (int c = 0; c < A::C; c++)
      rift_stream<A::N::bytes>((float*)((typename A::S*)p + c * A::W), &a.v[c]);
  } else {
    for (int c = 0; c < A::C; c++)
      *(typename A::N::loose*)((typename A::S*)p + c * A::W) = a.v[c];
  }
}

// Whether an output is to be written past the caches: it is larger than a quarter of the last one,
// so that little of it would still be there when it is read, and its rows begin at whole lines.
RIFT_IN bool rift_streams(const void* p, int64_t bytes, int64_t row_bytes) {
  return bytes > rift_cache_bytes / 4 && (uintptr_t)p % 64 == 0 && row_bytes % 64 == 0;
}

// Reductions over the lanes, pairwise: the order never changes.
template <class T, int W, class F, size_t... I> RIFT_IN T rift_fold(Lanes<T, W> a, F f, std::index_sequence<I...>) {
  if constexpr (W == 1) {
    return a[0];
  } else {
    Lanes<T, W / 2> low, high;
    low.v[0] = (decltype(low.v[0] + 0))__builtin_shufflevector(a.v[0], a.v[0], (int)I...);
    high.v[0] = (decltype(low.v[0] + 0))__builtin_shufflevector(a.v[0], a.v[0], (int)(I + W / 2)...);
    return rift_fold(f(low, high), f, std::make_index_sequence<W / 4>());
  }
}
template <class T, int L, class F> RIFT_IN T rift_reduce(Lanes<T, L> a, F f) {
  typedef typename Lanes<T, L>::N N;
  Lanes<T, N::width> x[N::count];
  memcpy(x, &a, sizeof(a));
  for (int step = 1; step < N::count; step *= 2)
    for (int c = 0; c + step < N::count; c += 2 * step) x[c] = f(x[c], x[c + step]);
  return rift_fold(x[0], f, std::make_index_sequence<N::width / 2>());
}

// The processor's own: a > b ? a : b, and a < b ? a : b; so b where either is NaN.
template <class V> RIFT_IN V rift_above(V a, V b) {
#if defined(__AVX512F__) && !defined(__clang__)  // 4: as the mode register rounds
  if constexpr (std::is_same<V, Lanes<float, 16>::N::type>::value) return __builtin_ia32_maxps512_mask(a, b, a, -1, 4);
#endif
#ifdef __AVX__
  if constexpr (std::is_same<V, Lanes<float, 8>::N::type>::value && sizeof(V) == 32) return __builtin_ia32_maxps256(a, b);
#endif
  return a > b ? a : b;
}
template <class V> RIFT_IN V rift_below(V a, V b) {
#if defined(__AVX512F__) && !defined(__clang__)
  if constexpr (std::is_same<V, Lanes<float, 16>::N::type>::value) return __builtin_ia32_minps512_mask(a, b, a, -1, 4);
#endif
#ifdef __AVX__
  if constexpr (std::is_same<V, Lanes<float, 8>::N::type>::value && sizeof(V) == 32) return __builtin_ia32_minps256(a, b);
#endif
  return a < b ? a : b;
}
// NaN wins, as in the scalar forms.
template <class T, int L> RIFT_IN Lanes<T, L> rift_max(Lanes<T, L> a, Lanes<T, L> b) {
  if constexpr (std::is_floating_point<T>::value) {
    for (int c = 0; c < a.C; c++) a.v[c] = a.v[c] == a.v[c] ? rift_above(a.v[c], b.v[c]) : a.v[c];
    return a;
  }
  else return rift_where(a > b, a, b);
}
template <class T, int L> RIFT_IN Lanes<T, L> rift_min(Lanes<T, L> a, Lanes<T, L> b) {
  if constexpr (std::is_floating_point<T>::value) {
    for (int c = 0; c < a.C; c++) a.v[c] = a.v[c] == a.v[c] ? rift_below(a.v[c], b.v[c]) : a.v[c];
    return a;
  }
  else return rift_where(a < b, a, b);
}
template <class T, int L> RIFT_IN Lanes<T, L> rift_abs(Lanes<T, L> a) {
  if constexpr (std::is_same<T, float>::value) {
    Lanes<uint32_t, L> w;
    memcpy(&w, &a, sizeof(w));
    w = w & Lanes<uint32_t, L>(0x7FFFFFFFu);
    memcpy(&a, &w, sizeof(w));
    return a;
  } else {
    return Lanes<T, L>::each([&](int t) { return rift_abs<T>(a[t]); });
  }
}
template <int L> RIFT_IN Lanes<bool, L> rift_not(Lanes<bool, L> a) { return a ^ Lanes<bool, L>(true); }
template <class T, int L> RIFT_IN Lanes<T, L> rift_not(Lanes<T, L> a) { return a ^ Lanes<T, L>((T)-1); }
template <class T, int L> RIFT_IN Lanes<T, L> rift_finite(Lanes<T, L> a) {
  return rift_where(a - a == Lanes<T, L>((T)0), a, Lanes<T, L>((T)0));
}
template <int L> RIFT_IN Lanes<float, L> sqrt(Lanes<float, L> a) {
#if defined(__AVX512F__) && !defined(__clang__)
  if constexpr (Lanes<float, L>::N::bytes == 64) {
    for (int c = 0; c < a.C; c++) a.v[c] = __builtin_ia32_sqrtps512_mask(a.v[c], a.v[c], -1, 4);
    return a;
  }
#endif
#ifdef __AVX__
  if constexpr (Lanes<float, L>::N::bytes == 32) {
    for (int c = 0; c < a.C; c++) a.v[c] = __builtin_ia32_sqrtps256(a.v[c]);
    return a;
  }
#endif
  return Lanes<float, L>::each([&](int t) { return sqrtf(a[t]); });
}
template <class T, int L> RIFT_IN Lanes<T, L> rift_rsqrt(Lanes<T, L> a) { return Lanes<T, L>((T)1) / sqrt(a); }

// exp: x = n ln 2 + r, |r| <= ln 2 / 2; e^r = 1 + r + r^2 p(r), p fitted as for erf below (error
// 1.2e-7, of at most 0.06); 2^n in two factors, so that results below 2^-126 round once, or by
// AVX-512's own instruction, which does. NaN passes through every step: p is NaN then.
template <int L> RIFT_IN Lanes<float, L> exp(Lanes<float, L> x) {
  typedef Lanes<float, L> F;
  F out;
  for (int c = 0; c < F::C; c++) {
    typedef typename F::N::type V;
    typedef typename Lanes<int32_t, L>::N::type I;
    V a = rift_below(89.0f - (V){}, x.v[c]);  // e^89 is inf already
    a = rift_above(-105.0f - (V){}, a);       // e^-105 is 0 already
    V n = a * 1.44269504f + 12582912.0f;      // adding 1.5 * 2^23 rounds to an integer,
    I whole;
    memcpy(&whole, &n, sizeof(n));
    whole = whole - 0x4B400000;               // which the low bits then are
    n = n - 12582912.0f;
    V r = a - n * 0.693145752f;               // ln 2 in two parts, the first exact in n * part
    r = r - n * 1.42860682e-6f;
    V p = r * 1.39012715e-3f + 8.36314632e-3f;
    p = p * r + 4.16668536e-2f;
    p = p * r + 1.66665773e-1f;
    p = p * r + 0.499999996f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
#if defined(__AVX512F__) && !defined(__clang__)
    if constexpr (sizeof(V) == 64) {
      out.v[c] = __builtin_ia32_scalefps512_mask(p, n, p, -1, 4);
      continue;
    }
#endif
    I half = whole >> 1, up = (half << 23) + 0x3F800000, down = ((whole - half) << 23) + 0x3F800000;
    V s, t;
    memcpy(&s, &up, sizeof(s));
    memcpy(&t, &down, sizeof(t));
    out.v[c] = p * s * t;
  }
  return out;
}
// tanh = 1 - 2 / (e^2|x| + 1), with the sign of x; below 5/8, where the difference would lose
// digits, x + x^3 p(x^2), fitted to (tanh(x)/x - 1)/x^2 as erf is below (error 4.9e-9).
template <int L> RIFT_IN Lanes<float, L> tanh(Lanes<float, L> x) {
  typedef Lanes<float, L> F;
  F a = rift_abs(x), e = exp(a + a);
  F big = F(1.0f) - F(2.0f) / (e + F(1.0f));
  F s = x * x;
  F p = s * F(2.29282367e-3f) - F(8.34402284e-3f);
  p = p * s + F(2.17689452e-2f);
  p = p * s - F(5.39592633e-2f);
  p = p * s + F(1.33333036e-1f);
  p = p * s - F(3.33333332e-1f);
  F small = x + x * s * p;
  big = rift_where(x < F(0.0f), -big, big);
  return rift_where(a < F(0.625f), small, big);
}
// erf: below 1, x times a polynomial in x^2; above, 1 - e^p(|x|), where p is log(erfc) on [1, 4].
// Both were fitted by reweighted least squares at Chebyshev nodes (errors 1.3e-9 and 1.2e-8).
template <int L> RIFT_IN Lanes<float, L> erf(Lanes<float, L> x) {
  typedef Lanes<float, L> F;
  F a = rift_abs(x), s = a * a, b = rift_where(a < F(4.0f), a, F(4.0f));
  F p = s * F(7.85384712e-5f) - F(8.01018932e-4f);
  p = p * s + F(5.1883272e-3f);
  p = p * s - F(2.68538117e-2f);
  p = p * s + F(1.12835851e-1f);
  p = p * s - F(3.76126258e-1f);
  F small = x * p * s + x * F(1.12837917f);
  F q = b * F(1.59982971e-6f) - F(4.52983105e-5f);
  q = q * b + F(5.90205110e-4f);
  q = q * b - F(4.72769749e-3f);
  q = q * b + F(2.63275504e-2f);
  q = q * b - F(1.09909779e-1f);
  q = q * b - F(6.32013385e-1f);
  q = q * b - F(1.13011975f);
  q = q * b + F(2.9103485e-4f);
  F big = F(1.0f) - exp(q);
  big = rift_where(x < F(0.0f), -big, big);
  return rift_where(x != x, x, rift_where(a < F(1.0f), small, big));
}
// log: x = m 2^e, m in [sqrt(1/2), sqrt(2)); with r = m - 1, log x = e ln 2 + r p(r), fitted alike
// (error 4.1e-9). Subnormals are scaled first.
template <int L> RIFT_IN Lanes<float, L> log(Lanes<float, L> x) {
  typedef Lanes<float, L> F;
  F out;
  for (int c = 0; c < F::C; c++) {
    typedef typename F::N::type V;
    typedef typename Lanes<int32_t, L>::N::type I;
    V a = x.v[c], zero = {};
    auto tiny = a < 1.17549435e-38f;
    a = tiny ? a * 33554432.0f : a;  // 2^25
    I bits;
    memcpy(&bits, &a, sizeof(a));
    I e = (bits - 0x3F3504F3) >> 23;  // 0x3F3504F3: sqrt(1/2)
    bits = bits - (e << 23);
    V m;
    memcpy(&m, &bits, sizeof(m));
    V r = m - 1.0f, n = __builtin_convertvector(e, V);
    n = tiny ? n - 25.0f : n;
    V p = -7.62071479e-2f * r + 1.29044411e-1f;
    p = p * r - 1.32435209e-1f;
    p = p * r + 1.41818755e-1f;
    p = p * r - 1.66090103e-1f;
    p = p * r + 2.00019661e-1f;
    p = p * r - 2.50015866e-1f;
    p = p * r + 3.33333260e-1f;
    p = p * r - 0.5f;
    V y = n * 1.42860682e-6f + (p * r * r + r) + n * 0.693145752f;
    y = x.v[c] == INFINITY ? x.v[c] : y;
    y = x.v[c] == zero ? zero - INFINITY : y;
    out.v[c] = x.v[c] >= 0.0f ? y : zero + NAN;
  }
  return out;
}

// Everything else: lane by lane.
#define RIFT_EACH1(f) \
  template <class T, int L> RIFT_IN Lanes<T, L> f(Lanes<T, L> a) { return Lanes<T, L>::each([&](int t) { return (T)f(a[t]); }); }
RIFT_EACH1(sqrt) RIFT_EACH1(exp) RIFT_EACH1(tanh) RIFT_EACH1(erf) RIFT_EACH1(log)
RIFT_EACH1(exp2) RIFT_EACH1(expm1) RIFT_EACH1(log2) RIFT_EACH1(log10) RIFT_EACH1(log1p)
RIFT_EACH1(sin) RIFT_EACH1(cos) RIFT_EACH1(tan) RIFT_EACH1(asin) RIFT_EACH1(acos) RIFT_EACH1(atan)
RIFT_EACH1(sinh) RIFT_EACH1(cosh) RIFT_EACH1(asinh) RIFT_EACH1(acosh) RIFT_EACH1(atanh)
RIFT_EACH1(erfc) RIFT_EACH1(lgamma)
RIFT_EACH1(floor) RIFT_EACH1(ceil) RIFT_EACH1(trunc) RIFT_EACH1(rint)
#define RIFT_EACH2(f) \
  template <class T, int L> RIFT_IN Lanes<T, L> f(Lanes<T, L> a, Lanes<T, L> b) { return Lanes<T, L>::each([&](int t) { return (T)f(a[t], b[t]); }); }
RIFT_EACH2(fmax) RIFT_EACH2(fmin) RIFT_EACH2(atan2) RIFT_EACH2(hypot) RIFT_EACH2(copysign) RIFT_EACH2(nextafter)
RIFT_EACH2(rift_floordiv) RIFT_EACH2(rift_mod) RIFT_EACH2(rift_truncdiv) RIFT_EACH2(rift_fmod)
RIFT_EACH2(rift_pow) RIFT_EACH2(rift_shl) RIFT_EACH2(rift_shr) RIFT_EACH2(rift_checked)
