// One fibre for each CUDA thread: switching, and who runs next.
// The switch saves what the compiler holds live (all registers are clobbered) and jumps, which
// keeps the processor's prediction of returns right: lanes return to the same place.
#if !defined(__x86_64__)
#error "the emulator switches fibres on x86-64 only"
#endif
static inline __attribute__((always_inline)) void swap_stacks(void** save, void* to) {
  asm volatile(
      "lea 1f(%%rip), %%rax\n push %%rbp\n push %%rax\n mov %%rsp, (%0)\n mov %1, %%rsp\n"
      "pop %%rax\n jmp *%%rax\n 1: pop %%rbp\n"
      : "+D"(save), "+S"(to)
      :
      : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory",
        "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
        "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"
#ifdef __AVX512F__
        , "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25",
        "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k0", "k1", "k2", "k3", "k4", "k5", "k6",
        "k7"
#endif
  );
}

Machine M;
Launch* L;
std::vector<Warp> warps;
std::vector<Thread> threads;
u32 alive_threads, clock_words;
void (*entry_function)(Thread*);

static void* main_stack;
static Thread* running;
static u32 current_warp;
static u64 picks;
static f64 deadline;
static u8* stacks;
static u64 stacks_bytes;
static u64 random_state;
static const u64 STAGGER = 192;  // stacks at a power-of-two stride would share cache sets

u32 random_below(u32 n) {  // xorshift64*
  random_state ^= random_state >> 12, random_state ^= random_state << 25;
  random_state ^= random_state >> 27;
  return (u32)(((random_state * 0x2545F4914F6CDD1Dull) >> 33) % n);
}

static f64 now_s() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

void stop_launch() {
  void* unused;
  swap_stacks(&unused, main_stack);
  __builtin_unreachable();
}

static void where_threads_are(std::vector<char>& out) {
  std::map<std::pair<u32, const char*>, std::vector<u32>> at;
  for (Thread& t : threads)
    if (!t.exited) at[{t.line, t.waits_for}].push_back(t.id);
  for (auto& [key, ids] : at) {
    char text[160];
    int n = snprintf(text, sizeof text, "; %zu threads (%u", ids.size(), ids[0]);
    if (ids.size() > 1) n += snprintf(text + n, sizeof text - n, "..%u", ids.back());
    snprintf(text + n, sizeof text - n, ") at line %u%s%s", key.first, key.second[0] ? " wait for " : "", key.second);
    out.insert(out.end(), text, text + strlen(text));
  }
}

static u32 first_line_waiting() {
  for (Thread& t : threads)
    if (!t.exited) return t.line;
  return 0;
}

static void deadlock() {
  std::vector<char> text;
  where_threads_are(text);
  describe_barriers(text);
  text.push_back(0);
  report(DEADLOCK, first_line_waiting(), 0, "no thread of block %u,%u,%u can run%s", M.ctaid[0],
         M.ctaid[1], M.ctaid[2], text.data());
  stop_launch();
}

static void check_limit() {
  if (++picks % 1024 || now_s() < deadline) return;
  std::vector<char> text;
  where_threads_are(text);
  text.push_back(0);
  report(LIMIT, first_line_waiting(), 0, "stopped after %.3g s in block %u,%u,%u%s", L->limit_s,
         M.ctaid[0], M.ctaid[1], M.ctaid[2], text.data());
  stop_launch();
}

static u32 lowest_or_random(u32 mask) {
  if (!L->seed) return (u32)__builtin_ctz(mask);
  u32 skip = random_below((u32)__builtin_popcount(mask));
  while (skip--) mask &= mask - 1;
  return (u32)__builtin_ctz(mask);
}

static Thread* take(Warp& w) {
  u32 lane = lowest_or_random(w.ready);
  w.ready &= ~(1u << lane);
  return w.lanes[lane];
}

u32 fruitless;
// Threads that poll keep a block from standing still: what they wait for must land all the same.
static const u32 PATIENCE = 4096;

