// Warp collectives on registers.
static u32 shuffle_source(u32 mode, u32 lane, u32 b, u32 c, bool& valid) {
  // PTX ISA 9.0, 9.7.9.6: c holds the segment's mask above the clamp.
  u32 clamp = c & 31, segment = c >> 8 & 31;
  s32 most = (s32)((lane & segment) | (clamp & ~segment)), least = (s32)(lane & segment);
  s32 from = 0;
  b &= 31;
  switch (mode) {
    case 0: from = (s32)lane - (s32)b, valid = from >= most; break;
    case 1: from = (s32)(lane + b), valid = from <= most; break;
    case 2: from = (s32)(lane ^ b), valid = from <= most; break;
    default: from = least | ((s32)b & ~(s32)segment), valid = from <= most;
  }
  return valid ? (u32)from : lane;
}

// args: value, b, c, mode -> value, valid.
static void run_shfl(Warp* w, Meeting& m) {
  u32 values[32];
  for (u32 i = 0; i < 32; i++) values[i] = m.arrived >> i & 1 ? m.args[i][0] : 0;
  for (u32 i = 0; i < 32; i++) {
    if (!(m.arrived >> i & 1)) continue;
    u32* a = m.args[i];
    bool valid;
    u32 from = shuffle_source(a[3], i, a[1], a[2], valid);
    if (!(m.arrived >> from & 1)) {
      report(BARRIER, m.line, 0, "thread %u shuffles from lane %u, which does not take part",
             w->lanes[i]->id, from);
      from = i;
    }
    a[0] = values[from], a[1] = valid;
  }
}

u32 shfl(Thread* t, u32 line, u32 mode, u32 value, u32 b, u32 c, u32 mask, bool& valid) {
  u32 args[4] = {value, b, c, mode};
  meet(t, line, mask, run_shfl, args);
  valid = args[1];
  return args[0];
}

static void run_ballot(Warp*, Meeting& m) {
  u32 ballot = 0;
  for (u32 i = 0; i < 32; i++)
    if (m.arrived >> i & 1) ballot |= m.args[i][0] << i;
  for (u32 i = 0; i < 32; i++)
    if (m.arrived >> i & 1) m.args[i][0] = ballot, m.args[i][1] = m.arrived;
}

u32 vote(Thread* t, u32 line, u32 mode, bool predicate, u32 mask) {
  u32 args[2] = {predicate, 0};
  meet(t, line, mask, run_ballot, args);
  switch (mode) {
    case 0: return args[0] == args[1];
    case 1: return args[0] != 0;
    case 2: return args[0] == args[1] || args[0] == 0;
    default: return args[0];
  }
}

// args: value (two words) -> lanes with the same value, lanes that took part.
static void run_match(Warp*, Meeting& m) {
  u32 same[32] = {0};
  for (u32 i = 0; i < 32; i++)
    for (u32 j = 0; j < 32; j++)
      if ((m.arrived >> i & 1) && (m.arrived >> j & 1) && m.args[i][0] == m.args[j][0] &&
          m.args[i][1] == m.args[j][1])
        same[i] |= 1u << j;
  for (u32 i = 0; i < 32; i++)
    if (m.arrived >> i & 1) m.args[i][0] = same[i], m.args[i][1] = m.arrived;
}

u32 match_lanes(Thread* t, u32 line, bool all, u64 value, u32 mask, bool& same) {
  u32 args[2] = {(u32)value, (u32)(value >> 32)};
  meet(t, line, mask, run_match, args);
  same = args[0] == args[1];
  return all && !same ? 0 : args[0];
}

