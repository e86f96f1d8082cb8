// Bulk copies by the asynchronous proxy (PTX ISA 9.0, 9.7.9.25.4 and .5): loads end at an mbarrier,
// stores belong to a group of their thread. Both are done as late as possible.
struct Bulk {
  Thread* thread;
  u32 line, to_or_from, bytes, mbarrier;  // offsets in shared memory
  bool tensor, store;
  u64 global;                             // offset in the arena, when it is no tensor
  TensorMapBits map;
  s32 at[5];
  u32 operation, type;                    // of a reduction; 0: none
  std::vector<u32> clock, proxy;          // of the thread when it began
};
static std::deque<Bulk> loads;                        // in flight
static std::vector<std::vector<Bulk>> open_stores;    // of each thread
static std::vector<std::deque<std::vector<Bulk>>> store_groups;

struct Arrival { Thread* thread; u32 mbarrier, line; bool counted; std::vector<u32> clock, proxy; };
static std::deque<Arrival> arrivals;  // of cp.async.mbarrier.arrive

static void reset_bulk() {
  loads.clear(), arrivals.clear();
  open_stores.assign(threads.size(), {});
  store_groups.assign(threads.size(), {});
}

// f(offset in shared memory, offset in the arena or ~0, bytes) for each run of one inner row's 16
// bytes, or less at the tensor's edge.
template <class F> static void each_run(const Bulk& b, F f) {
  const TensorMapBits& m = b.map;
  u32 box[5];
  for (u32 i = 0; i < 5; i++) box[i] = i < m.rank ? (m.box[i] + m.step[i] - 1) / m.step[i] : 1;
  u32 inner = box[0], at = 0, index[5] = {0};
  for (index[4] = 0; index[4] < box[4]; index[4]++)
    for (index[3] = 0; index[3] < box[3]; index[3]++)
      for (index[2] = 0; index[2] < box[2]; index[2]++)
        for (index[1] = 0; index[1] < box[1]; index[1]++)
          for (u32 x = 0; x < inner; x++, at += m.element) {
            index[0] = x;
            bool inside = true;
            u64 offset = m.address - M.arena_base;
            for (u32 i = 0; i < m.rank; i++) {
              s64 c = (s64)b.at[i] + (s64)index[i] * m.step[i];
              inside &= c >= 0 && c < (s64)m.size[i];
              offset += (u64)c * m.stride[i];
            }
            u32 to = swizzled(b.to_or_from + at + SHARED_BASE, m.swizzle) - SHARED_BASE;
            f(to, inside ? offset : ~0ull, (u32)m.element);
          }
}

static u32 box_bytes(const TensorMapBits& m) {
  u32 n = m.element;
  for (u32 i = 0; i < m.rank; i++) n *= (m.box[i] + m.step[i] - 1) / m.step[i];
  return n;
}

static bool bulk_shared(Thread* t, u32 line, u64& address, u32 bytes, u32 align) {
  if (address - SHARED_WINDOW < WINDOW_BYTES) address -= SHARED_WINDOW;
  u64 offset = address - SHARED_BASE;
  if (address % align) {
    report(ALIGNMENT, line, 0, "thread %u: a bulk copy at shared 0x%llx: expected a multiple of %u",
           t->id, (unsigned long long)address, align);
    return false;
  }
  if (offset >= M.shared_bytes || offset + bytes > M.shared_bytes) {
    report(BOUNDS, line, 0, "thread %u: a bulk copy of %u bytes at shared 0x%llx is out of bounds",
           t->id, bytes, (unsigned long long)address);
    return false;
  }
  address = offset;
  return true;
}

static bool bulk_global(Thread* t, u32 line, u64 address, u32 bytes, int access) {
  if (address % 16) {
    report(ALIGNMENT, line, 0, "thread %u: a bulk copy at global 0x%llx: expected a multiple of 16",
           t->id, (unsigned long long)address);
    return false;
  }
  return at_global(t, line, address, bytes, access, 0, 1) == M.arena + (address - M.arena_base);
}

// What happens in global memory, to its checks.
static void watch_bulk_global(Bulk& b, int access) {
  if (!(L->checks & WATCHED)) return;
  auto watch = [&](u64 offset, u32 bytes) {
    if (checking(UNINITIALISED)) check_written(b.thread, b.line, offset, bytes, access);
    if (clock_words && M.regions[M.granules[offset >> 8]].writable)
      race_global(b.thread, b.line, offset, bytes, access, 0);
  };
  if (!b.tensor) return watch(b.global, b.bytes);
  each_run(b, [&](u32, u64 offset, u32 bytes) { if (offset != ~0ull) watch(offset, bytes); });
}

static void remember_clocks(Bulk& b) {
  if (!clock_words) return;
  b.clock.assign(b.thread->clock, b.thread->clock + clock_words);
  b.proxy.assign(b.thread->proxy, b.thread->proxy + clock_words);
  tick(b.thread);
}

