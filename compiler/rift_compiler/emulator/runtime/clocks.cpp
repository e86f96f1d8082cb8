// Vector clocks: for each thread, the last event of every other thread that it is ordered after.
// An array has an entry for each thread, then one for each asynchronous agent.
static std::vector<u32> clock_store;

typedef u32 words8 __attribute__((vector_size(32), aligned(4)));

void join(u32* into, const u32* from) {
  for (u32 i = 0; i < clock_words; i += 8) {
    words8 &a = *(words8*)(into + i), b = *(const words8*)(from + i);
    a = a > b ? a : b;
  }
}

void join_proxy(u32* into, const u32* from) {
  if (L->proxies) join(into, from);
}

// What the thread does from here on is newer than what it released.
void tick(Thread* t) { t->clock[t->id]++; }

static void make_clocks() {
  u32 n = (u32)threads.size();
  bool any = checking(RACE) || checking(UNINITIALISED) || checking(IN_FLIGHT) ||
             checking(PROXY_FENCE);
  clock_words = any ? (n + (L->proxies ? AGENTS : 0) + 7) / 8 * 8 : 0;
  clock_store.assign(2ull * n * clock_words, 0);
  for (u32 i = 0; i < n && clock_words; i++) {
    threads[i].clock = &clock_store[2ull * i * clock_words];
    threads[i].proxy = threads[i].clock + clock_words;
  }
}

static void reset_clocks_of_block() {
  std::fill(clock_store.begin(), clock_store.end(), 0);
  if (clock_words)
    for (Thread& t : threads) t.clock[t.id] = 1;
}

// What generic accesses before a fence.proxy.async did is then seen by asynchronous copies.
void fence_proxy(Thread* t) {
  if (clock_words) join_proxy(t->proxy, t->clock);
}

// Synchronisation through memory: a release at an address, and who acquires it. What other blocks
// released is known by block alone.
struct Released { std::vector<u32> clock, proxy; std::vector<u32> blocks; u32 block; };
static std::unordered_map<u64, Released> released;           // by generic address
static std::vector<std::vector<u32>> seen_blocks;            // of each thread
static std::vector<std::vector<u32>> fenced, pending;        // clocks at the last fence; to acquire
static std::vector<std::vector<u32>> pending_blocks;

static u32 block_number() {
  return M.ctaid[0] + M.grid[0] * (M.ctaid[1] + M.grid[1] * M.ctaid[2]);
}

static void reset_releases(bool launch) {
  u32 n = clock_words ? (u32)threads.size() : 0;
  if (launch) released.clear();
  for (auto* each : {&seen_blocks, &fenced, &pending, &pending_blocks}) each->assign(n, {});
}

static void merge(std::vector<u32>& into, const std::vector<u32>& from) {
  for (u32 x : from)
    if (std::find(into.begin(), into.end(), x) == into.end()) into.push_back(x);
}

void fence(Thread* t) {
  if (!clock_words) return;
  fenced[t->id].assign(t->clock, t->clock + clock_words);
  if (!pending[t->id].empty()) join(t->clock, pending[t->id].data()), pending[t->id].clear();
  merge(seen_blocks[t->id], pending_blocks[t->id]);
  tick(t);
}

static void release_at(Thread* t, u64 address, bool strong) {
  const std::vector<u32>& before = fenced[t->id];
  if (!strong && before.empty()) return;
  Released& r = released[address];
  if (r.clock.empty() || r.block != block_number()) {
    if (!r.clock.empty()) merge(r.blocks, {r.block});
    r.clock.assign(clock_words, 0), r.block = block_number();
  }
  join(r.clock.data(), strong ? t->clock : before.data());
  merge(r.blocks, seen_blocks[t->id]);
  if (strong) tick(t);
}

static void acquire_at(Thread* t, u64 address, bool strong) {
  auto found = released.find(address);
  if (found == released.end()) return;
  const Released& r = found->second;
  bool same = r.block == block_number();
  if (same && strong) join(t->clock, r.clock.data());
  if (same && !strong) {
    pending[t->id].resize(clock_words);
    join(pending[t->id].data(), r.clock.data());
  }
  std::vector<u32>& into = strong ? seen_blocks[t->id] : pending_blocks[t->id];
  merge(into, r.blocks);
  if (!same) merge(into, {r.block});
}

// A strong access (atomic, volatile, relaxed, acquire, release) of memory, seen as synchronisation.
void synchronise(Thread* t, u64 address, bool reads, bool writes, bool acquire, bool release) {
  if (!clock_words) return;
  if (reads) acquire_at(t, address, acquire);
  if (writes) release_at(t, address, release);
}

static bool seen_block(Thread* t, u32 block) {
  const auto& seen = seen_blocks[t->id];
  return std::find(seen.begin(), seen.end(), block) != seen.end();
}
