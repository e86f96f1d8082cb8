// mbarrier objects (PTX ISA 9.0, 9.7.13.15): phases, arrivals, bytes that are still to come.
struct Mbarrier {
  u32 offset, expected, line, agent;
  s64 pending, bytes;  // arrivals and bytes that the phase still waits for
  u32 phase;
  u64 arrivals;
  Thread* waiting;
  std::vector<u32> clock, proxy, done, done_proxy;
};
static std::deque<Mbarrier> mbarriers;
static std::vector<u32> mbarrier_at;  // index + 1 for each 8 bytes of shared memory
static u32 agent_clock[COPY_AGENTS];
static const s64 MOST_BYTES = (1 << 20) - 1, MOST_ARRIVALS = (1 << 20) - 1;

static void reset_mbarriers() {
  mbarriers.clear();
  mbarrier_at.assign(M.shared_bytes / 8 + 1, 0);
  memset(agent_clock, 0, sizeof agent_clock);
}

static Mbarrier* find_mbarrier(u32 offset) {
  u32 i = offset / 8 < mbarrier_at.size() ? mbarrier_at[offset / 8] : 0;
  return i ? &mbarriers[i - 1] : nullptr;
}

static void check_mbarrier_memory(Thread* t, u32 line, u32 offset, u32 bytes) {
  if (mbarriers.empty()) return;
  for (u32 at = offset / 8; at <= (offset + bytes - 1) / 8; at++)
    if (mbarrier_at[at])
      report(BARRIER, line, mbarriers[mbarrier_at[at] - 1].line,
             "thread %u uses the mbarrier at shared 0x%x as plain memory", t->id, at * 8 + SHARED_BASE);
}

static bool mbarrier_address(Thread* t, u32 line, u64& address) {
  if (address - SHARED_WINDOW < WINDOW_BYTES) address -= SHARED_WINDOW;
  u64 offset = address - SHARED_BASE;
  if (offset < M.shared_bytes && offset + 8 <= M.shared_bytes && !(address & 7)) {
    address = offset;
    return true;
  }
  fault(t, line, address, 8, 8, ATOMIC, "shared");
  return false;
}

// The mbarrier of an operation, once its initialisation is known to the thread.
static Mbarrier* mbarrier_of(Thread* t, u32 line, u64 address) {
  if (!mbarrier_address(t, line, address)) return nullptr;
  Mbarrier* b = find_mbarrier((u32)address);
  if (!b) {
    report(BARRIER, line, 0, "thread %u uses shared 0x%llx as an mbarrier, but none is there", t->id,
           (unsigned long long)address + SHARED_BASE);
    return nullptr;
  }
  if (clock_words && t->id < threads.size()) {
    const Cell& c = words[address / 4];
    if (c.writer != t->id && !saw(t->clock, c.writer, c.clock))
      report_race("use of an mbarrier after its init", line, c.line, (u32)address, (u16)t->id, c.writer);
  }
  return b;
}

void mbarrier_init(Thread* t, u32 line, u64 address, u32 count) {
  if (!mbarrier_address(t, line, address)) return;
  u32 offset = (u32)address;
  if (count == 0 || count > MOST_ARRIVALS)
    report(BARRIER, line, 0, "mbarrier.init for %u arrivals: expected 1 to %lld", count,
           (long long)MOST_ARRIVALS);
  if (find_mbarrier(offset))
    report(BARRIER, line, find_mbarrier(offset)->line,
           "mbarrier.init of shared 0x%x, which is an mbarrier already", offset + SHARED_BASE);
  mbarrier_at[offset / 8] = 0;
  u64 zero = 0;
  if (L->checks & WATCHED) watch_shared(t, line, offset, 8, WRITE, 0);
  memcpy(M.shared + offset, &zero, 8);
  Mbarrier b = Mbarrier();
  b.offset = offset, b.expected = count, b.pending = count, b.line = line;
  b.agent = (u32)mbarriers.size() % COPY_AGENTS;
  for (auto* each : {&b.clock, &b.proxy, &b.done, &b.done_proxy}) each->assign(clock_words, 0);
  mbarriers.push_back(b);
  mbarrier_at[offset / 8] = (u32)mbarriers.size();
}