static void begin_load(Bulk& b, u64 mbarrier) {
  Mbarrier* held = mbarrier_of(b.thread, b.line, mbarrier);
  if (!held) return;
  b.mbarrier = held->offset;
  watch_bulk_global(b, READ);
  if (clock_words) copy_takes_off(b.to_or_from, b.bytes, b.line, b.thread->clock, (u16)b.thread->id);
  remember_clocks(b);
  loads.push_back(b);
}

void bulk_load(Thread* t, u32 line, u64 to, u64 from, u32 bytes, u64 mbarrier) {
  Bulk b = Bulk();
  if (bytes % 16) report(ALIGNMENT, line, 0, "thread %u: a bulk copy of %u bytes", t->id, bytes);
  if (!bytes || bytes % 16 || !bulk_shared(t, line, to, bytes, 16) || !bulk_global(t, line, from, bytes, READ))
    return;
  b.thread = t, b.line = line, b.to_or_from = (u32)to, b.bytes = bytes;
  b.global = from - M.arena_base;
  begin_load(b, mbarrier);
}

static bool tensor_copy(Thread* t, u32 line, Bulk& b, u64 map, u64 shared, const s32* at, u32 rank) {
  if (!read_map(t, line, map, b.map)) return false;
  if (b.map.rank != rank) {
    report(BOUNDS, line, 0, "thread %u: a copy of %u axes by a tensor map of %u", t->id, rank, b.map.rank);
    return false;
  }
  b.thread = t, b.line = line, b.tensor = true, b.bytes = box_bytes(b.map);
  if (!bulk_shared(t, line, shared, b.bytes, 128)) return false;
  b.to_or_from = (u32)shared;
  memcpy(b.at, at, 4 * rank);
  return true;
}

void tensor_load(Thread* t, u32 line, u64 to, u64 map, const s32* at, u32 rank, u64 mbarrier) {
  Bulk b = Bulk();
  if (tensor_copy(t, line, b, map, to, at, rank)) begin_load(b, mbarrier);
}

static void fill(u32 to, const Bulk& b) {
  const TensorMapBits& m = b.map;
  memset(M.shared + to, m.nan_fill ? 0xff : 0, m.element);
}

static void land_load(Bulk& b) {
  if (b.tensor)
    each_run(b, [&](u32 to, u64 from, u32 bytes) {
      if (from == ~0ull) fill(to, b);
      else memcpy(M.shared + to, M.arena + from, bytes);
    });
  else
    memcpy(M.shared + b.to_or_from, M.arena + b.global, b.bytes);
  Mbarrier* held = find_mbarrier(b.mbarrier);
  if (clock_words) {
    u32 agent = held ? held->agent : 0;
    copy_lands(b.to_or_from, b.bytes, b.line, b.clock.data(), (u16)(threads.size() + agent),
               ++agent_clock[agent], true);
  }
  mbarrier_complete_bytes(b.mbarrier, b.bytes, b.clock.data(), b.proxy.data(), b.line);
}

// The words that the asynchronous proxy reads: written before the copy began, and fenced.
// clock and proxy are those of the threads that began it; who reads, at its time `when`.
static void check_async_read(u32 offset, u32 bytes, u32 line, u32 who, u32 when, const u32* clock,
                             const u32* proxy) {
  each_cell(offset, bytes, false, [&](Cell& c, u32 at, u32) {
    if (c.flight)
      report(IN_FLIGHT, line, c.line, "an asynchronous read of shared 0x%x while the copy of line %u "
             "to it is in flight", at + SHARED_BASE, c.line);
    else if (!c.written)
      report(UNINITIALISED, line, 0, "an asynchronous read of shared 0x%x, which nobody wrote",
             at + SHARED_BASE);
    else if (!saw(clock, c.writer, c.clock))
      report_race("asynchronous read and write", line, c.line, at, (u16)who, c.writer);
    else if (!c.async && !saw(proxy, c.writer, c.clock))
      report(PROXY_FENCE, line, c.line, "an asynchronous read of shared 0x%x, written by thread %u "
             "(line %u), with no fence.proxy.async between", at + SHARED_BASE, c.writer, c.line);
    add_reader(c, who, when, clock, line);
  });
}

static void begin_store(Bulk& b) {
  remember_clocks(b);
  b.store = true;
  open_stores[b.thread->id].push_back(b);
}

void bulk_store(Thread* t, u32 line, u64 to, u64 from, u32 bytes, u32 operation, u32 type) {
  Bulk b = Bulk();
  if (bytes % 16) report(ALIGNMENT, line, 0, "thread %u: a bulk copy of %u bytes", t->id, bytes);
  if (!bytes || bytes % 16 || !bulk_shared(t, line, from, bytes, 16) || !bulk_global(t, line, to, bytes, WRITE))
    return;
  b.thread = t, b.line = line, b.to_or_from = (u32)from, b.bytes = bytes;
  b.global = to - M.arena_base, b.operation = operation, b.type = type;
  begin_store(b);
}

