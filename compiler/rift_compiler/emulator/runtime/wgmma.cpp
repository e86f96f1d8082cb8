// wgmma (PTX ISA 9.0, 9.7.15): a product by a warpgroup, 64 rows of A, read from shared memory by the
// asynchronous proxy. It is done when the first warp waits for it; until then its results are
// tokens, NaNs that no arithmetic makes, which registers may be copied with.
static const u32 TOKEN = 0xffa00000;  // | number of the product % 4096 << 8 | register

struct Product {
  u32 number, line, n, k, a_type, b_type, regs;
  bool half, a_in_registers, a_transposed, b_transposed, scale_d, negate_a, negate_b, saturates;
  u64 a_matrix, b_matrix;
  u32 warps, issued;                 // how many warps issued it
  std::vector<u32> a, sums;          // of each of 128 lanes
  std::vector<u32> adds_to;          // products whose results are its sums, as token >> 8
  std::vector<u32> clock, proxy;     // what all its threads had seen when it began
  bool done;
};

struct Warpgroup {
  std::deque<Product> products;      // from number `first` on
  u32 first, done;                   // numbers of the oldest held, and of the first not done
  Thread* waiting;
  struct { u32 issued; std::deque<u32> groups; } warps[4];  // groups: end of each committed one
  u32 resolved[128];                 // of each lane: products before this left its registers
};
static std::vector<Warpgroup> warpgroups;

static void reset_wgmma() { warpgroups.assign((threads.size() + 127) / 128, Warpgroup()); }

static Warpgroup& warpgroup_of(Warp* w) { return warpgroups[w->index / 4]; }

// Where an element's 16 bytes are: `row` counts along M or N, `at` along K.
struct Matrix { u32 start, lead, stride, width, mode; bool transposed; u32 bytes; };

static Matrix matrix_of(u64 d, bool transposed, u32 bytes, u32 line) {
  static const u32 widths[] = {16, 128, 64, 32}, modes[] = {0, 4, 2, 1};
  Matrix m;
  u32 swizzle = (u32)(d >> 62);
  m.start = (u32)(d & 0x3fff) << 4, m.lead = (u32)(d >> 16 & 0x3fff) << 4;
  m.stride = (u32)(d >> 32 & 0x3fff) << 4;
  m.width = widths[swizzle], m.mode = modes[swizzle], m.transposed = transposed, m.bytes = bytes;
  if (d >> 49 & 7)
    report(UNSUPPORTED, line, 0, "a matrix descriptor with a base offset (%u) is not supported", (u32)(d >> 49 & 7));
  return m;
}

static u32 address_in(const Matrix& m, u32 row, u32 k) {
  u32 at;
  if (m.transposed) {  // rows contiguous: chunks of 8 elements, eight k to a pattern
    u32 chunk = row / 8, in = chunk % (m.width / 16), out = chunk / (m.width / 16);
    u32 far = m.mode ? m.lead : m.stride, deep = m.mode ? m.stride : m.lead;
    at = m.start + in * 16 + out * far + k % 8 * m.width + k / 8 * deep + row % 8 * 2;
  } else {
    u32 b = k * m.bytes;
    at = m.start + row / 8 * m.stride + row % 8 * m.width;
    at += m.mode ? b : b / 16 * m.lead + b % 16;
  }
  return swizzled(at, m.mode);
}

static void check_matrix(const Matrix& m, u32 rows, u32 k, Product& p, u32 who) {
  if (!clock_words) return;
  u32 step = 16 / m.bytes, along = m.transposed ? step : 1, deep = m.transposed ? 1 : step;
  for (u32 row = 0; row < rows; row += along)
    for (u32 x = 0; x < k; x += deep) {
      u32 at = address_in(m, row, x) - SHARED_BASE;
      if (at < M.shared_bytes && at + 16 <= M.shared_bytes)
        check_async_read(at, 16, p.line, who, p.number + 1, p.clock.data(), p.proxy.data());
    }
}

