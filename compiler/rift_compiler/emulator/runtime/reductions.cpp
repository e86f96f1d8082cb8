// What a reducing bulk copy does with each element (PTX ISA 9.0, cp.reduce.async.bulk).
enum Reduction { R_NONE, R_ADD, R_MIN, R_MAX, R_AND, R_OR, R_XOR, R_INC, R_DEC };
enum ReducedType { T_U32, T_S32, T_U64, T_S64, T_F16, T_BF16, T_F32, T_F64 };

template <class T, class F> static void reduce_as(u8* to, const u8* from, u32 bytes, F f) {
  for (u32 i = 0; i < bytes; i += sizeof(T)) {
    T a, b;
    memcpy(&a, to + i, sizeof a), memcpy(&b, from + i, sizeof b);
    a = f(a, b);
    memcpy(to + i, &a, sizeof a);
  }
}

template <class T> static void reduce_integers(u32 operation, u8* to, const u8* from, u32 bytes) {
  reduce_as<T>(to, from, bytes, [&](T a, T b) -> T {
    switch (operation) {
      case R_ADD: return (T)(a + b);
      case R_MIN: return i_min<T>(a, b);
      case R_MAX: return i_max<T>(a, b);
      case R_AND: return (T)(a & b);
      case R_OR: return (T)(a | b);
      case R_XOR: return (T)(a ^ b);
      case R_INC: return a >= b ? 0 : (T)(a + 1);
      default: return a == 0 || a > b ? b : (T)(a - 1);
    }
  });
}

template <class T> static void reduce_floats(u32 operation, u8* to, const u8* from, u32 bytes) {
  reduce_as<T>(to, from, bytes, [&](T a, T b) -> T {
    if (operation == R_ADD) return f_op<T, F_ADD, RN, false, false, false>(a, b, b);
    return operation == R_MIN ? f_minmax<T, true, false, false, false>(a, b)
                              : f_minmax<T, false, false, false, false>(a, b);
  });
}
