// cp.async (PTX ISA 9.0, 9.7.9.25): each thread's copies land when it waits for their group, or,
// with a seed, at any time before.
struct Copy { u64 from; u32 to, bytes, read, line; };
// Copies in their order from `landed` on; `ends` are where the committed groups end, from `waited`
// on.
struct ThreadCopies {
  std::vector<Copy> queue;
  std::vector<u32> ends;
  u32 landed, waited;
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
  copies[t->id].queue.push_back({at, (u32)offset, bytes, read, line});
}

static void land(Thread* t, const Copy& c) {
  memcpy(M.shared + c.to, M.arena + c.from, c.read);
  memset(M.shared + c.to + c.read, 0, c.bytes - c.read);
  if (clock_words) copy_lands(c.to, c.bytes, c.line, t->clock, (u16)t->id, t->clock[t->id], false);
}

static void land_up_to(Thread* t, ThreadCopies& c, u32 end) {
  for (; c.landed < end; c.landed++) land(t, c.queue[c.landed]);
  if (c.landed == c.queue.size() && c.waited == c.ends.size())
    c.queue.clear(), c.ends.clear(), c.landed = c.waited = 0;
}

void copy_commit(Thread* t) {
  ThreadCopies& c = copies[t->id];
  c.ends.push_back((u32)c.queue.size());
}

void copy_wait(Thread* t, u32 pending) {
  ThreadCopies& c = copies[t->id];
  if (c.ends.size() - c.waited <= pending) return;
  c.waited = (u32)c.ends.size() - pending;
  land_up_to(t, c, c.ends[c.waited - 1]);
}

void copy_wait_all(Thread* t) {
  ThreadCopies& c = copies[t->id];
  c.waited = (u32)c.ends.size();
  land_up_to(t, c, (u32)c.queue.size());
}

// With a seed: some thread's oldest copy that is committed lands early.
static bool land_early() {
  Thread& t = threads[random_below((u32)threads.size())];
  ThreadCopies& c = copies[t.id];
  if (c.ends.size() == c.waited || c.landed >= c.ends[c.waited]) return false;
  land(&t, c.queue[c.landed++]);
  return true;
}