// rows x k elements as numbers, row-major; or k x rows for B. Sixteen bytes are read at a time.
static void read_matrix(const Matrix& m, u32 rows, u32 k, u32 type, bool by_k, f32* to, Product& p,
                        bool negate) {
  u32 step = 16 / m.bytes, along = m.transposed ? step : 1, deep = m.transposed ? 1 : step;
  u32 row_step = by_k ? 1 : k, k_step = by_k ? rows : 1, next = m.transposed ? row_step : k_step;
  f32 part[16];
  for (u32 row = 0; row < rows; row += along)
    for (u32 x = 0; x < k; x += deep) {
      u32 at = address_in(m, row, x) - SHARED_BASE;
      if (UNLIKELY(at >= M.shared_bytes || at + 16 > M.shared_bytes)) {
        report(BOUNDS, p.line, 0, "a matrix descriptor reaches shared 0x%x, out of bounds", at + SHARED_BASE);
        return;
      }
      to_singles(type, M.shared + at, part, step);
      f32* out = to + row * row_step + x * k_step;
      for (u32 i = 0; i < step; i++) out[i * next] = negate ? -part[i] : part[i];
    }
}

static void a_from_registers(Product& p, f32* to) {
  u32 bytes = ELEMENT_BYTES[p.a_type], per = 4 / bytes;
  std::vector<u8> raw(64 * p.k * bytes);
  for (u32 id = 0; id < 128; id++)
    for (u32 i = 0; i < 4; i++) {
      u32 g = id % 32 / 4, t = id % 4, row = id / 32 * 16 + g + 8 * (i & 1);
      memcpy(&raw[(row * p.k + 4 * per * (i >> 1) + per * t) * bytes], &p.a[id * 4 + i], 4);
    }
  to_singles(p.a_type, raw.data(), to, 64 * p.k);
  if (p.negate_a) for (u32 i = 0; i < 64 * p.k; i++) to[i] = -to[i];
}

// f(index into the registers of all lanes, place in the 64 x n result) for each element pair.
template <class F> static void each_sum(const Product& p, F f) {
  for (u32 id = 0; id < 128; id++) {
    u32 g = id % 32 / 4, t = id % 4, row = id / 32 * 16 + g;
    for (u32 j = 0; j < p.n / 8; j++)
      for (u32 i = 0; i < 2; i++) {
        u32 reg = p.half ? 2 * j + i : 4 * j + 2 * i;
        f(id * p.regs + reg, (row + 8 * i) * p.n + 8 * j + 2 * t);
      }
  }
}

static void compute(Product& p, f32* d) {
  static std::vector<f32> a, b;
  a.resize(64 * p.k), b.resize(p.n * p.k);
  u32 bytes = ELEMENT_BYTES[p.a_type];
  Matrix mb = matrix_of(p.b_matrix, p.b_transposed, bytes, p.line);
  if (p.a_in_registers) a_from_registers(p, a.data());
  else read_matrix(matrix_of(p.a_matrix, p.a_transposed, bytes, p.line), 64, p.k, p.a_type, false, a.data(), p, p.negate_a);
  read_matrix(mb, p.n, p.k, p.b_type, true, b.data(), p, p.negate_b);
  if (p.a_type == E_S8 || p.a_type == E_U8) multiply_single(a.data(), b.data(), d, 64, p.n, p.k, p.n);
  else multiply(a.data(), b.data(), d, 64, p.n, p.k, p.a_type, p.b_type, p.half, true);
}

// Sums of 32 products of bytes are exact in single precision; they are added as integers.
static void run_integers(Product& p, std::vector<f32>& d) {
  compute(p, d.data());
  each_sum(p, [&](u32 reg, u32 at) {
    for (u32 i = 0; i < 2; i++) {
      s64 sum = (p.scale_d ? (s64)(s32)p.sums[reg + i] : 0) + (s64)d[at + i];
      p.sums[reg + i] = (u32)(p.saturates ? clamp_s32(sum) : (s32)sum);
    }
  });
  p.done = true;
}

