// cp.async (PTX ISA 9.0, 9.7.9.25): each thread's copies land when it waits for their group, or,
// with a seed, at any time before.
struct Copy { u64 from; u32 to, bytes, read, line; };
struct ThreadCopies {
  std::vector<Copy> open;
  std::deque<std::vector<Copy>> groups;
};
static std::vector<ThreadCopies> copies;

static void reset_copies() { copies.assign(threads.size(), ThreadCopies()); }

void copy_async(Thread* t, u32 line, u64 to, u64 from, u32 bytes, u32 read) {
  u64 offset = to - SHARED_BASE;
  if (offset >= M.shared_bytes || offset + bytes > M.shared_bytes || to % bytes) {
    fault(t, line, to, bytes, bytes, WRITE, "shared");
    return;
  }
  if (read > bytes) read = bytes;
  u64 at = from - M.arena_base;
  if (read) {
    u8* p = at_global(t, line, from, read, READ, 0, 1);
    if (from % bytes) fault(t, line, from, bytes, bytes, READ, "global");
    if (p != M.arena + at) read = 0;
    else if (L->checks & WATCHED) watch_global(t, line, at, read, READ, 0);
  }
  if (checking(COUNTERS)) count_shared(t, line, (u32)offset, bytes);
  if (clock_words) copy_takes_off((u32)offset, bytes, line, t->clock, (u16)t->id);
  copies[t->id].open.push_back({at, (u32)offset, bytes, read, line});
}

static void land(Thread* t, const Copy& c) {
  memcpy(M.shared + c.to, M.arena + c.from, c.read);
  memset(M.shared + c.to + c.read, 0, c.bytes - c.read);
  if (clock_words) copy_lands(c.to, c.bytes, c.line, t->clock, (u16)t->id, t->clock[t->id], false);
}

static void land_all(Thread* t, std::vector<Copy>& group) {
  for (const Copy& c : group) land(t, c);
  group.clear();
}

void copy_commit(Thread* t) {
  ThreadCopies& c = copies[t->id];
  c.groups.emplace_back();
  c.groups.back().swap(c.open);
}

void copy_wait(Thread* t, u32 pending) {
  auto& groups = copies[t->id].groups;
  while (groups.size() > pending) land_all(t, groups.front()), groups.pop_front();
}

void copy_wait_all(Thread* t) {
  copy_wait(t, 0);
  land_all(t, copies[t->id].open);
}

// With a seed: some thread's oldest group lands early.
static bool land_early() {
  Thread& t = threads[random_below((u32)threads.size())];
  auto& groups = copies[t.id].groups;
  if (groups.empty() || groups.front().empty()) return false;
  land_all(&t, groups.front());
  return true;
}
