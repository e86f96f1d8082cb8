// A launch: blocks one after another, each with its threads as fibres.
static u8* shared_store;
static u8* local_store;
static u64 local_store_bytes, shared_store_bytes;

static u8* pages_for(u8*& held, u64& held_bytes, u64 need) {
  if (held) munmap(held, held_bytes);
  held_bytes = need ? need : 1;
  held = (u8*)mmap(0, held_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return held == MAP_FAILED ? nullptr : held;
}

static void describe_machine() {
  M.arena = (u8*)L->arena, M.arena_base = L->arena_base, M.arena_bytes = L->arena_bytes;
  M.regions = (Region*)L->regions, M.granules = (u16*)L->granules, M.written = (u8*)L->written;
  M.params = L->params, M.counts = (u64*)L->counts;
  memcpy(M.grid, L->grid, sizeof M.grid), memcpy(M.block, L->block, sizeof M.block);
  M.static_shared = L->static_shared, M.dynamic_shared = L->dynamic_shared;
  M.shared_bytes = L->static_shared + L->dynamic_shared, M.local_bytes = L->local_bytes;
  M.slice = checking(COUNTERS) || L->seed ? 1 : 4096;
}

static void poison(u8* at, u64 bytes) { memset(at, 0xff, bytes); }  // NaN as any float

static void one_block() {
  begin_block();
  reset_clocks_of_block();
  reset_releases(false);
  reset_shadow();
  reset_barriers();
  reset_async();
  poison(M.shared, M.shared_bytes);
  run_block();
  finish_async();
}

static bool stopped() {
  for (const Finding& f : findings)
    if (f.kind == DEADLOCK || f.kind == LIMIT || f.kind == TRAP) return true;
  return false;
}

static bool make_memory() {
  M.shared = pages_for(shared_store, shared_store_bytes, M.shared_bytes);
  u8* local = pages_for(local_store, local_store_bytes, (u64)M.local_bytes * threads.size());
  for (size_t i = 0; i < threads.size(); i++) threads[i].local = local + i * M.local_bytes;
  return M.shared && local;
}

static void run_all_blocks() {
  for (u32 z = 0; z < M.grid[2]; z++)
    for (u32 y = 0; y < M.grid[1]; y++)
      for (u32 x = 0; x < M.grid[0]; x++) {
        M.ctaid[0] = x, M.ctaid[1] = y, M.ctaid[2] = z;
        one_block();
        if (stopped()) return;
      }
}

int launch_kernel(Launch* launch, void (*entry)(Thread*)) {
  L = launch, entry_function = entry;
  findings.clear(), finding_index.clear();
  deadline = now_s() + L->limit_s, picks = 0;
  random_state = L->seed * 0x9E3779B97F4A7C15ull + 1;
  describe_machine();
  if (!make_threads() || !make_memory()) return 1;
  make_clocks();
  reset_releases(true);
  reset_global_shadow();
  make_counters();
  make_tables();
  run_all_blocks();
  flush_counters();
  return 0;
}

extern "C" __attribute__((visibility("default"))) u32 rift_findings(Finding** out) {
  *out = findings.data();
  return (u32)findings.size();
}
