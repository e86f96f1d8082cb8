// Global memory's shadow: races within a launch, and reads of what nobody wrote. Kept in pages
// made on first touch; the last writer, and the last readers of two blocks, of each word (of each
// 2 or 1 bytes once a page saw a smaller access). Older readers are forgotten: a race may be
// missed, none is made up.
struct Access3 { u32 block, clock, line; u16 id; u16 valid; };
struct Global { Access3 writer, readers[2]; u8 atomic; };
struct Page { u32 shift; std::vector<Global> cells; };
static std::vector<Page*> pages;  // by number
static const u64 PAGE_BYTES = 4096;

static void reset_global_shadow() {
  for (Page* p : pages) delete p;
  pages.assign(clock_words ? M.arena_bytes / PAGE_BYTES + 1 : 0, nullptr);
}

static Page& page_of(u64 offset, u32 shift) {
  u64 number = offset / PAGE_BYTES;
  if (!pages[number]) {
    pages[number] = new Page();
    pages[number]->shift = 2, pages[number]->cells.resize(PAGE_BYTES >> 2);
  }
  Page& p = *pages[number];
  while (p.shift > shift) {
    std::vector<Global> finer(p.cells.size() * 2);
    for (size_t i = 0; i < finer.size(); i++) finer[i] = p.cells[i / 2];
    p.cells.swap(finer), p.shift--;
  }
  return p;
}

static bool ordered(Thread* t, u32 block, const Access3& a) {
  if (!a.valid) return true;
  if (a.block != block) return seen_block(t, a.block);
  return a.id == t->id || a.clock <= t->clock[a.id];
}

static void global_race(const char* what, Thread* t, u32 line, u64 offset, const Access3& a) {
  report(RACE, line, a.line, "%s at global 0x%llx: thread %u of block %u (line %u) and thread %u of "
         "block %u (line %u) are not ordered", what, (unsigned long long)(offset + M.arena_base),
         t->id, block_number(), line, a.id, a.block, a.line);
}

static void global_read(Global& g, Thread* t, u32 block, u32 line, u64 at, bool atomic) {
  if (!(atomic && g.atomic) && !ordered(t, block, g.writer))
    global_race("read after write", t, line, at, g.writer);
  if (g.readers[0].valid && g.readers[0].block != block) g.readers[1] = g.readers[0];
  g.readers[0] = {block, t->clock[t->id], line, (u16)t->id, 1};
}

static void global_write(Global& g, Thread* t, u32 block, u32 line, u64 at, bool atomic, bool same) {
  bool both = atomic && g.atomic;
  bool exempt = same && g.writer.line == line && g.writer.block == block &&
                g.writer.id / 32 == t->id / 32;
  if (!both && !exempt && !ordered(t, block, g.writer))
    global_race("write after write", t, line, at, g.writer);
  for (const Access3& r : g.readers)
    if (!both && !ordered(t, block, r)) global_race("write after read", t, line, at, r);
  g.writer = {block, t->clock[t->id], line, (u16)t->id, 1};
  g.readers[0].valid = g.readers[1].valid = 0;
  g.atomic = atomic;
}

static void check_written(Thread* t, u32 line, u64 offset, u32 bytes, int access) {
  if (!M.regions[M.granules[offset >> 8]].tracked) return;
  if (!(access & READ)) {
    memset(M.written + offset, 1, bytes);
    return;
  }
  for (u32 i = 0; i < bytes; i++)
    if (!M.written[offset + i]) {
      report(UNINITIALISED, line, 0, "thread %u of block %u,%u,%u reads global 0x%llx, which nobody "
             "wrote", t->id, M.ctaid[0], M.ctaid[1], M.ctaid[2],
             (unsigned long long)(offset + i + M.arena_base));
      break;
    }
  if (access & WRITE) memset(M.written + offset, 1, bytes);
}

static void race_in_page(Thread* t, u32 line, u64 at, u64 end, Page& p, int access, const u8* value) {
  u32 block = block_number(), step = 1u << p.shift;
  for (u64 first = at; at < end; at += step) {
    Global& g = p.cells[(at % PAGE_BYTES) >> p.shift];
    if (access & READ) global_read(g, t, block, line, at, access & STRONG);
    if (!(access & WRITE)) continue;
    bool same = value && !memcmp(M.arena + at, value + (at - first), step);
    global_write(g, t, block, line, at, access & STRONG, same);
  }
}

static void race_global(Thread* t, u32 line, u64 offset, u32 bytes, int access, const void* value) {
  u32 shift = offset % 4 == 0 && bytes % 4 == 0 ? 2 : offset % 2 == 0 && bytes % 2 == 0 ? 1 : 0;
  for (u64 at = offset, end = offset + bytes; at < end;) {
    u64 stop = std::min(end, at / PAGE_BYTES * PAGE_BYTES + PAGE_BYTES);
    race_in_page(t, line, at, stop, page_of(at, shift), access,
                 value ? (const u8*)value + (at - offset) : nullptr);
    at = stop;
  }
}

void watch_global(Thread* t, u32 line, u64 offset, u32 bytes, int access, const void* value) {
  if (checking(COUNTERS)) count_global(t, line, offset, bytes);
  if (checking(UNINITIALISED)) check_written(t, line, offset, bytes, access);
  if (clock_words && M.regions[M.granules[offset >> 8]].writable)
    race_global(t, line, offset, bytes, access, value);
}
