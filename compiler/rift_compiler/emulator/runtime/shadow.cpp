// Shared memory's shadow: who wrote each word last and who read it since (as FastTrack keeps it).
// A word is split into bytes once a smaller access touches it.
struct Reader { u32 mask, clock, line; u16 warp; };
struct Cell {
  u32 clock, line;   // of the last write
  u16 writer;        // thread, or threads.size() + agent
  u8 written, split, atomic, async, count, flight;
  Reader readers[3];
  std::vector<Reader>* more;
};
static std::vector<Cell> words, word_bytes;

static void reset_shadow() {
  size_t n = clock_words ? (M.shared_bytes + 3) / 4 : 0;
  for (Cell& c : words) delete c.more;
  for (Cell& c : word_bytes) delete c.more;
  words.assign(n, Cell());
  word_bytes.clear();
  for (Cell& c : words) c.writer = NOBODY;
}

static Cell* bytes_of(size_t word) {
  if (word_bytes.empty()) {
    word_bytes.assign(words.size() * 4, Cell());
    for (Cell& c : word_bytes) c.writer = NOBODY;
  }
  return &word_bytes[4 * word];
}

static void split(size_t word) {
  Cell& c = words[word];
  if (c.split) return;
  Cell* bytes = bytes_of(word);
  for (int i = 0; i < 4; i++) {
    delete bytes[i].more;
    bytes[i] = c;
    if (c.more) bytes[i].more = new std::vector<Reader>(*c.more);
  }
  c.split = 1;
}

static bool saw(const u32* clock, u16 who, u32 when) { return who == NOBODY || when <= clock[who]; }

static u32 unseen_lanes(const u32* clock, const Reader& r, u32 self) {
  u32 found = 0;
  for (u32 m = r.mask; m; m &= m - 1) {
    u32 id = r.warp * 32 + (u32)__builtin_ctz(m);
    if (id != self && r.clock > clock[id]) found |= m & -m;
  }
  return found;
}

static void name_of(u16 who, char* out) {
  if (who >= threads.size()) strcpy(out, "an asynchronous copy");
  else snprintf(out, 24, "thread %u", who);
}

static void report_race(const char* what, u32 line, u32 other, u32 offset, u16 me, u16 they) {
  char a[32], b[32];
  name_of(me, a), name_of(they, b);
  report(RACE, line, other, "%s at shared 0x%x: %s (line %u) and %s (line %u) are not ordered, in "
         "block %u,%u,%u", what, offset + SHARED_BASE, a, line, b, other, M.ctaid[0], M.ctaid[1],
         M.ctaid[2]);
}

// id: of a thread, or threads.size() + agent; seen: its clocks.
static void add_reader(Cell& c, u32 id, u32 clock, const u32* seen, u32 line) {
  u32 bit = 1u << id % 32;
  u16 warp = (u16)(id / 32);
  for (u32 i = 0; i < c.count; i++) {
    Reader& r = c.readers[i];
    if (r.warp != warp) continue;
    if (r.clock == clock) { r.mask |= bit; return; }
    if (r.mask == bit) { r.clock = clock, r.line = line; return; }
  }
  if (c.count < 3) { c.readers[c.count++] = {bit, clock, line, warp}; return; }
  for (u32 i = 0; i < 3; i++)  // one that this reader is ordered after says nothing more
    if (!unseen_lanes(seen, c.readers[i], id)) {
      c.readers[i] = {bit, clock, line, warp};
      return;
    }
  if (!c.more) c.more = new std::vector<Reader>();
  for (Reader& r : *c.more)
    if (r.warp == warp && r.clock == clock) { r.mask |= bit; return; }
  c.more->push_back({bit, clock, line, warp});
}

static void check_read(Cell& c, Thread* t, u32 line, u32 offset, bool atomic) {
  if (UNLIKELY(c.flight))
    report(IN_FLIGHT, line, c.line, "thread %u reads shared 0x%x while the copy of line %u to it is "
           "in flight", t->id, offset + SHARED_BASE, c.line);
  else if (UNLIKELY(!c.written))
    report(UNINITIALISED, line, 0, "thread %u of block %u,%u,%u reads shared 0x%x, which nobody "
           "wrote", t->id, M.ctaid[0], M.ctaid[1], M.ctaid[2], offset + SHARED_BASE);
  if (c.writer != t->id && !saw(t->clock, c.writer, c.clock) && !(atomic && c.atomic))
    report_race("read after write", line, c.line, offset, (u16)t->id, c.writer);
  add_reader(c, t->id, t->clock[t->id], t->clock, line);
}

