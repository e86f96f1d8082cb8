// mma.sync, ldmatrix, stmatrix (PTX ISA 9.0, 9.7.14). In every m16n8 shape a 32-bit register holds
// E elements: of A those of row g + 8 (i % 2), columns 4E (i / 2) + E t .., of B column g and rows
// 4E i + E t .., where lane = 4 g + t and i counts registers.
struct Shape { u32 a, b, d, k, half, a_regs, b_regs, d_regs, words; };

static Shape shape_of(u32 kind) {
  Shape s;
  s.a = kind & 15, s.b = kind >> 4 & 15, s.half = kind >> 8 & 1, s.k = 2u << (kind >> 9 & 7);
  u32 per = 4 / ELEMENT_BYTES[s.a];
  s.a_regs = s.k / (4 * per) * 2, s.b_regs = s.k / (4 * per), s.d_regs = s.half ? 2 : 4;
  s.words = s.a_regs + s.b_regs + s.d_regs;
  return s;
}

static void gather_a(const Meeting& m, u32 item, const Shape& s, u8* a) {
  u32 bytes = ELEMENT_BYTES[s.a], per = 4 / bytes;
  for (u32 lane = 0; lane < 32; lane++) {
    const u32 *p = m.args[lane] + item * s.words, g = lane / 4, t = lane % 4;
    for (u32 i = 0; i < s.a_regs; i++)
      memcpy(a + ((g + 8 * (i & 1)) * s.k + 4 * per * (i >> 1) + per * t) * bytes, p + i, 4);
  }
}

template <class T> static void gather_b(const Meeting& m, u32 item, const Shape& s, T* b) {
  const u32 per = 4 / sizeof(T);
  for (u32 lane = 0; lane < 32; lane++) {
    const u32 *p = m.args[lane] + item * s.words + s.a_regs, g = lane / 4, t = lane % 4;
    for (u32 i = 0; i < s.b_regs; i++)
      for (u32 e = 0; e < per; e++)
        b[(4 * per * i + per * t + e) * 8 + g] = (T)((u64)p[i] >> 8 * sizeof(T) * e);
  }
}

static void gather_b(const Meeting& m, u32 item, const Shape& s, u8* b) {
  u32 bytes = ELEMENT_BYTES[s.b];
  if (bytes == 2) gather_b<u16>(m, item, s, (u16*)b);
  else if (bytes == 1) gather_b<u8>(m, item, s, b);
  else gather_b<u32>(m, item, s, (u32*)b);
}

static void gather_sums(const Meeting& m, u32 item, const Shape& s, f32* d) {
  for (u32 lane = 0; lane < 32; lane++) {
    const u32 *p = m.args[lane] + item * s.words + s.a_regs + s.b_regs, g = lane / 4, t = lane % 4;
    for (u32 i = 0; i < 2; i++) {
      f32* to = d + (g + 8 * i) * 8 + 2 * t;
      if (s.half) {
        f16x2 both = __builtin_bit_cast(f16x2, p[i]);
        to[0] = (f32)both.lo, to[1] = (f32)both.hi;
      } else {
        memcpy(to, p + 2 * i, 8);
      }
    }
  }
}

static void scatter_sums(const Meeting& m, u32 item, const Shape& s, const f32* d) {
  for (u32 lane = 0; lane < 32; lane++) {
    u32 *p = m.args[lane] + item * s.words + s.a_regs + s.b_regs, g = lane / 4, t = lane % 4;
    for (u32 i = 0; i < 2; i++) {
      const f32* from = d + (g + 8 * i) * 8 + 2 * t;
      if (s.half) p[i] = __builtin_bit_cast(u32, (f16x2{down<f16>(from[0]), down<f16>(from[1])}));
      else memcpy(p + 2 * i, from, 8);
    }
  }
}

static void integer_product(const u8* a, const u8* b, s32* d, const Shape& s, bool saturate) {
  for (u32 i = 0; i < 16; i++)
    for (u32 j = 0; j < 8; j++) {
      s64 sum = d[i * 8 + j];
      for (u32 x = 0; x < s.k; x++) {
        s32 p = s.a == E_S8 ? (s8)a[i * s.k + x] : a[i * s.k + x];
        sum += p * (s.b == E_S8 ? (s8)b[x * 8 + j] : b[x * 8 + j]);
      }
      d[i * 8 + j] = saturate ? clamp_s32(sum) : (s32)sum;
    }
}

static bool whole_warp(Warp* w, Meeting& m) {
  if (m.arrived == ~0u) return true;
  report(BARRIER, m.line, 0, "warp %u: lanes 0x%x of 0xffffffff take part in a matrix instruction",
         w->index, m.arrived);
  return false;
}

static const u32 MOST_ITEMS = 32;

static void run_mma(Warp* w, Meeting& m) {
  if (!whole_warp(w, m)) return;
  u32 count = m.count & 0xfff, kind = m.count >> 12;
  Shape s = shape_of(kind);
  bool integers = s.a == E_S8 || s.a == E_U8;
  alignas(32) static u8 a[MOST_ITEMS][16 * 32], b[MOST_ITEMS][8 * 32];
  alignas(32) static f32 x[MOST_ITEMS][16 * 32], y[MOST_ITEMS][32 * 8];
  alignas(32) f32 d[16 * 8];
  for (u32 item = 0; item < count; item++) {
    u32 ia = m.same[2 * item], ib = m.same[2 * item + 1];
    if (ia == item) {
      gather_a(m, item, s, a[item]);
      if (!integers) to_singles(s.a, a[item], x[item], 16 * s.k);
    }
    if (ib == item) {
      gather_b(m, item, s, b[item]);
      if (!integers) to_singles(s.b, b[item], y[item], 8 * s.k);
    }
    gather_sums(m, item, s, d);
    if (integers) integer_product(a[ia], b[ib], (s32*)d, s, kind >> 12 & 1);
    else multiply(x[ia], y[ib], d, 16, 8, s.k, s.a, s.b, s.half, false);
    scatter_sums(m, item, s, d);
  }
}

