// Warp collectives: a rendezvous of the lanes of a mask; the last to come does the work.
static Meeting* find_meeting(Warp* w, u32 mask, u32 line, Meet* run) {
  Meeting* vacant = nullptr;
  for (Meeting& m : w->meetings) {
    if (m.arrived && m.mask == mask && m.line == line && m.run == run) return &m;
    if (!m.arrived && !vacant) {
      vacant = &m;
      if (&m == w->meetings) return vacant;
    }
  }
  return vacant;  // 32 slots: one for each lane, so there is one
}

static Meeting* join_meeting(Warp* w, u32 mask, u32 line, Meet* run, u32 count) {
  Meeting* m = find_meeting(w, mask, line, run);
  // The first slot may be vacant while a later one holds the meeting.
  if (!m->arrived)
    for (Meeting& other : w->meetings)
      if (other.arrived && other.mask == mask && other.line == line && other.run == run) m = &other;
  if (!m->arrived) m->mask = mask, m->line = line, m->run = run, m->count = count;
  return m;
}

static void finish_meeting(Warp* w, Meeting& m, u32 except) {
  m.run(w, m);
  w->ready |= m.arrived & ~except;
  m.arrived = 0;
}

// Exited lanes are not waited for (PTX ISA 9.0, bar.warp.sync: "non-exited threads").
__attribute__((noinline)) void meet(Thread* t, u32 line, u32 mask, Meet* run, u32* args,
                                    u32 count = 1, u32 key_line = ~0u,
                                    const u8* same = nullptr) {
  Warp* w = t->warp;
  u32 mine = 1u << t->lane;
  if (UNLIKELY(!(mask & mine))) {
    report(BARRIER, line, 0, "thread %u takes part in a warp operation whose mask 0x%x leaves it out",
           t->id, mask);
    mask |= mine;
  }
  Meeting* m = join_meeting(w, mask, key_line == ~0u ? line : key_line, run, count);
  m->args[t->lane] = args, m->same = same;
  m->arrived |= mine;
  if (m->arrived == (m->mask & w->alive)) return finish_meeting(w, *m, mine);
  t->line = line, t->waits_for = "the other lanes of its warp";
  switch_away(t);
  t->waits_for = "";
}

static void leave_meetings(Warp* w) {
  for (Meeting& m : w->meetings)
    if (m.arrived && m.arrived == (m.mask & w->alive)) finish_meeting(w, m, 0);
}

static void run_warp_sync(Warp* w, Meeting& m) {
  if (!clock_words) return;
  static std::vector<u32> all, all_proxy;
  all.assign(clock_words, 0), all_proxy.assign(clock_words, 0);
  for (u32 i = 0; i < 32; i++)
    if (m.arrived >> i & 1) join(all.data(), w->lanes[i]->clock), join_proxy(all_proxy.data(), w->lanes[i]->proxy);
  for (u32 i = 0; i < 32; i++)
    if (m.arrived >> i & 1) {
      memcpy(w->lanes[i]->clock, all.data(), 4 * clock_words);
      memcpy(w->lanes[i]->proxy, all_proxy.data(), 4 * clock_words);
      tick(w->lanes[i]);
    }
}

void warp_sync(Thread* t, u32 line, u32 mask) { meet(t, line, mask, run_warp_sync, nullptr, 1, 0); }