static void run_product(Warpgroup& g, Product& p) {
  static std::vector<f32> d;
  d.assign(64 * p.n, 0.0f);
  u32 group = (u32)(&g - warpgroups.data()), who = (u32)threads.size() + COPY_AGENTS + group;
  u32 bytes = ELEMENT_BYTES[p.a_type];
  if (!p.a_in_registers) check_matrix(matrix_of(p.a_matrix, p.a_transposed, bytes, p.line), 64, p.k, p, who);
  check_matrix(matrix_of(p.b_matrix, p.b_transposed, bytes, p.line), p.n, p.k, p, who);
  if (p.a_type == E_S8 || p.a_type == E_U8) return run_integers(p, d);
  if (p.scale_d)
    each_sum(p, [&](u32 reg, u32 at) {
      if (p.half) {
        f16x2 both = __builtin_bit_cast(f16x2, p.sums[reg]);
        d[at] = (f32)both.lo, d[at + 1] = (f32)both.hi;
      } else {
        memcpy(&d[at], &p.sums[reg], 8);
      }
    });
  compute(p, d.data());
  each_sum(p, [&](u32 reg, u32 at) {
    if (p.half) p.sums[reg] = __builtin_bit_cast(u32, (f16x2{down<f16>(d[at]), down<f16>(d[at + 1])}));
    else memcpy(&p.sums[reg], &d[at], 8);
  });
  p.done = true;
}

// Later products that add to this one's results get them.
static void pass_on(Warpgroup& g, const Product& p) {
  u32 key = (TOKEN | (p.number & 0xfff) << 8) >> 8;
  for (Product& later : g.products)
    if (!later.done && std::find(later.adds_to.begin(), later.adds_to.end(), key) != later.adds_to.end())
      for (u32 i = 0; i < later.sums.size(); i++)
        if (later.sums[i] >> 8 == key)
          later.sums[i] = p.sums[i / later.regs * p.regs + (later.sums[i] & 0xff)];
}

static void run_products(Warpgroup& g, u32 end) {
  for (; g.done < end; g.done++) {
    Product& p = g.products[g.done - g.first];
    run_product(g, p);
    pass_on(g, p);
  }
}

static void forget_old(Warpgroup& g) {
  u32 least = g.done;
  for (u32 id = 0; id < 128; id++) least = std::min(least, g.resolved[id]);
  for (; g.first < least; g.first++) g.products.pop_front();
}

static void seen_by_all(std::vector<u32>& into, const u32* clock, bool first) {
  if (first) into.assign(clock, clock + clock_words);
  else
    for (u32 i = 0; i < clock_words; i += 8) {
      words8 &a = *(words8*)(into.data() + i), b = *(const words8*)(clock + i);
      a = a < b ? a : b;
    }
}

static Product& product_of(Warpgroup& g, u32 number, const u32* q, u32 line) {
  while (g.first + g.products.size() <= number) {
    g.products.emplace_back();
    g.products.back().number = g.first + (u32)g.products.size() - 1;
  }
  Product& p = g.products[number - g.first];
  if (p.warps) {
    if (p.line != line)
      report(BARRIER, line, p.line, "warps of a warpgroup execute different wgmma, lines %u and %u",
             p.line, line);
    return p;
  }
  u32 kind = q[0];
  p.line = line, p.n = kind >> 8 & 0x1ff, p.a_type = kind & 15, p.b_type = kind >> 4 & 15;
  p.k = 32 / ELEMENT_BYTES[p.a_type];
  p.half = kind >> 17 & 1, p.a_in_registers = kind >> 18 & 1, p.a_transposed = kind >> 19 & 1;
  p.b_transposed = kind >> 20 & 1, p.negate_a = kind >> 21 & 1, p.negate_b = kind >> 22 & 1;
  p.saturates = kind >> 23 & 1;
  p.regs = p.half ? p.n / 4 : p.n / 2;
  p.a_matrix = (u64)q[3] << 32 | q[2], p.b_matrix = (u64)q[5] << 32 | q[4], p.scale_d = q[1];
  p.a.assign(p.a_in_registers ? 128 * 4 : 0, 0), p.sums.assign(128 * p.regs, 0);
  return p;
}

static void same_everywhere(const Product& p, const u32* q, Warp* w, u32 line) {
  bool a = p.a_in_registers || (q[2] == (u32)p.a_matrix && q[3] == (u32)(p.a_matrix >> 32));
  if (a && q[4] == (u32)p.b_matrix && q[5] == (u32)(p.b_matrix >> 32) && (q[1] != 0) == p.scale_d) return;
  report(BARRIER, line, 0, "warp %u: descriptors or scale-d of a wgmma differ within its warpgroup", w->index);
}