static void race_with_readers(Cell& c, const u32* clock, u16 me, u32 line, u32 offset) {
  auto check = [&](const Reader& r) {
    if (u32 lanes = unseen_lanes(clock, r, me))
      report_race("write after read", line, r.line, offset, me,
                  (u16)(r.warp * 32 + __builtin_ctz(lanes)));
  };
  for (u32 i = 0; i < c.count; i++) check(c.readers[i]);
  if (c.more)
    for (const Reader& r : *c.more) check(r);
}

// same: what is stored is there already. One instruction of one warp may store one value twice.
static void check_write(Cell& c, const u32* clock, u16 me, u32 when, u32 line, u32 offset, bool same,
                        bool atomic, bool async) {
  bool exempt = same && c.line == line && me < threads.size() && c.writer / 32 == me / 32;
  if (UNLIKELY(c.flight) && !async)
    report(IN_FLIGHT, line, c.line, "thread %u writes shared 0x%x while the copy of line %u to it is "
           "in flight", me, offset + SHARED_BASE, c.line);
  if (c.writer != me && !saw(clock, c.writer, c.clock) && !exempt && !(atomic && c.atomic))
    report_race("write after write", line, c.line, offset, me, c.writer);
  if (!(atomic && c.atomic)) race_with_readers(c, clock, me, line, offset);
  c.clock = when, c.line = line, c.writer = me, c.written = 1, c.atomic = atomic, c.async = async;
  c.count = 0;
  if (UNLIKELY(c.more != nullptr)) delete c.more, c.more = nullptr;
}

template <class F> static void each_cell(u32 offset, u32 bytes, bool whole_write, F f) {
  for (u32 at = offset; at < offset + bytes;) {
    size_t word = at / 4;
    if (at % 4 == 0 && offset + bytes - at >= 4) {
      if (!words[word].split) {
        f(words[word], at, 4);
      } else {
        Cell* b = bytes_of(word);
        for (u32 i = 0; i < 4; i++) f(b[i], at + i, 1);
        if (whole_write) {
          Cell last = b[3];
          words[word] = last, words[word].split = 0, words[word].more = nullptr;
        }
      }
      at += 4;
    } else {
      split(word);
      f(bytes_of(word)[at % 4], at, 1);
      at++;
    }
  }
}

void count_shared(Thread* t, u32 line, u32 offset, u32 bytes);
void count_global(Thread* t, u32 line, u64 offset, u32 bytes);
static void check_mbarrier_memory(Thread* t, u32 line, u32 offset, u32 bytes);

void watch_shared(Thread* t, u32 line, u32 offset, u32 bytes, int access, const void* value) {
  if (checking(COUNTERS)) count_shared(t, line, offset, bytes);
  if (!clock_words) return;
  check_mbarrier_memory(t, line, offset, bytes);
  u32 now = t->clock[t->id];
  each_cell(offset, bytes, access & WRITE, [&](Cell& c, u32 at, u32 n) {
    if (access & READ) check_read(c, t, line, at, access & STRONG);
    if (!(access & WRITE)) return;
    bool same = value && !memcmp(M.shared + at, (const u8*)value + (at - offset), n);
    check_write(c, t->clock, (u16)t->id, now, line, at, same, access & STRONG, false);
  });
}

// A thread's own copy begins (cp.async) or a bulk copy: its words must not be touched until it ends.
static void copy_takes_off(u32 offset, u32 bytes, u32 line, const u32* clock, u16 me) {
  each_cell(offset, bytes, false, [&](Cell& c, u32 at, u32) {
    if (c.writer != me && !saw(clock, c.writer, c.clock))
      report_race("asynchronous write after write", line, c.line, at, me, c.writer);
    race_with_readers(c, clock, me, line, at);
    c.count = 0, c.line = line, c.flight++;
    if (c.more) delete c.more, c.more = nullptr;
  });
}

static void copy_lands(u32 offset, u32 bytes, u32 line, const u32* clock, u16 me, u32 when,
                       bool async_proxy) {
  each_cell(offset, bytes, true, [&](Cell& c, u32 at, u32) {
    if (c.flight) c.flight--;
    check_write(c, clock, me, when, line, at, false, false, true);
    c.async = async_proxy;
  });
}
