// Findings: each (kind, line, other line) once, with how often it was seen.
static std::vector<Finding> findings;
static std::map<std::tuple<u32, u32, u32>, u32> finding_index;
static const u32 MOST_FINDINGS = 200;

void report(Kind kind, u32 line, u32 other, const char* format, ...) {
  if (!checking(kind) && kind != DEADLOCK && kind != TRAP && kind != LIMIT) return;
  auto key = std::make_tuple((u32)kind, line, other);
  auto found = finding_index.find(key);
  if (found != finding_index.end()) {
    findings[found->second].count++;
    return;
  }
  if (findings.size() >= MOST_FINDINGS) return;
  finding_index[key] = (u32)findings.size();
  Finding f = {kind, line, other, 1, {0}};
  va_list args;
  va_start(args, format);
  vsnprintf(f.text, sizeof f.text, format, args);
  va_end(args);
  findings.push_back(f);
}

static u8 scratch[256];

u8* fault(Thread* t, u32 line, u64 address, u32 bytes, u32 align, int access,
          const char* space) {
  const char* verb = access & STRONG ? "atomic" : access & WRITE ? "store" : "load";
  Kind kind = address & (align - 1) ? ALIGNMENT : BOUNDS;
  const char* why = kind == ALIGNMENT ? "a misaligned address" : "an address out of bounds";
  report(kind, line, 0, "thread %u of block %u,%u,%u: %u-byte %s %s at 0x%llx: %s", t->id,
         M.ctaid[0], M.ctaid[1], M.ctaid[2], bytes, space, verb, (unsigned long long)address, why);
  memset(scratch, 0, sizeof scratch);
  return scratch;
}

void trap(Thread* t, u32 line, const char* why) {
  report(TRAP, line, 0, "thread %u of block %u,%u,%u: %s", t->id, M.ctaid[0], M.ctaid[1],
         M.ctaid[2], why);
  t->line = line;
  stop_launch();
}