// q: kind, scale-d, descriptor of A, of B (two words each), A registers, accumulators.
static void run_wgmma(Warp* w, Meeting& m) {
  if (!whole_warp(w, m)) return;
  Warpgroup& g = warpgroup_of(w);
  auto& own = g.warps[w->index % 4];
  Product& p = product_of(g, own.issued, m.args[0], m.line);
  for (u32 lane = 0; lane < 32; lane++) {
    u32 *q = m.args[lane], id = w->index % 4 * 32 + lane, *sums = q + 6;
    Resolved known = {0, nullptr};
    same_everywhere(p, q, w, m.line);
    if (p.a_in_registers) memcpy(&p.a[id * 4], q + 6, 16), sums += 4;
    for (u32 i = 0; i < p.regs; i++) {
      // Another warp may have waited for the product that this one adds to, and had it done.
      u32 value = sums[i];
      if (UNLIKELY(value >> 20 == TOKEN >> 20)) {
        value = resolve(w->lanes[lane], known, value);
        if (value == sums[i] && (p.adds_to.empty() || p.adds_to.back() != value >> 8))
          p.adds_to.push_back(value >> 8);
      }
      p.sums[id * p.regs + i] = value;
      sums[i] = TOKEN | (p.number & 0xfff) << 8 | i;
    }
    if (clock_words) {
      seen_by_all(p.clock, w->lanes[lane]->clock, p.warps == 0 && lane == 0);
      seen_by_all(p.proxy, w->lanes[lane]->proxy, p.warps == 0 && lane == 0);
    }
  }
  p.warps++, own.issued++;
  for (Thread* t = g.waiting; t; t = t->next) wake(t);
  g.waiting = nullptr;
}

void wgmma(Thread* t, u32 line, u32* q) { meet(t, line, t->warp->exists, run_wgmma, q); }

static void run_commit(Warp* w, Meeting& m) {
  auto& own = warpgroup_of(w).warps[w->index % 4];
  if (whole_warp(w, m)) own.groups.push_back(own.issued);
}

void wgmma_commit(Thread* t, u32 line) { meet(t, line, t->warp->exists, run_commit, nullptr); }

// The number up to which products must be done when all but `pending` groups are.
static void run_wait(Warp* w, Meeting& m) {
  auto& own = warpgroup_of(w).warps[w->index % 4];
  u32 pending = m.count, end = 0;
  if (!whole_warp(w, m)) return;
  if (own.groups.size() > pending) {
    end = own.groups[own.groups.size() - pending - 1];
    while (own.groups.size() > pending) own.groups.pop_front();
  }
  for (u32 lane = 0; lane < 32; lane++) m.args[lane][0] = end;
}

static bool issued_by_all(const Warpgroup& g, u32 end) {
  for (u32 i = g.done; i < end; i++)
    if (i - g.first >= g.products.size() || g.products[i - g.first].warps < 4) return false;
  return true;
}

void wgmma_wait(Thread* t, u32 line, u32 pending) {
  u32 end = 0;
  meet(t, line, t->warp->exists, run_wait, &end, pending);
  Warpgroup& g = warpgroup_of(t->warp);
  while (!issued_by_all(g, end)) {
    t->next = g.waiting, g.waiting = t;
    park(t, line, "wgmma of the other warps of its warpgroup");
  }
  run_products(g, end);
  u32 agent = (u32)threads.size() + COPY_AGENTS + t->warp->index / 4;
  if (clock_words) t->clock[agent] = std::max(t->clock[agent], end);
}

// The results of a lane's product, or null while it is not done.
const u32* wgmma_sums(Thread* t, u32 token) {
  Warpgroup& g = warpgroup_of(t->warp);
  u32 at = ((token >> 8) - g.first) & 0xfff;
  if (at >= g.products.size() || !g.products[at].done) return nullptr;
  const Product& p = g.products[at];
  return &p.sums[t->id % 128 * p.regs];
}

void wgmma_resolved(Thread* t) {
  Warpgroup& g = warpgroup_of(t->warp);
  g.resolved[t->id % 128] = g.done;
  if (g.products.size() > 16) forget_old(g);
}

void token_used(Thread* t, u32 line) {
  report(ASYNC_WAIT, line, 0, "thread %u uses the result of a wgmma before wgmma.wait_group", t->id);
}