// q: count items of A, B and C registers; C becomes D.
void mma(Thread* t, u32 line, u32 kind, u32* q, u32 count, const u8* same) {
  meet(t, line, t->warp->exists, run_mma, q, count | kind << 12, ~0u, same);
}

// f64: A one register each of row g (+ 8 (i % 2)), column t + 4 (i / 2); B row t + 4 i, column g.
static void run_mma64(Warp* w, Meeting& m) {
  if (!whole_warp(w, m)) return;
  u32 rows = m.count >> 8, k = m.count & 255, a_regs = rows / 8 * (k / 4), b_regs = k / 4;
  f64 a[16 * 16], b[16 * 8], d[16 * 8];
  for (u32 pass = 0; pass < 2; pass++) {
    for (u32 lane = 0; lane < 32; lane++) {
      f64* p = (f64*)m.args[lane];
      u32 g = lane / 4, t = lane % 4, tall = rows / 8;
      for (u32 i = 0; i < a_regs && !pass; i++) a[(g + 8 * (i % tall)) * k + t + 4 * (i / tall)] = p[i];
      for (u32 i = 0; i < b_regs && !pass; i++) b[(t + 4 * i) * 8 + g] = p[a_regs + i];
      for (u32 i = 0; i < rows / 4; i++) {
        f64& x = d[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2];
        if (pass) p[a_regs + b_regs + i] = x;
        else x = p[a_regs + b_regs + i];
      }
    }
    for (u32 i = 0; i < rows * 8 && !pass; i++)
      for (u32 x = 0; x < k; x++) d[i] = __builtin_fma(a[i / 8 * k + x], b[x * 8 + i % 8], d[i]);
  }
}

void mma64(Thread* t, u32 line, u32 rows, u32 k, u64* q) {
  meet(t, line, t->warp->exists, run_mma64, (u32*)q, rows << 8 | k);
}

u8* touch_shared(Thread* t, u32 line, u64 address, u32 bytes, int access, const void* value) {
  u8* p = at_shared(t, line, address, bytes, access, value, bytes);
  if (L->checks & WATCHED) {
    u64 offset = address - SHARED_BASE;
    if (p == M.shared + offset) watch_shared(t, line, (u32)offset, bytes, access, value);
  }
  return p;
}

// An item is an address and four results.
static void run_ldmatrix(Warp* w, Meeting& m) {
  if (!whole_warp(w, m)) return;
  u32 count = m.count & 0xfff, matrices = m.count >> 12 & 7;
  bool transposed = m.count >> 15 & 1;
  for (u32 item = 0; item < count; item++)
    for (u32 i = 0; i < matrices; i++) {
      alignas(16) u16 rows[8][8];
      for (u32 r = 0; r < 8; r++) {
        u32 lane = 8 * i + r;
        memcpy(rows[r], touch_shared(w->lanes[lane], m.line, m.args[lane][item * 5], 16, READ, 0), 16);
      }
      for (u32 lane = 0; lane < 32; lane++) {
        u32 g = lane / 4, t = 2 * (lane % 4);
        u32 lo = transposed ? rows[t][g] : rows[g][t], hi = transposed ? rows[t + 1][g] : rows[g][t + 1];
        m.args[lane][item * 5 + 1 + i] = lo | hi << 16;
      }
    }
}

void ldmatrix(Thread* t, u32 line, u32* q, u32 count, u32 matrices, bool transposed) {
  meet(t, line, t->warp->exists, run_ldmatrix, q, count | matrices << 12 | (u32)transposed << 15);
}

static void run_stmatrix(Warp* w, Meeting& m) {
  if (!whole_warp(w, m)) return;
  u32 matrices = m.count & 7;
  bool transposed = m.count >> 3 & 1;
  for (u32 i = 0; i < matrices; i++) {
    alignas(16) u16 rows[8][8];
    for (u32 lane = 0; lane < 32; lane++) {
      u32 g = lane / 4, t = 2 * (lane % 4), both = m.args[lane][1 + i];
      (transposed ? rows[t][g] : rows[g][t]) = (u16)both;
      (transposed ? rows[t + 1][g] : rows[g][t + 1]) = (u16)(both >> 16);
    }
    for (u32 r = 0; r < 8; r++) {
      u32 lane = 8 * i + r;
      memcpy(touch_shared(w->lanes[lane], m.line, m.args[lane][0], 16, WRITE, rows[r]), rows[r], 16);
    }
  }
}

void stmatrix(Thread* t, u32 line, u32* q, u32 matrices, bool transposed) {
  meet(t, line, t->warp->exists, run_stmatrix, q, matrices | (u32)transposed << 3);
}

static void run_movmatrix(Warp* w, Meeting& m) {
  if (!whole_warp(w, m)) return;
  u16 rows[8][8];
  for (u32 lane = 0; lane < 32; lane++) memcpy(&rows[lane / 4][2 * (lane % 4)], m.args[lane], 4);
  for (u32 lane = 0; lane < 32; lane++) {
    u32 g = lane / 4, t = 2 * (lane % 4);
    m.args[lane][0] = rows[t][g] | (u32)rows[t + 1][g] << 16;
  }
}

u32 movmatrix(Thread* t, u32 line, u32 value) {
  meet(t, line, t->warp->exists, run_movmatrix, &value);
  return value;
}