static Thread* next_warp() {
  check_limit();
  if (UNLIKELY(++fruitless > PATIENCE * warps.size())) {
    fruitless = 0;
    land_something();
  }
  if (L->random_landing && random_below(4) == 0) land_something();
  for (;;) {
    u32 n = (u32)warps.size(), first = L->seed ? random_below(n) : current_warp + 1;
    for (u32 i = 0; i < n; i++) {
      Warp& w = warps[(first + i) % n];
      w.ready |= w.later, w.later = 0;
      if (w.ready) return current_warp = w.index, take(w);
    }
    if (alive_threads == 0) return nullptr;
    if (!land_something()) deadlock();
  }
}

static inline Thread* pick() {
  Warp& w = warps[current_warp];
  return LIKELY(w.ready) ? take(w) : next_warp();
}

static inline __attribute__((always_inline)) void switch_away(Thread* t) {
  Thread* to = pick();
  if (to == t) return;
  running = to;
  swap_stacks(&t->stack_pointer, to->stack_pointer);
}

__attribute__((noinline)) void park(Thread* t, u32 line, const char* why) {
  t->line = line, t->waits_for = why;
  switch_away(t);
  t->waits_for = "";
}

void wake(Thread* t) { t->warp->ready |= 1u << t->lane; }

void yield_now(Thread* t, u32 line) {
  t->fuel = M.slice;
  t->line = line;
  t->warp->later |= 1u << t->lane;
  switch_away(t);
}

static void leave_meetings(Warp* w);
static void leave_barriers();

static void run_fibre() {
  Thread* t = running;
  entry_function(t);
  thread_exit(t);
}

void thread_exit(Thread* t) {
  t->exited = true;
  t->warp->alive &= ~(1u << t->lane);
  alive_threads--;
  leave_meetings(t->warp);
  leave_barriers();
  Thread* to = pick();
  void* unused;
  running = to;
  swap_stacks(&unused, to ? to->stack_pointer : main_stack);
  __builtin_unreachable();
}

static void prepare_stack(Thread* t) {
  u8* top = stacks + (t->id + 1) * (L->stack_bytes + STAGGER);
  top = (u8*)((u64)top & ~63ull);
  u64* p = (u64*)top;
  *--p = 0;                  // run_fibre's return address: never used
  *--p = (u64)run_fibre;     // popped by the switch; leaves the stack as after a call
  t->stack_pointer = p;
}

// Allocated once a launch; a page below each stack is not needed: frames are bounded, and
// recursion is refused when translated.
static bool make_threads() {
  u32 n = M.block[0] * M.block[1] * M.block[2];
  threads.assign(n, Thread());
  warps.assign((n + 31) / 32, Warp());
  u64 need = (n + 1) * (L->stack_bytes + STAGGER);
  if (need > stacks_bytes) {
    if (stacks) munmap(stacks, stacks_bytes);
    stacks = (u8*)mmap(0, need, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    stacks_bytes = need;
  }
  if (stacks == MAP_FAILED) stacks = nullptr, stacks_bytes = 0;
  return stacks;
}

static void reset_thread(Thread& t, u32 id) {
  u32 *clock = t.clock, *proxy = t.proxy;
  u8* local = t.local;
  t = Thread();
  t.clock = clock, t.proxy = proxy, t.local = local;
  t.id = id, t.lane = id % 32, t.warp = &warps[id / 32];
  t.x = id % M.block[0], t.y = id / M.block[0] % M.block[1], t.z = id / M.block[0] / M.block[1];
  t.fuel = M.slice, t.waits_for = "";
  prepare_stack(&t);
}

static void begin_block() {
  for (u32 i = 0; i < warps.size(); i++) warps[i] = Warp(), warps[i].index = i;
  for (u32 id = 0; id < threads.size(); id++) {
    reset_thread(threads[id], id);
    Warp& w = warps[id / 32];
    w.lanes[id % 32] = &threads[id];
    w.exists |= 1u << id % 32;
  }
  for (Warp& w : warps) w.alive = w.ready = w.exists;
  alive_threads = (u32)threads.size();
  current_warp = 0;
}

static void run_block() {
  Thread* first = pick();
  running = first;
  swap_stacks(&main_stack, first->stack_pointer);
}