static u32 reduce_two(u32 operation, u32 kind, u32 a, u32 b) {
  if (kind >= 4) {  // f32; 1: of absolute values, 2: NaN wins
    f32 x = __builtin_bit_cast(f32, a), y = __builtin_bit_cast(f32, b);
    if (kind & 1) x = f_abs(x), y = f_abs(y);
    bool nan = kind & 2, less = operation == 1;
    f32 r = less ? (nan ? f_minmax<f32, true, false, true, false>(x, y)
                        : f_minmax<f32, true, false, false, false>(x, y))
                 : (nan ? f_minmax<f32, false, false, true, false>(x, y)
                        : f_minmax<f32, false, false, false, false>(x, y));
    return __builtin_bit_cast(u32, r);
  }
  bool below = kind ? (s32)a < (s32)b : a < b;
  switch (operation) {
    case 0: return a + b;
    case 1: return below ? a : b;
    case 2: return below ? b : a;
    case 3: return a & b;
    case 4: return a | b;
    default: return a ^ b;
  }
}

// args: value, operation, kind -> value.
static void run_redux(Warp*, Meeting& m) {
  u32 first = (u32)__builtin_ctz(m.arrived), sum = m.args[first][0];
  u32 operation = m.args[first][1], kind = m.args[first][2];
  if (kind >= 4 && kind & 1) sum &= 0x7fffffff;
  for (u32 i = first + 1; i < 32; i++)
    if (m.arrived >> i & 1) sum = reduce_two(operation, kind, sum, m.args[i][0]);
  for (u32 i = 0; i < 32; i++)
    if (m.arrived >> i & 1) m.args[i][0] = sum;
}

u32 redux(Thread* t, u32 line, u32 operation, u32 kind, u32 value, u32 mask) {
  u32 args[3] = {value, operation, kind};
  meet(t, line, mask, run_redux, args);
  return args[0];
}

u32 elect(Thread* t, u32 line, u32 mask) {
  u32 args[2] = {1, 0};
  meet(t, line, mask, run_ballot, args);
  return (u32)__builtin_ctz(args[1]);
}

u64 clock_now() {
  static u64 ticks;
  return ticks += 16;  // no time is kept: only that it moves on
}

// The texts and numbers of the device's printf; %s and %n are not followed.
void print_text(Thread* t, u32 line, u8* result, const u8* text, const u8* args) {
  u64 at, from;
  memcpy(&at, text, 8), memcpy(&from, args, 8);
  std::string out, spec;
  u32 got = 0;
  auto next = [&](u64& address, u32 bytes) {
    u64 value = 0;
    memcpy(&value, at_generic(t, line, address, bytes, READ, 0, 1), bytes);
    address += bytes;
    return value;
  };
  for (char c; (c = (char)next(at, 1)) && out.size() < 1000;) {
    if (c != '%') { out += c; continue; }
    spec = "%";
    bool wide = false;
    while ((c = (char)next(at, 1)) && strchr("-+ #0123456789.lhz", c) && spec.size() < 12)
      if (strchr("lhz", c)) wide |= c != 'h'; else spec += c;
    char part[128] = "%";
    bool real = c && strchr("fFeEgGaA", c);
    if (c == '%') { out += c; continue; }
    if (!c || !(real || strchr("diuoxXcp", c))) { out += "(?)"; if (!c) break; continue; }
    u32 bytes = real || wide || c == 'p' ? 8 : 4;
    from = (from + bytes - 1) / bytes * bytes;
    u64 value = next(from, bytes);
    if (c == 'd' || c == 'i') value = bytes == 4 ? (u64)(s64)(s32)value : value;
    if (real) snprintf(part, sizeof part, (spec + c).c_str(), __builtin_bit_cast(f64, value));
    else if (c == 'c') snprintf(part, sizeof part, "%c", (int)value);
    else snprintf(part, sizeof part, (spec + "ll" + (c == 'p' ? 'x' : c)).c_str(), value);
    out += part;
    got++;
  }
  for (char& c : out)  // the text may come from anywhere: it moves no one's cursor
    if ((u8)c < 32 && c != '\n' && c != '\t') c = '?';
  fprintf(stderr, "%s", out.c_str());
  memcpy(result, &got, 4);
}