void mbarrier_inval(Thread* t, u32 line, u64 address) {
  Mbarrier* b = mbarrier_of(t, line, address);
  if (!b) return;
  if (b->waiting)
    report(BARRIER, line, b->line, "mbarrier.inval while thread %u waits", b->waiting->id);
  mbarrier_at[b->offset / 8] = 0;
  if (L->checks & WATCHED) watch_shared(t, line, b->offset, 8, WRITE, 0);
}

static bool phase_done(const Mbarrier& b, u32 parity) { return (b.phase & 1) != (parity & 1); }

static void acquire_phase(Thread* t, const Mbarrier& b) {
  if (clock_words) join(t->clock, b.done.data()), join(t->proxy, b.done_proxy.data());
}

static void wake_waiters(Mbarrier& b) {
  Thread* keep = nullptr;
  for (Thread *t = b.waiting, *next; t; t = next) {
    next = t->next;
    if (phase_done(b, t->result)) wake(t);
    else t->next = keep, keep = t;
  }
  b.waiting = keep;
}

static void check_phase(Mbarrier& b) {
  if (b.pending || b.bytes) return;
  b.phase++, b.pending = b.expected;
  b.done.swap(b.clock), b.done_proxy.swap(b.proxy);
  b.clock.assign(clock_words, 0), b.proxy.assign(clock_words, 0);
  wake_waiters(b);
}

static void add_bytes(Mbarrier& b, u32 line, s64 bytes) {
  b.bytes += bytes;
  if (b.bytes > MOST_BYTES || b.bytes < -MOST_BYTES)
    report(BARRIER, line, b.line, "the mbarrier at 0x%x expects %lld bytes: at most %lld can be",
           b.offset + SHARED_BASE, (long long)b.bytes, (long long)MOST_BYTES);
}

static void take_arrivals(Mbarrier& b, u32 line, u32 who, u32 count) {
  if (count > b.pending)
    report(BARRIER, line, b.line, "thread %u arrives %u times at the mbarrier 0x%x, which waits for "
           "%lld of %u in phase %u", who, count, b.offset + SHARED_BASE, (long long)b.pending,
           b.expected, b.phase);
  b.pending = count > b.pending ? 0 : b.pending - count;
}

// drop: the thread leaves the later phases too. The state before, as a token.
u64 mbarrier_arrive(Thread* t, u32 line, u64 address, u32 count, s64 bytes, bool drop, bool relaxed) {
  Mbarrier* b = mbarrier_of(t, line, address);
  if (!b) return 0;
  u64 token = (u64)b->phase << 32 | (u32)b->pending;
  add_bytes(*b, line, bytes);
  if (clock_words && !relaxed) join(b->clock.data(), t->clock), join(b->proxy.data(), t->proxy), tick(t);
  if (drop) b->expected -= b->expected ? 1 : 0;
  take_arrivals(*b, line, t->id, count);
  check_phase(*b);
  return token;
}

void mbarrier_expect(Thread* t, u32 line, u64 address, s64 bytes) {
  if (Mbarrier* b = mbarrier_of(t, line, address)) {
    add_bytes(*b, line, bytes);
    if (bytes < 0) check_phase(*b);
  }
}

// kind 0: test by parity, 1: by token. A try waits until the phase ends.
bool mbarrier_wait(Thread* t, u32 line, u64 address, u64 state, bool token, bool try_, bool relaxed) {
  Mbarrier* b = mbarrier_of(t, line, address);
  if (!b) return true;
  u32 parity = token ? (u32)(state >> 32) & 1 : (u32)state & 1;
  if (!phase_done(*b, parity)) {
    if (!try_) {
      fruitless += PATIENCE / 64;
      yield_now(t, line);
      if (!phase_done(*b, parity)) return false;
    } else {
      t->next = b->waiting, b->waiting = t, t->result = parity;
      t->line = line, t->waits_for = "an mbarrier";
      switch_away(t);
      t->waits_for = "";
      if (!phase_done(*b, parity)) return false;
    }
  }
  if (!relaxed) acquire_phase(t, *b);
  return true;
}

