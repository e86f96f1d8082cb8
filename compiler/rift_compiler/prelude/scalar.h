// Scalar operations that C has no sign for. Shared by C++ and CUDA: RIFT_FN says how they are
// declared, rift_fail(code) what a wrong index or a division by zero does.
// Floating-point division helpers follow Python, as torch does: the result of mod has the sign of
// the divisor, and floordiv is exact where a plain floor(a / b) would round up.
template <class T> struct rift_is_float { static const bool value = false; };
template <> struct rift_is_float<float> { static const bool value = true; };
template <> struct rift_is_float<double> { static const bool value = true; };

template <class T> RIFT_FN T rift_nonzero(T b) {
  if (b == 0) { rift_fail(2); return 1; }
  return b;
}
template <class T> RIFT_FN T rift_fmod(T a, T b) {
  if constexpr (rift_is_float<T>::value) return fmod(a, b);
  else { b = rift_nonzero(b); return b == (T)-1 ? 0 : a % b; }
}
template <class T> RIFT_FN T rift_mod(T a, T b) {
  T m = rift_fmod(a, b);
  if (m != 0 && ((b < 0) != (m < 0))) m += b;
  return m;
}
template <class T> RIFT_FN T rift_truncdiv(T a, T b) {
  if constexpr (rift_is_float<T>::value) return trunc(a / b);
  else { b = rift_nonzero(b); return b == (T)-1 ? (T)(0 - a) : a / b; }
}
template <class T> RIFT_FN T rift_floordiv(T a, T b) {
  if constexpr (rift_is_float<T>::value) {
    if (b == 0) return a / b;
    T m = fmod(a, b), d = (a - m) / b;
    if (m != 0 && ((b < 0) != (m < 0))) d -= 1;
    if (d == 0) return copysign((T)0, a / b);
    T f = floor(d);
    return d - f > (T)0.5 ? f + 1 : f;
  } else {
    T q = rift_truncdiv(a, b);
    return (rift_fmod(a, b) != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
  }
}
template <class T> RIFT_FN T rift_abs(T a) {
  if constexpr (rift_is_float<T>::value) return fabs(a);
  else return a < 0 ? (T)(0 - a) : a;
}
// NaN wins, as in torch.maximum and NumPy.
template <class T> RIFT_FN T rift_max(T a, T b) { return (a > b || a != a) ? a : b; }
template <class T> RIFT_FN T rift_min(T a, T b) { return (a < b || a != a) ? a : b; }
template <class T> RIFT_FN T rift_not(T a) { return (T)(a ^ (T)-1); }  // bool(-1) is true
template <class T> RIFT_FN T rift_rsqrt(T a) { return (T)1 / sqrt(a); }
template <class T> RIFT_FN T rift_finite(T a) { return a - a == (T)0 ? a : (T)0; }
template <class T> RIFT_FN T rift_pow(T a, T b) {
  if constexpr (rift_is_float<T>::value) return pow(a, b);
  else {
    if (b < 0) return a == 1 ? 1 : a == (T)-1 ? (b % 2 == 0 ? 1 : (T)-1) : 0;
    T out = 1;
    for (; b > 0; b = (T)(b >> 1), a = (T)(a * a)) if (b & 1) out = (T)(out * a);
    return out;
  }
}
template <class T> RIFT_FN T rift_shl(T a, T b) {
  return (b < 0 || (unsigned long long)b >= 8 * sizeof(T)) ? (T)0 : (T)((unsigned long long)a << b);
}
template <class T> RIFT_FN T rift_shr(T a, T b) {
  return (b < 0 || (unsigned long long)b >= 8 * sizeof(T)) ? (T)(a < 0 ? -1 : 0) : (T)(a >> b);
}
template <class T> RIFT_FN T rift_checked(T i, T n) {
  if (i < 0 || i >= n) { rift_fail(1); return 0; }
  return i;
}