void tensor_store(Thread* t, u32 line, u64 map, const s32* at, u32 rank, u64 from, u32 operation) {
  Bulk b = Bulk();
  b.operation = operation;
  if (tensor_copy(t, line, b, map, from, at, rank)) begin_store(b);
}

static void put(const Bulk& b, u8* to, const u8* from, u32 bytes) {
  if (b.operation == R_NONE) { memcpy(to, from, bytes); return; }
  switch (b.type) {
    case T_U32: return reduce_integers<u32>(b.operation, to, from, bytes);
    case T_S32: return reduce_integers<s32>(b.operation, to, from, bytes);
    case T_U64: return reduce_integers<u64>(b.operation, to, from, bytes);
    case T_S64: return reduce_integers<s64>(b.operation, to, from, bytes);
    case T_F16: return reduce_floats<f16>(b.operation, to, from, bytes);
    case T_BF16: return reduce_floats<bf16>(b.operation, to, from, bytes);
    case T_F32: return reduce_floats<f32>(b.operation, to, from, bytes);
    default: return reduce_floats<f64>(b.operation, to, from, bytes);
  }
}

static void land_store(Bulk& b) {
  if (clock_words)
    check_async_read(b.to_or_from, b.bytes, b.line, b.thread->id, b.thread->clock[b.thread->id],
                     b.clock.data(), b.proxy.data());
  watch_bulk_global(b, b.operation ? ATOMIC : WRITE);
  if (!b.tensor) return put(b, M.arena + b.global, M.shared + b.to_or_from, b.bytes);
  each_run(b, [&](u32 from, u64 to, u32 bytes) {
    if (to != ~0ull) put(b, M.arena + to, M.shared + from, bytes);
  });
}

void bulk_commit(Thread* t) {
  auto& groups = store_groups[t->id];
  groups.emplace_back();
  groups.back().swap(open_stores[t->id]);
}

void bulk_wait(Thread* t, u32 pending) {
  auto& groups = store_groups[t->id];
  while (groups.size() > pending) {
    for (Bulk& b : groups.front()) land_store(b);
    groups.pop_front();
  }
}

// cp.async.mbarrier.arrive: arrives once the thread's copies so far have landed.
void copy_arrive(Thread* t, u32 line, u64 mbarrier, bool counted) {
  Mbarrier* b = mbarrier_of(t, line, mbarrier);
  if (!b) return;
  if (counted) b->pending++;
  Arrival a = {t, b->offset, line, counted, {}, {}};
  copy_commit(t);
  arrivals.push_back(a);
}

static void land_arrival(const Arrival& a) {
  copy_wait_all(a.thread);
  Mbarrier* b = find_mbarrier(a.mbarrier);
  if (!b) return;
  if (clock_words) join(b->clock.data(), a.thread->clock), join(b->proxy.data(), a.thread->proxy), tick(a.thread);
  take_arrivals(*b, a.line, a.thread->id, 1);
  check_phase(*b);
}

template <class T> static T take_one(std::deque<T>& from) {
  size_t i = L->seed ? random_below((u32)from.size()) : 0;
  T out = from[i];
  from.erase(from.begin() + (long)i);
  return out;
}

bool land_something() {
  fruitless = 0;
  if (L->seed && !loads.empty() && !arrivals.empty() && random_below(2)) {
    land_arrival(take_one(arrivals));
    return true;
  }
  if (!loads.empty()) {
    Bulk b = take_one(loads);
    land_load(b);
    return true;
  }
  if (!arrivals.empty()) {
    land_arrival(take_one(arrivals));
    return true;
  }
  return L->seed && land_early();
}

static void reset_wgmma();
static void reset_async() { reset_mbarriers(), reset_cluster(), reset_copies(), reset_bulk(), reset_wgmma(); }

// What a block leaves behind when all its threads have ended.
static void finish_async() {
  for (auto& each : loads)
    report(ASYNC_WAIT, each.line, 0, "block %u,%u,%u ends while this copy to its shared memory is in "
           "flight: nobody waited for it", M.ctaid[0], M.ctaid[1], M.ctaid[2]);
  for (Thread& t : threads) {
    for (auto* groups = &store_groups[t.id]; !groups->empty(); groups->pop_front())
      for (Bulk& b : groups->front()) {
        report(ASYNC_WAIT, b.line, 0, "thread %u ends without waiting until this bulk copy has read "
               "shared memory", t.id);
        land_store(b);
      }
    for (Bulk& b : open_stores[t.id]) {
      report(ASYNC_WAIT, b.line, 0, "thread %u ends without committing this bulk copy", t.id);
      land_store(b);
    }
  }
}
