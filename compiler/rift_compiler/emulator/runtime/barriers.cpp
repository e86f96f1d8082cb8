// The sixteen barriers of a block (PTX ISA 9.0, bar/barrier).

struct Barrier {
  u32 count;     // threads that must arrive; 0: all of the block that have not exited
  u32 arrived, line, popc;
  bool all, any;
  Thread* waiting;
  std::vector<u32> clock, proxy;
};
static Barrier barriers[16];
// Of each warp: the lines of the aligned barriers it came to, and how many of them each lane did.
static std::vector<u32> aligned_lines[32];
static u32 aligned_done[32][32];

static void reset_barriers() {
  for (Barrier& b : barriers) b.arrived = b.popc = 0, b.all = true, b.any = false, b.waiting = nullptr;
  for (auto& lines : aligned_lines) lines.clear();
  memset(aligned_done, 0, sizeof aligned_done);
}

static u32 wanted(const Barrier& b) { return b.count ? b.count : alive_threads; }

static void complete_barrier(Barrier& b) {
  u32 popc = b.popc, all = b.all, any = b.any;
  for (Thread *t = b.waiting, *next; t; t = next) {
    next = t->next;
    if (clock_words) {
      memcpy(t->clock, b.clock.data(), 4 * clock_words);
      if (L->proxies) memcpy(t->proxy, b.proxy.data(), 4 * clock_words);
      tick(t);
    }
    u32 kind = t->result;
    t->result = kind == BAR_POPC ? popc : kind == BAR_AND ? all : any;
    wake(t);
  }
  b.arrived = b.popc = 0, b.all = true, b.any = false, b.waiting = nullptr;
}

static void leave_barriers() {
  for (Barrier& b : barriers)
    if (b.arrived && !b.count && b.arrived >= alive_threads) {
      if (alive_threads)
        report(BARRIER, b.line, 0,
               "threads exited without coming to this barrier, at which others of their block wait");
      complete_barrier(b);
    }
}

// All lanes of a warp must come to the same aligned barriers in the same order.
static void check_aligned(Thread* t, u32 line) {
  auto& lines = aligned_lines[t->warp->index];
  u32 at = aligned_done[t->warp->index][t->lane]++;
  if (at == lines.size()) lines.push_back(line);
  else if (lines[at] != line)
    report(BARRIER, line, lines[at], "lanes of warp %u come to different aligned barriers, lines %u "
           "and %u", t->warp->index, lines[at], line);
}

static void arrive_at(Thread* t, Barrier& b, u32 line) {
  if (b.arrived == 0 && clock_words) b.clock.assign(clock_words, 0), b.proxy.assign(clock_words, 0);
  b.arrived++, b.line = line;
  if (clock_words) join(b.clock.data(), t->clock), join_proxy(b.proxy.data(), t->proxy);
}

static bool misused(Thread* t, u32 line, u32 id, u32 count) {
  if (id < 16 && count % 32 == 0 && count <= threads.size()) return false;
  report(BARRIER, line, 0, "thread %u: barrier %u for %u threads: expected an id below 16 and a "
         "multiple of 32 threads, at most the block's %zu", t->id, id, count, threads.size());
  return true;
}

// The predicate's popc, and or or over all who come; 0 for sync and arrive.
u32 bar(Thread* t, u32 line, u32 kind, u32 id, u32 count, bool predicate, bool aligned) {
  if (misused(t, line, id, count)) return 0;
  Barrier& b = barriers[id];
  if (aligned) check_aligned(t, line);
  if (b.arrived && b.count != count)
    report(BARRIER, line, b.line, "barrier %u is for %u threads here and for %u at line %u", id,
           count ? count : (u32)threads.size(), b.count ? b.count : (u32)threads.size(), b.line);
  arrive_at(t, b, line);
  b.count = count;
  b.popc += predicate, b.all &= predicate, b.any |= predicate;
  if (kind == BAR_ARRIVE) {
    if (clock_words) tick(t);
  } else {
    t->next = b.waiting, b.waiting = t, t->result = kind;
  }
  if (b.arrived > wanted(b))
    report(BARRIER, line, 0, "barrier %u: %u threads came, for %u", id, b.arrived, wanted(b));
  if (b.arrived >= wanted(b)) {
    complete_barrier(b);
    if (kind == BAR_ARRIVE) return 0;
    t->warp->ready &= ~(1u << t->lane);
    return t->result;
  }
  if (kind == BAR_ARRIVE) return 0;
  t->line = line, t->waits_for = "a barrier";
  switch_away(t);
  t->waits_for = "";
  return t->result;
}