// Bytes that an asynchronous copy brought: seen by those who wait for the phase.
static void mbarrier_complete_bytes(u32 offset, s64 bytes, const u32* clock, const u32* proxy, u32 line) {
  Mbarrier* b = find_mbarrier(offset);
  if (!b) {
    report(BARRIER, line, 0, "a copy ends at shared 0x%x, but no mbarrier is there any more",
           offset + SHARED_BASE);
    return;
  }
  add_bytes(*b, line, -bytes);
  if (clock_words) {
    join(b->clock.data(), clock), join(b->proxy.data(), proxy);
    u32 agent = (u32)threads.size() + b->agent;
    b->clock[agent] = std::max(b->clock[agent], agent_clock[b->agent]);
    b->proxy[agent] = b->clock[agent];
  }
  check_phase(*b);
}

static void describe(std::vector<char>& out, const char* format, ...) {
  char text[200];
  va_list args;
  va_start(args, format);
  int n = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  out.insert(out.end(), text, text + std::min(n, (int)sizeof text - 1));
}

void describe_barriers(std::vector<char>& out) {
  for (u32 i = 0; i < 16; i++)
    if (barriers[i].arrived)
      describe(out, "; barrier %u (line %u): %u of %u threads came", i, barriers[i].line,
               barriers[i].arrived, wanted(barriers[i]));
  for (const Mbarrier& b : mbarriers)
    if (mbarrier_at[b.offset / 8])
      describe(out, "; mbarrier 0x%x: phase %u, %lld of %u arrivals and %lld bytes missing",
               b.offset + SHARED_BASE, b.phase, (long long)b.pending, b.expected, (long long)b.bytes);
}

// barrier.cluster of a cluster of one block: every thread arrives, then waits; phases alternate.
struct ClusterBarrier { u32 arrived, phase; Thread* waiting; std::vector<u32> clock, proxy, done, done_proxy; };
static ClusterBarrier cluster;
static std::vector<u32> cluster_phase;  // of each thread: the phase it arrived in, plus 1

static void reset_cluster() {
  cluster = ClusterBarrier();
  for (auto* each : {&cluster.clock, &cluster.proxy, &cluster.done, &cluster.done_proxy})
    each->assign(clock_words, 0);
  cluster_phase.assign(threads.size(), 0);
}

void cluster_arrive(Thread* t, u32 line) {
  if (cluster_phase[t->id])
    report(BARRIER, line, 0, "thread %u arrives twice at the cluster's barrier", t->id);
  cluster_phase[t->id] = cluster.phase + 1;
  if (clock_words) {
    join(cluster.clock.data(), t->clock), join(cluster.proxy.data(), t->proxy);
    tick(t);
  }
  if (++cluster.arrived < alive_threads) return;
  cluster.arrived = 0, cluster.phase++;
  cluster.done.swap(cluster.clock), cluster.done_proxy.swap(cluster.proxy);
  cluster.clock.assign(clock_words, 0), cluster.proxy.assign(clock_words, 0);
  for (Thread* w = cluster.waiting; w; w = w->next) wake(w);
  cluster.waiting = nullptr;
}

void cluster_wait(Thread* t, u32 line) {
  if (!cluster_phase[t->id])
    report(BARRIER, line, 0, "thread %u waits at the cluster's barrier without arriving", t->id);
  if (cluster_phase[t->id] == cluster.phase + 1) {
    t->next = cluster.waiting, cluster.waiting = t;
    t->line = line, t->waits_for = "the cluster's barrier";
    switch_away(t);
    t->waits_for = "";
  }
  cluster_phase[t->id] = 0;
  if (clock_words) join(t->clock, cluster.done.data()), join(t->proxy, cluster.done_proxy.data());
}
